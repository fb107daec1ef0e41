"""Bringing the index up to date: lists the source files and has the changed ones parsed.

The parser runs in processes that may only read. One that crashes costs the file that it was
reading, which is then known to have no symbols.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentcli.features.symbols import parser
from agentcli.features.symbols.index import Definition, StaleFiles, SymbolIndex
from agentcli.system import own_process
from agentcli.system.process import run_to_completion
from agentcli.system.workspace import Workspace
from agentcli.tools.search import ripgrep
from agentcli.tools.search.ripgrep import Ripgrep
from agentcli.tools.search.scope import build_scope
from agentcli.types.errors import ToolError

TIME_LIMIT_S = 60.0
"""The time that one call spends on the index. What is left is read at the next."""
BATCH_FILES = 250
"""Files that are parsed and stored together: what is lost if the session is killed."""
PARALLEL = 2

_CRASHED = {"error": "the parser crashed on it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    index: SymbolIndex
    workspace: Workspace
    engine: Ripgrep
    """Lists the files. The parser is started the same way, so it may only read."""
    time_limit_s: float = TIME_LIMIT_S
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while files are read: calls in parallel need the same."""

    async def refresh(self, progress: Callable[[str], None]) -> int:
        """Read what has changed. Return how many files are left for the next time."""
        until = time.monotonic() + self.time_limit_s
        async with self._lock:
            stale = await asyncio.to_thread(self._compare)
            if stale.must_list:
                began_ns = time.time_ns()
                listed = await self._list_files()
                update = partial(self.index.update_list, listed, stale, began_ns=began_ns)
                stale = await asyncio.to_thread(update)
            return await self._read(stale, progress, until)

    def _compare(self) -> StaleFiles:
        """Return what has changed, and the files whose grammar was installed meanwhile."""
        stale = self.index.compare()
        missing = self.index.find_errors(parser.NO_GRAMMAR)
        readable = [path for error, paths in missing.items() if _is_there(error) for path in paths]
        return replace(
            stale, changed=tuple({**dict.fromkeys(stale.changed), **dict.fromkeys(readable)})
        )

    async def outline_file(self, path: bytes) -> Sequence[Definition]:
        """Return what one file defines, without the index. Empty if that is unknown."""
        if Path(os.fsdecode(path)).suffix.lower() not in parser.GRAMMARS:
            return ()
        (parsed,) = await self._parse([path])
        return [
            Definition(path=path, name=name, kind=kind, line=line, last_line=last)
            for name, kind, line, last in parsed.get("definitions", ())
        ]

    async def _read(self, stale: StaleFiles, progress: Callable[[str], None], until: float) -> int:
        left = stale.changed
        while left and time.monotonic() < until:
            if len(stale.changed) > BATCH_FILES:
                progress(f"{len(stale.changed) - len(left)} of {len(stale.changed)} files read\n")
            group, left = left[: BATCH_FILES * PARALLEL], left[BATCH_FILES * PARALLEL :]
            await asyncio.gather(
                *(
                    self._read_batch(group[start : start + BATCH_FILES])
                    for start in range(0, len(group), BATCH_FILES)
                )
            )
        return len(left)

    async def _read_batch(self, paths: Sequence[bytes]) -> None:
        change_times = self.index.get_change_times(paths)
        parsed: list[Mapping[str, Any]] = []
        while len(parsed) < len(paths):
            parsed += await self._parse(paths[len(parsed) :])
        await asyncio.to_thread(self.index.store, paths, change_times, parsed)

    async def _list_files(self) -> Sequence[bytes]:
        endings = ",".join(ending.removeprefix(".") for ending in parser.GRAMMARS)
        scope = await asyncio.to_thread(
            build_scope, self.workspace, path=".", glob=f"**/*.{{{endings}}}"
        )
        found: list[bytes] = []

        def take(record: bytes) -> bool:
            if scope.admits(record):
                found.append(record.removeprefix(b"./"))
            return True

        end = await ripgrep.run_ripgrep(
            scope, ["--files"], engine=self.engine, separator=b"\0", take=take
        )
        if end.failed or end.timed_out:
            raise ToolError(f"The source files cannot be listed: {end.message or 'timeout'}.")
        return found

    async def _parse(self, paths: Sequence[bytes]) -> Sequence[Mapping[str, Any]]:
        """Return the parser's findings, up to and including a file that it crashed on."""
        with tempfile.TemporaryDirectory(prefix="agentcli-") as directory:
            listed = Path(directory) / "paths"
            listed.write_bytes(b"".join(path + b"\0" for path in paths))
            child = self._start_parser(listed)
            reading = asyncio.ensure_future(asyncio.to_thread(_read_lines, child))
            try:
                lines = await asyncio.shield(reading)
            finally:
                child.kill()
                await run_to_completion(asyncio.wait([reading]))
        parsed = [json.loads(line) for line in lines]
        return parsed if len(parsed) == len(paths) else [*parsed, _CRASHED]

    def _start_parser(self, listed: Path) -> "subprocess.Popen[bytes]":
        own = filter(Path.exists, own_process.list_own_modules())
        try:
            return self.engine.start(
                [*own_process.build_python_command(Path(parser.__file__)), str(listed)],
                cwd=self.workspace.root,
                env=own_process.build_least_environment(self.workspace.root),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                readable=[
                    *(self.workspace.root, listed.parent, Path(sys.prefix), Path(sys.base_prefix)),
                    *own,
                ],
            )
        except OSError as error:
            raise ToolError(f"The parser could not be started: {error.strerror}.") from error


def _is_there(error: str) -> bool:
    """Return whether the grammar that a file lacked is installed by now."""
    return find_spec(error.removeprefix(parser.NO_GRAMMAR).partition(" ")[0]) is not None


def _read_lines(child: "subprocess.Popen[bytes]") -> Sequence[bytes]:
    """Return the whole lines that it prints."""
    with child:
        lines = child.stdout.read().splitlines(keepends=True) if child.stdout else []
    return [line for line in lines if line.endswith(b"\n")]
