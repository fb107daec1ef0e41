"""symbols: definitions, uses of a name, and outlines of files, from an index of the workspace."""

import asyncio
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import groupby
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from agentcli.features.symbols import parser
from agentcli.features.symbols.index import Definition
from agentcli.features.symbols.indexer import Indexer
from agentcli.system.text import to_printable
from agentcli.tools.arguments import (
    BuiltinArguments,
    ChoiceCheck,
    TextCheck,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, ErrorKind, Matches, Output, ToolContext, ToolSpec
from agentcli.types.words import pluralize

LINES_MOST = 100
LINE_CHARS = 200
SIMILAR_MOST = 8


_FOUND = ChoiceCheck(words=("definition", "references", "outline"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolsArgs(BuiltinArguments):
    name: str = field(
        default="",
        metadata=declare_argument(TextCheck(), "e.g. load_config; for definition and references"),
    )
    path: str = field(
        default="", metadata=declare_argument(TextCheck(), "e.g. src/app.py; for outline")
    )
    find: Literal["definition", "references", "outline"] | None = field(
        default=None,
        metadata=declare_argument(_FOUND, "default: definition of name, or outline of path"),
    )

    aliases: ClassVar[dict[str, str]] = {
        "symbol": "name",
        "query": "name",
        "file_path": "path",
        "file": "path",
        "action": "find",
        "kind": "find",
    }


class _Hit(NamedTuple):
    """A place in a file that a query found."""

    path: bytes
    line: int
    last_line: int


class _Answer(NamedTuple):
    lines: list[str]
    """The lines that are shown."""
    total: int
    files: int


class Symbols:
    def __init__(self, indexer: Indexer) -> None:
        self._indexer = indexer
        self._index = indexer.index
        self._workspace = indexer.workspace

    @property
    def spec(self) -> ToolSpec:
        return load_spec("symbols")

    def parse(self, raw: Json) -> SymbolsArgs:
        args = parse_arguments(SymbolsArgs, raw)
        needed = "path" if args.find == "outline" or not (args.find or args.name) else "name"
        if not getattr(args, needed):
            example = "src/app.py" if needed == "path" else "Parser"
            also = "" if args.find else ", or a name to find"
            raise ToolError(f"Give {needed}, e.g. {example}{also}.", kind=ErrorKind.INVALID_INPUT)
        return args

    def effect(self, args: SymbolsArgs) -> Effect:
        return Effect.READ

    async def preview(self, args: SymbolsArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: SymbolsArgs, context: ToolContext) -> Output:
        left = await self._indexer.refresh(context.progress)
        find = args.find or ("definition" if args.name else "outline")
        found = await asyncio.to_thread(self._find, find, args)
        is_cut = found.total > len(found.lines)
        text = [*found.lines, *([f"[first {LINES_MOST} of {found.total}]"] if is_cut else [])]
        if find != "outline":
            text += await asyncio.to_thread(self._describe_missing)
        if left:
            text.append(f"[{left} files are not read yet: call again for the whole answer]")
        details = Matches(
            target=args.name or find,
            path=args.path or ".",
            matches=found.total,
            files=found.files,
            more=is_cut or bool(left),
            engine="symbols",
        )
        return Output.of("\n".join(text), details=details, truncated=details.more)

    def _find(self, find: str, args: SymbolsArgs) -> _Answer:
        """Return the first lines of the answer. Files of the others are not even opened."""
        if find == "outline":
            lines = list(self._outline(args.path))
            return _Answer(lines=lines[:LINES_MOST], total=len(lines), files=1)
        is_definition = find == "definition"
        hits = [
            hit
            for hit in (self._find_definitions if is_definition else self._find_references)(
                args.name
            )
            if self._is_shown(hit.path)
        ]
        return _Answer(
            lines=[*self._show(hits[:LINES_MOST])] or [self._say_nothing(args.name)],
            total=len(hits),
            files=len({hit.path for hit in hits}),
        )

    def _outline(self, given: str) -> Iterator[str]:
        path = self._workspace.locate(given)
        name = os.fsencode(path.relative)
        error = self._index.get_error(name) if path.root == self._workspace.root else None
        if error is None:
            known = path.path.suffix.lower() in parser.GRAMMARS
            why = "it is ignored or not there" if known else "its language is not known"
            raise ToolError(f"{path.given} is not in the index: {why}. Use read_file or grep.")
        if error:
            raise ToolError(f"{path.given} is in the index without symbols: {error}.")
        yield from indent(self._index.outline(name)) or [f"{path.given} defines nothing."]

    def _find_definitions(self, name: str) -> Iterator[_Hit]:
        *scope, last = name.replace("::", ".").split(".")
        for one in self._index.find_definitions(last):
            if self._is_inside(one, scope):
                yield _Hit(one.path, one.line, one.last_line)

    def _is_inside(self, one: Definition, scope: Sequence[str]) -> bool:
        """Return whether it is in a definition or a file of this name, if one is asked for."""
        if not scope:
            return True
        around = {
            other.name
            for other in self._index.outline(one.path)
            if other.line <= one.line and one.last_line <= other.last_line
        }
        return scope[-1] in around or scope[-1] == Path(os.fsdecode(one.path)).stem

    def _find_references(self, name: str) -> Iterator[_Hit]:
        last = name.replace("::", ".").rpartition(".")[2]
        defined = {(one.path, one.line) for one in self._index.find_definitions(last)}
        for mention in self._index.find_mentions(last):
            for line in mention.lines:
                if (mention.path, line) not in defined:
                    yield _Hit(mention.path, line, line)

    def _show(self, hits: Sequence[_Hit]) -> Iterator[str]:
        for path, in_file in groupby(hits, key=lambda hit: hit.path):
            source = self._read_lines(path)
            for hit in in_file:
                last_line = f"-{hit.last_line}" if hit.last_line > hit.line else ""
                yield f"{_show(path)}:{hit.line}{last_line}: {_cut(source, hit.line)}"

    def _describe_missing(self) -> list[str]:
        """Return a line for each language whose files are not in the answer."""
        found = self._index.find_errors(parser.NO_GRAMMAR)
        missing = {error: [*filter(self._is_shown, paths)] for error, paths in found.items()}
        return [
            f"[{pluralize(len(paths), 'file')} not read, "
            f"e.g. {to_printable(os.fsdecode(paths[0]))}: {error}]"
            for error, paths in missing.items()
            if paths
        ]

    def _say_nothing(self, name: str) -> str:
        near = self._index.find_similar(name.rpartition(".")[2], SIMILAR_MOST)
        hint = f" Names like it: {', '.join(near)}." if near else " Try grep."
        return f"Nothing in the index is called {to_printable(name)}.{hint}"

    def _is_shown(self, path: bytes) -> bool:
        place = self._workspace.root / os.fsdecode(path)
        hides, asks = self._workspace.hides, self._workspace.asks_to_read
        return not (hides and hides(place)) and not (asks and asks(place, ()))

    def _read_lines(self, path: bytes) -> Sequence[str]:
        """Return the lines of a file; none if it was removed meanwhile."""
        try:
            handle = self._workspace.open_file(self._workspace.locate(os.fsdecode(path)))
        except (ToolError, OSError):
            return ()
        with os.fdopen(handle, "rb") as file:
            return file.read(parser.LIMIT_BYTES).decode("utf-8", "replace").split("\n")


def indent(definitions: Iterable[Definition]) -> list[str]:
    """Return one line for each, indented by the definitions around it."""
    around: list[int] = []
    lines: list[str] = []
    for one in definitions:
        while around and around[-1] < one.last_line:
            around.pop()
        span = f"{one.line}-{one.last_line}" if one.last_line > one.line else f"{one.line}"
        lines.append(f"{'  ' * len(around)}{span} {one.kind} {to_printable(one.name)}")
        around.append(one.last_line)
    return lines


def _cut(source: Sequence[str], line: int) -> str:
    return to_printable(source[line - 1].strip()[:LINE_CHARS]) if line <= len(source) else ""


def _show(path: bytes) -> str:
    return to_printable(os.fsdecode(path))
