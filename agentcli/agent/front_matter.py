"""Front matter (`---`, YAML, `---`) as real files have it, and the text after it.

Files for agents are written by hand and for other programs. A colon in a description that nobody
quoted, a list written as words, a missing fence or a missing field must not lose the file. What
cannot be used is left out and named; only an empty or unreadable file is refused.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml

from agentcli.system.files import is_file, read_regular
from agentcli.system.lazy import compile_later
from agentcli.system.plain_text import show_controls
from agentcli.types.events import Warned

LIMIT_BYTES = 64_000
NAME_CHARS = 64
NAME_SHOWN = 80
INVALID_SHOWN = 5
"""The number of invalid files that are named; the rest is only counted."""
LEFT_OUT_SHOWN = 12
DESCRIPTION_CHARS = 1024

NOTES_FOR_PEOPLE = frozenset(
    (
        *("author", "authors", "category", "color", "compatibility", "created", "date", "emoji"),
        *("homepage", "icon", "id", "keywords", "license", "links", "metadata", "repository"),
        *("source", "status", "tags", "title", "updated", "url", "version"),
    )
)
"""Keys that describe a file to people. They have no effect anywhere, so none is missed."""

_FENCE = compile_later(r"-{3,}[ \t]*")
_CLOSING = compile_later(r"(?:-{3,}|\.{3})[ \t]*")
_FIELD = compile_later(r"([A-Za-z_][\w.-]*)[ \t]*:(?:[ \t]+(.*)|)")
_ITEM = compile_later(r"[ \t]*-[ \t]+(.+)")
_ONE_LIST = compile_later(r"\[[^\[\]]*\]")
_BLOCK = compile_later(r"[|>][+-]?\d?")
_WORDS = {"true": True, "yes": True, "false": False, "no": False, "null": None, "~": None}


class InvalidFile(ValueError):
    """A file that cannot be used; the message tells the user why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    name: str
    description: str
    fields: Mapping[str, Any]
    body: str

    def list_unknown(self, known: Collection[str]) -> tuple[str, ...]:
        """Return `key NAME` for every field that has an effect elsewhere, but none here."""
        usual = {"name", "description", *known}
        return tuple(
            f"key {show_controls(key)[:NAME_SHOWN]}"
            for key in self.fields
            if key not in usual and key.lower() not in NOTES_FOR_PEOPLE
        )


class NamedFile(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def left_out(self) -> tuple[str, ...]: ...


N = TypeVar("N", bound=NamedFile)


def read_all(
    paths: Iterable[Path], read_one: Callable[[Path], N], *, kind: str
) -> tuple[list[N], list[Warned]]:
    """Read all files; the first of each name wins. `kind` is `skill` or `role`.

    There is a warning for each file that cannot be used, one for all second definitions of a name,
    and one for everything that was left out of files."""
    found: dict[str, tuple[N, Path]] = {}
    bad: list[Warned] = []
    twice: list[str] = []
    for path in paths:
        try:
            one = read_one(path)
        except InvalidFile as why:
            bad.append(Warned(code=f"{kind}.invalid", message=f"{show_controls(str(path))}: {why}"))
            continue
        if one.name in found:
            first = found[one.name][1]
            twice.append(show_controls(f"{one.name}: {first} wins over {path}"))
        found.setdefault(one.name, (one, path))
    if len(bad) > INVALID_SHOWN:
        message = f"and {len(bad) - INVALID_SHOWN} more cannot be used"
        bad = [*bad[:INVALID_SHOWN], Warned(code=f"{kind}.invalid", message=message)]
    files = [one for one, _ in found.values()]
    return files, [*bad, *_warn_twice(twice, kind), *_warn_left_out(files, kind)]


def _warn_twice(twice: Sequence[str], kind: str) -> Iterable[Warned]:
    if twice:
        more = len(twice) - INVALID_SHOWN
        listed = [*twice[:INVALID_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        yield Warned(code=f"{kind}.twice", message=f"two {kind}s of one name: {'; '.join(listed)}")


def _warn_left_out(files: Iterable[NamedFile], kind: str) -> Iterable[Warned]:
    names = list(dict.fromkeys(what for one in files for what in one.left_out))
    if names:
        more = len(names) - LEFT_OUT_SHOWN
        listed = [*names[:LEFT_OUT_SHOWN], *([f"and {more} more"] if more > 0 else [])]
        message = f"{kind}s: without effect here: {', '.join(listed)} (agentcli doctor --project)"
        yield Warned(code=f"{kind}.left-out", message=message)


def read_front_matter(path: Path, *, default_name: str) -> FrontMatter:
    """Read a file; raise InvalidFile if it cannot be used."""
    return parse_front_matter(read_text(path), default_name=default_name)


def parse_front_matter(text: str, *, default_name: str) -> FrontMatter:
    """Parse a file. A missing description is the first line of the text. Raise InvalidFile."""
    fields, body = split_front_matter(text)
    body = show_controls(body.strip())
    description = read_words(fields.get("description")) or _find_first_line(body)
    if not description:
        raise InvalidFile("it has neither a description nor a text")
    return FrontMatter(
        name=build_name(fields.get("name"), default=default_name),
        description=show_controls(description)[:DESCRIPTION_CHARS],
        fields=fields,
        body=body,
    )


def build_name(given: Any, *, default: str) -> str:
    """Return a name that can be typed: `Code Reviewer` is `code-reviewer`. Raise InvalidFile."""
    for written in (given, default):
        if isinstance(written, str):
            plain = re.sub(r"[^a-z0-9_]+", "-", written.lower()[:NAME_SHOWN]).strip("-_")
            if plain:
                return plain[:NAME_CHARS].rstrip("-_")
    raise InvalidFile("its name has neither letters nor digits")


def read_words(value: Any) -> str:
    """Return a text in one line; empty for a value that is no text."""
    match value:
        case str():
            return " ".join(value.split())
        case bool() | None:
            return ""
        case int() | float():
            return str(value)
        case list() if all(isinstance(one, str) for one in value):
            return " ".join(" ".join(value).split())
        case _:
            return ""


def read_names(value: Any) -> list[str]:
    """Return a list of names, written as a list, or separated by commas or blanks."""
    if isinstance(value, str):
        value = _split_outside_brackets(value.strip().removeprefix("[").removesuffix("]"))
    if not isinstance(value, list):
        return []
    names = (one.strip().strip("'\"") for one in value if isinstance(one, str))
    return [name for name in names if name]


def _split_outside_brackets(text: str) -> list[str]:
    """Split at commas, or at blanks if there is none, but not in `Bash(git add:*)` or `{a,b}`."""
    outside = re.sub(r"\([^)]*\)|\{[^}]*\}", "", text)
    separator = "," if "," in outside else r"\s"
    return re.split(rf"{separator}(?![^(]*\))(?![^{{]*\}})", text)


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields and the text after them. There may be no fields."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.lstrip("\n").split("\n")
    if not _FENCE.fullmatch(lines[0]):
        return {}, text
    end = next((at for at, line in enumerate(lines) if at and _CLOSING.fullmatch(line)), None)
    if end is None:
        end = _find_end_of_fields(lines)
        return parse_fields("\n".join(lines[1:end])), "\n".join(lines[end:])
    return parse_fields("\n".join(lines[1:end])), "\n".join(lines[end + 1 :])


def _find_end_of_fields(lines: Sequence[str]) -> int:
    """Return the first line that belongs to no field, where the closing fence is missing."""
    for at, line in enumerate(lines):
        is_part = _FIELD.fullmatch(line) or (line[:1].isspace() and line.strip())
        if at and not is_part and not _ITEM.fullmatch(line):
            return at
    return len(lines)


def parse_fields(text: str) -> dict[str, Any]:
    """Return the fields of a header: as YAML if it is that, or else line by line."""
    try:
        fields = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        fields = None
    if isinstance(fields, dict):
        return {str(key)[:NAME_SHOWN]: value for key, value in fields.items()}
    return _parse_lines(text)


def _parse_lines(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    key = ""
    for line in text.split("\n"):
        if found := _FIELD.fullmatch(line):
            key = found[1]
            fields[key] = _parse_value(found[2] or "")
        elif key and (item := _ITEM.fullmatch(line)):
            before = fields[key]
            fields[key] = [*(before if isinstance(before, list) else []), _unquote(item[1])]
        elif key and line.strip() and isinstance(fields[key], str):
            fields[key] = f"{fields[key]} {line.strip()}".strip()
    return fields


def _parse_value(written: str) -> Any:
    text = written.strip()
    if _ONE_LIST.fullmatch(text):
        return read_names(text)
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return "" if _BLOCK.fullmatch(text) else _unquote(text)


def _unquote(text: str) -> str:
    text = text.strip()
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1] if is_quoted else text


def _find_first_line(body: str) -> str:
    lines = (line.strip().lstrip("#>*- ").strip() for line in body.splitlines())
    return next((line for line in lines if line), "")


def read_text(path: Path) -> str:
    """Read the beginning of a file; raise InvalidFile if it is no text file."""
    if not is_file(path):  # reading from a pipe could block for ever
        raise InvalidFile("it is not a regular file")
    try:
        data = read_regular(path, LIMIT_BYTES)
    except OSError as error:
        raise InvalidFile(error.strerror or str(error)) from error
    return decode_text(data)


def decode_text(data: bytes) -> str:
    """Return the text of a file; raise InvalidFile if it is binary."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    if b"\0" in data:
        raise InvalidFile("it is not a text file")
    return data[:LIMIT_BYTES].decode("utf-8-sig", "replace")
