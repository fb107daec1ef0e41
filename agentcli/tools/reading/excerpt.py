"""A stretch of lines of a file, as much of it read as is needed to know them.

A file within the limit is read as a whole: its lines are counted, its bytes are known.
"""

from dataclasses import dataclass

from agentcli.machine.text import Encoding, decode
from agentcli.types.errors import ToolError

LINE_CHARS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    lines: list[str]
    """Without newlines, and cut where they are very long."""
    first: int
    """The number of the first; below zero: counted from the end."""
    total: int | None
    """How many lines the file has, where that is known."""
    has_more: bool
    encoding: Encoding
    ending: str = ""
    """What lines end with, where it is not a newline."""
    has_final_newline: bool = True


def excerpt_of(data: bytes, *, offset: int, limit: int) -> Excerpt:
    """From all of a file. NotText for a binary one; ToolError when the lines are not there."""
    text, encoding = decode(data)
    lines = text.split("\n")
    has_final_newline = lines[-1] == ""
    if has_final_newline:
        lines.pop()
    start = first_index(offset, len(lines))
    if start >= len(lines) > 0:
        raise past_the_end(len(lines), offset)
    return Excerpt(
        lines=[shortened(line.removesuffix("\r")) for line in lines[start : start + limit]],
        first=start + 1,
        total=len(lines),
        has_more=start + limit < len(lines),
        encoding=encoding,
        ending=_ending(text),
        has_final_newline=has_final_newline,
    )


def first_index(offset: int, total: int) -> int:
    """Of what an offset means, counted from 0. It may be past the end."""
    return max(offset, 1) - 1 if offset >= 0 else max(total + offset, 0)


def past_the_end(total: int, offset: int) -> ToolError:
    lines = "1 line" if total == 1 else f"{total} lines"
    return ToolError(f"The file has {lines}; offset {offset} is past the end.")


def shortened(line: str, *, length: int | None = None, about: str = "") -> str:
    """Where only its beginning is known, `length` is how long the line is, or `about` so long."""
    length = len(line) if length is None else length
    if length <= LINE_CHARS:
        return line
    return f"{line[:LINE_CHARS]}… [line has {about}{length} characters]"


def _ending(text: str) -> str:
    crlf = text.count("\r\n")
    if not crlf:
        return ""
    return "CRLF" if crlf == text.count("\n") else "mixed CRLF and LF"
