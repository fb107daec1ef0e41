"""A stand-in for ripgrep: a program that knows the options our tools pass, and answers the same.

It is a process of its own because a regular expression of Python may take for ever and cannot be
interrupted; a process can be killed. Files over 8 MB are not searched: stderr says how many.

It reads nothing outside the directory that its environment names, whatever is swapped meanwhile:
once started it is where it is, and from there it opens everything by handles and follows no link.
"""

import argparse
import base64
import bisect
import json
import os
import re
import sys
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentcli.machine.folder import Folder
from agentcli.tools.searching import globs
from agentcli.tools.searching.ignore import rules_in, rules_of
from agentcli.tools.searching.regex import RegexError, compiled
from agentcli.tools.searching.walk import WITHIN, Found, Walk

FILE_LIMIT_BYTES = 8_000_000
_REGEXP = "--regexp="


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Lines that belong to one match, or to several that touch."""

    first: int
    end: int
    column: int
    """Where in the first line the match begins, in characters."""
    length: int


class _Text:
    """A decoded file as lines, counted from 0."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        if not self.lines[-1]:
            self.lines.pop()

    def line(self, number: int) -> str:
        is_last = number + 1 == len(self.lines) and not self.text.endswith("\n")
        return self.lines[number] + ("" if is_last else "\n")

    def matching_lines(self, regex: re.Pattern[str]) -> Iterator[_Block]:
        for number, line in enumerate(self.lines):
            found = regex.search(line)
            if found:
                length = found.end() - found.start()
                yield _Block(first=number, end=number + 1, column=found.start(), length=length)

    def matching_spans(self, regex: re.Pattern[str]) -> Iterator[_Block]:
        """Matches that may cross lines; those whose lines touch come as one."""
        starts = [0, *(found.end() for found in re.finditer("\n", self.text))]
        held: _Block | None = None
        for found in regex.finditer(self.text):
            if found.start() == len(self.text):
                break
            first = bisect.bisect_right(starts, found.start()) - 1
            end = bisect.bisect_left(starts, max(found.end(), found.start() + 1))
            if held and first <= held.end:
                held = replace(held, end=max(held.end, end))
                continue
            if held:
                yield held
            column = found.start() - starts[first]
            length = found.end() - found.start()
            held = _Block(first=first, end=end, column=column, length=length)
        if held:
            yield held


class _Printer:
    """Matches as ripgrep's JSON lines."""

    def __init__(self, path: bytes, context: int) -> None:
        self._path = _bytes(path)
        self._context = context

    def messages(self, text: _Text, blocks: Sequence[_Block]) -> Iterator[dict[str, Any]]:
        shown = 0
        stops = [*(block.first for block in blocks[1:]), len(text.lines)]
        for block, stop in zip(blocks, stops, strict=False):
            for number in range(max(shown, block.first - self._context), block.first):
                yield self._message("context", text.line(number), number)
            lines = "".join(text.line(number) for number in range(block.first, block.end))
            start = len(_encoded(lines[: block.column]))
            end = start + len(_encoded(lines[block.column : block.column + block.length]))
            yield self._message("match", lines, block.first, [{"start": start, "end": end}])
            shown = min(block.end + self._context, stop)
            for number in range(block.end, shown):
                yield self._message("context", text.line(number), number)

    def _message(
        self, kind: str, lines: str, number: int, submatches: Sequence[dict[str, int]] = ()
    ) -> dict[str, Any]:
        data = {
            "path": self._path,
            "lines": _bytes(_encoded(lines)),
            "line_number": number + 1,
            "submatches": submatches,
        }
        return {"type": kind, "data": data}


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _bytes(raw: bytes) -> dict[str, str]:
    try:
        return {"text": raw.decode()}
    except UnicodeDecodeError:
        return {"bytes": base64.b64encode(raw).decode()}


def _decoded(raw: bytes) -> str:
    """As ripgrep decodes: by the byte order mark, else UTF-8, with invalid bytes kept apart."""
    if raw.startswith(BOM_UTF16_LE):
        return raw[2:].decode("utf-16-le", "replace")
    if raw.startswith(BOM_UTF16_BE):
        return raw[2:].decode("utf-16-be", "replace")
    return raw.removeprefix(BOM_UTF8).decode("utf-8", "surrogateescape")


class _Search:
    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._regex = compiled(
            options.regexp, literal=options.fixed_strings, ignore_case=options.ignore_case
        )
        self.too_big = 0

    def search(self, found: Found) -> Iterator[bytes]:
        """What is printed about one file."""
        text = self._read(found)
        if text is None:
            return
        path = b"./" + found.path
        if self._options.count:
            if count := self._count(text):
                yield path + b"\0" + str(count).encode() + b"\n"
            return
        blocks = list(self._blocks(text))
        for message in _Printer(path, self._options.context).messages(text, blocks):
            yield json.dumps(message, ensure_ascii=False).encode() + b"\n"

    def _read(self, found: Found) -> _Text | None:
        try:
            with os.fdopen(found.open(), "rb") as file:
                raw = file.read(FILE_LIMIT_BYTES + 1)
        except OSError:
            return None
        if len(raw) > FILE_LIMIT_BYTES:
            self.too_big += 1
            return None
        text = _decoded(raw)
        return None if "\0" in text and not self._options.text else _Text(text)

    def _blocks(self, text: _Text) -> Iterator[_Block]:
        if self._options.multiline:
            return text.matching_spans(self._regex)
        return text.matching_lines(self._regex)

    def _count(self, text: _Text) -> int:
        if self._options.multiline:
            return sum(1 for _ in self._regex.finditer(text.text))
        return sum(1 for _ in text.matching_lines(self._regex))


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="search", allow_abbrev=False)
    for always in ("config", "require-git", "messages", "ignore-messages", "mmap"):
        parser.add_argument(f"--no-{always}", action="store_true")
    for elsewhere in ("parent", "global"):
        parser.add_argument(f"--no-ignore-{elsewhere}", action="store_true")
    for flag in ("--hidden", "--null", "--json", "--files", "--no-ignore", "--text", "--count"):
        parser.add_argument(flag, action="store_true")
    for flag in ("--with-filename", "--ignore-case", "--fixed-strings", "--multiline"):
        parser.add_argument(flag, action="store_true")
    for option in ("--sort", "--path-separator", "--ignore-file", "--type"):
        parser.add_argument(option)
    for option in ("--glob", "--type-add"):
        parser.add_argument(option, action="append", default=[])
    parser.add_argument("--context", type=int, default=0)
    parser.add_argument("path")
    # A pattern of two dashes would be the end of the options to argparse, whatever is before it.
    options = parser.parse_args([one for one in arguments if not one.startswith(_REGEXP)])
    options.regexp = "".join(
        one.removeprefix(_REGEXP) for one in arguments if one.startswith(_REGEXP)
    )
    return options


def _files(options: argparse.Namespace) -> Iterator[Found]:
    with Folder.open(Path()) as here:
        if options.path == ".":
            yield from _walked(options, here)
        else:
            yield Found(os.fsencode(options.path).removeprefix(b"./"), here)


def _walked(options: argparse.Namespace, here: Folder) -> Iterator[Found]:
    names = [globs.compiled(addition.partition(":")[2]) for addition in options.type_add]
    excluded = [replace(rule, keeps=False) for glob in options.glob for rule in rules_of(glob)]
    walk = Walk(
        excluded=excluded,
        reads_ignore_files=not options.no_ignore,
        rules=rules_in(Path(options.ignore_file)) if options.ignore_file else (),
    )
    for found in walk.files(here):
        if not names or any(wanted.fullmatch(found.name) for wanted in names):
            yield found


def _is_within(root: str) -> bool:
    """Whether we are below a directory: where we really are, not how one may come here."""
    try:
        here = Path.cwd()
        return any(above.samefile(root) for above in (here, *here.parents))
    except OSError:  # it is gone, or lies where we may not look
        return False


def main(arguments: Sequence[str]) -> int:
    """Not 0 only if it fails: where ripgrep says by its exit code that it found nothing, 0 too."""
    options = _options(arguments)
    out = sys.stdout.buffer
    if not _is_within(os.environ.get(WITHIN, ".")):
        sys.stderr.write("the directory was moved meanwhile")
        return 0
    if options.files:
        out.writelines(b"./" + found.path + b"\0" for found in _files(options))
        return 0
    try:
        search = _Search(options)
    except RegexError as error:
        sys.stderr.write(f"error: {error}")
        return 2
    for found in _files(options):
        out.writelines(search.search(found))
        out.flush()
    if search.too_big:
        sys.stderr.write(f"files over 8 MB that were not searched: {search.too_big}")
    return 0
