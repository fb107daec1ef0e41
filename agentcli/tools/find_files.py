"""find_files: list files by name, newest first, with ripgrep."""

import asyncio
import heapq
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import field
from typing import ClassVar

from agentcli.system.text import to_printable
from agentcli.system.workspace import Workspace
from agentcli.tools.arguments import (
    BuiltinArguments,
    TextCheck,
    WholeCheck,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.tools.hidden import NOTHING_HIDDEN, HiddenValues
from agentcli.tools.search import ripgrep
from agentcli.tools.search.globs import is_literal
from agentcli.tools.search.ripgrep import Ripgrep, SearchEnd
from agentcli.tools.search.scope import SearchScope, build_scope, is_directory
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, ErrorKind, Matches, Output, ToolContext, ToolSpec

OUTPUT_LIMIT_BYTES = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FindFilesArgs(BuiltinArguments):
    glob: str = field(
        metadata=declare_argument(TextCheck(is_filled=True), "e.g. *.py or src/**/*.{ts,tsx}")
    )
    path: str = field(default=".", metadata=declare_argument(TextCheck(), "e.g. src"))
    limit: int = field(
        default=100, metadata=declare_argument(WholeCheck(least=1, most=1000), "e.g. 20; most 1000")
    )

    aliases: ClassVar[dict[str, str]] = {
        "pattern": "glob",
        "name": "glob",
        "query": "glob",
        "directory": "path",
        "dir_path": "path",
        "max_results": "limit",
        "head_limit": "limit",
    }


class FindFiles:
    def __init__(
        self, *, workspace: Workspace, engine: Ripgrep, hidden: HiddenValues = NOTHING_HIDDEN
    ) -> None:
        self._workspace = workspace
        self._engine = engine
        self._hidden = hidden

    @property
    def spec(self) -> ToolSpec:
        return load_spec("find_files")

    def parse(self, raw: Json) -> FindFilesArgs:
        return parse_arguments(FindFilesArgs, raw)

    def effect(self, args: FindFilesArgs) -> Effect:
        return Effect.READ

    async def preview(self, args: FindFilesArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: FindFilesArgs, context: ToolContext) -> Output:
        path = args.path or "."
        glob = self._hidden.restore_glob(args.glob)
        scope = await asyncio.to_thread(
            build_scope, self._workspace, path=path, glob=glob, granted=context.grants
        )
        if scope.target != ".":
            raise ToolError(f"{scope.where} is a file, not a directory.")
        dated: list[tuple[int, bytes]] = []
        root = os.fsencode(scope.cwd)

        def take(record: bytes) -> bool:
            if scope.admits(record):
                with suppress(OSError):  # the file is gone by now
                    dated.append((-os.lstat(root + b"/" + record).st_mtime_ns, record))
            return True

        finish = await ripgrep.run_ripgrep(
            scope, ["--files"], engine=self._engine, separator=b"\0", take=take
        )
        if finish.failed:
            raise ToolError(f"The search failed: {finish.message}.")
        newest = heapq.nsmallest(args.limit, dated)
        lines = _limit_lines(scope.display(found) for _, found in newest)
        details = Matches(
            target=args.glob,
            path=path,
            matches=len(dated),
            files=len(dated),
            more=len(lines) < len(dated) or finish.timed_out,
            engine="ripgrep",
        )
        if len(lines) < len(dated):
            lines.append(f"[first {len(lines)} of {len(dated)} files; narrow the glob]")
        lines = lines or [await self._explain_nothing(args, scope, finish=finish)]
        lines += (f"[{note}]" for note in (*finish.notes(), *scope.list_left_out()))
        return Output.of("\n".join(lines), details=details, truncated=details.more)

    async def _explain_nothing(
        self, args: FindFilesArgs, scope: SearchScope, *, finish: SearchEnd
    ) -> str:
        text = f"No files match {to_printable(args.glob)} in {scope.where}"
        if finish.timed_out:
            raise ToolError(f"{text} so far: {next(finish.notes())}.", kind=ErrorKind.TIMEOUT)
        return f"{text}.{await self._hint(args, scope)}"

    async def _hint(self, args: FindFilesArgs, scope: SearchScope) -> str:
        """Return why a file that was meant may not have been found, or an empty string."""
        named = scope.root / args.path / args.glob
        if await asyncio.to_thread(is_directory, named):
            return f" It is a directory: use {to_printable(args.glob).removesuffix('/')}/**."
        found = await self._find_first(scope.without_ignores())
        if found is None:
            deeper = await self._hint_deeper(args) or hint_glob(to_printable(args.glob))
            return deeper or await self._hint_missing(args, scope)
        if scope.admits(found):
            return f" {scope.display(found)} does, but is ignored: set path to its directory."
        return f" Case counts: did you mean {scope.display(found)}?"

    async def _hint_deeper(self, args: FindFilesArgs) -> str:
        """Return the glob of files that are deeper, or in a directory of that name."""
        glob = args.glob.removeprefix("./").rstrip("/")
        head, slash, name = glob.rpartition("/")
        wider = (f"{head}/**/{name}", f"**/{glob}") if slash and head else ()
        for deeper in (*wider, f"**/{glob}/**") if glob and "**" not in glob else ():
            try:
                scope = await asyncio.to_thread(
                    build_scope, self._workspace, path=args.path or ".", glob=deeper
                )
            except ToolError:  # the directory was replaced after it was searched
                return ""
            if await self._find_first(scope) is not None:
                return f" There are some deeper: use {to_printable(deeper)}."
        return ""

    async def _hint_missing(self, args: FindFilesArgs, scope: SearchScope) -> str:
        first, slash, _ = args.glob.removeprefix("./").partition("/")
        if not (first and slash and is_literal(first)):
            return ""
        base = scope.root / (args.path or ".") / first
        is_there = await asyncio.to_thread(is_directory, base)
        return "" if is_there else f" There is no directory {to_printable(first)}."

    async def _find_first(self, scope: SearchScope) -> bytes | None:
        found: list[bytes] = []

        def take(record: bytes) -> bool:
            found.extend([record] if scope.admits(record) else [])
            return not found

        await ripgrep.run_ripgrep(
            scope,
            ["--files", "--sort=path"],
            engine=self._engine.with_short_limit(),
            separator=b"\0",
            take=take,
        )
        return found[0] if found else None


def _limit_lines(lines: Iterable[str]) -> list[str]:
    bounded: list[str] = []
    left_bytes = OUTPUT_LIMIT_BYTES
    for line in lines:
        left_bytes -= len(line.encode()) + 1
        if left_bytes < 0:
            break
        bounded.append(line)
    return bounded


_SEVERAL = re.compile(r"\s|\||,[^{}]*$")
_EXPRESSION = re.compile(r"\.\*|\\\.|^\^|\$$")


def hint_glob(glob: str) -> str:
    """Return how a glob that matches nothing may be meant, or an empty string."""
    if _EXPRESSION.search(glob):
        return " It is a glob, not a regular expression: write *.py, not .*\\.py$."
    if _SEVERAL.search(glob.strip()):
        return " It is one glob: several are written *.{py,md}."
    if glob.startswith("~"):
        return " ~ is not expanded, and the workspace alone is searched."
    if glob.replace("_", "").replace("-", "").isalnum():
        return f" A part of a name is written *{glob}*."
    return ""
