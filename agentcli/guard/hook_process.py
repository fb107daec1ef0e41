"""One run of a hook's command: words in, exit code and output out, within a time limit.

Its streams are files, not pipes: nobody waits for a grandchild that keeps one open, and a hook that
does not read its input blocks nothing.
"""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agentcli.machine import tree
from agentcli.machine.process import exited

LARGEST_OUTPUT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    exit_code: int
    stdout: str
    stderr: str


class HookProblem(Exception):
    """It could not be run, or did not come to an end by itself."""


async def run_hook(
    command: str | tuple[str, ...],
    *,
    stdin: bytes,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
) -> HookRun:
    """Raises HookProblem."""
    with (
        tempfile.TemporaryFile() as given,
        tempfile.TemporaryFile() as stdout,
        tempfile.TemporaryFile() as stderr,
    ):
        given.write(stdin)
        given.seek(0)
        child = _started(command, streams=(given, stdout, stderr), cwd=cwd, env=env)
        exit_code = await _awaited(child, timeout_s)
        return HookRun(exit_code=exit_code, stdout=_text(stdout), stderr=_text(stderr))


def _started(
    command: str | tuple[str, ...],
    *,
    streams: tuple[IO[bytes], IO[bytes], IO[bytes]],
    cwd: Path,
    env: Mapping[str, str],
) -> "subprocess.Popen[bytes]":
    stdin, stdout, stderr = streams
    try:
        return subprocess.Popen(
            command,
            shell=isinstance(command, str),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise HookProblem(f"could not be started: {error}") from None


async def _awaited(child: "subprocess.Popen[bytes]", timeout_s: float) -> int:
    try:
        async with asyncio.timeout(timeout_s):
            return await exited(child)
    except TimeoutError:
        raise HookProblem(f"did not end within {timeout_s:g} s and was killed") from None
    finally:
        if child.poll() is None:
            _kill(child)


def _kill(child: "subprocess.Popen[bytes]") -> None:
    if os.name == "posix":
        tree.tell_group(child.pid, tree.KILL)
    child.kill()
    child.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    content = file.read(LARGEST_OUTPUT_BYTES + 1)
    if len(content) > LARGEST_OUTPUT_BYTES:
        raise HookProblem(f"printed more than {LARGEST_OUTPUT_BYTES} bytes")
    return content.decode("utf-8", errors="replace").strip()
