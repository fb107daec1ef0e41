"""One run of a hook: input in, exit code and output out, within limits.

Nobody waits for a grandchild that keeps a stream open. A hook that does not read its input blocks
nothing. One that prints without end is killed before it costs memory or disk. A hook that exceeds
its time limit is killed with all its descendants, whatever session they have moved to.
"""

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from agentcli.system import own_process, process, process_tree
from agentcli.system.environment import add_tag, is_secret_name
from agentcli.system.process import Pipe, Steps
from agentcli.types.fast_dataclass import dataclass

LARGEST_OUTPUT_BYTES = 1_000_000

_KILL: Steps = ((process_tree.KILL, 1.0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRun:
    exit_code: int
    stdout: str
    stderr: str


class HookProblem(Exception):
    """A hook that did not check what it was given: not started, not ended, or not understood."""


def build_hook_environment(
    environ: Mapping[str, str], *, pass_env: Iterable[str], secret: Iterable[str], project: Path
) -> dict[str, str]:
    """Return the user's environment without secrets, and with the project's directory.

    A hook runs outside any sandbox, so no program in the project is found by its bare name.

    `secret` has names or globs of secret variables, besides those whose names say so.
    CLAUDE_PROJECT_DIR is there because existing hooks find their files by it.
    """
    passed, hidden = set(pass_env), tuple(secret)
    kept = {
        name: value
        for name, value in environ.items()
        if name in passed
        or not (is_secret_name(name) or any(fnmatchcase(name, one) for one in hidden))
    }
    return own_process.without_project(kept, project) | build_project_variables(project)


def build_project_variables(project: Path) -> dict[str, str]:
    """Return the variables by which hooks find the files of their project."""
    return {"AGENTCLI_PROJECT_DIR": str(project), "CLAUDE_PROJECT_DIR": str(project)}


async def run_hook(
    command: str | tuple[str, ...],
    *,
    stdin: bytes,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float,
) -> HookRun:
    """Run a hook's command. Raise HookProblem if it cannot be run to its end within the limits."""
    tag = process_tree.make_tag(confined=False)
    flooded = asyncio.Event()
    stdout, stderr = _LimitedOutput(flooded), _LimitedOutput(flooded)
    with ExitStack() as stack:
        given = stack.enter_context(tempfile.TemporaryFile())
        given.write(stdin)
        given.seek(0)
        pipes = Pipe(stdout), Pipe(stderr)
        for pipe in pipes:
            stack.callback(pipe.close)
        child = _start(command, stdin=given, pipes=pipes, cwd=cwd, env=add_tag(env, tag))
        for pipe in pipes:
            pipe.close_writer()
        try:
            exit_code = await _wait(child, flooded, timeout_s=timeout_s)
            await asyncio.gather(*(pipe.drain(process.DRAIN_S) for pipe in pipes))
        finally:
            if child.poll() is None:
                await process.run_to_completion(_kill(child, tag))
        if flooded.is_set():
            raise _build_flood_problem()
    return HookRun(exit_code=exit_code, stdout=stdout.text(), stderr=stderr.text())


async def post_hook(
    url: str, *, body: bytes, headers: Iterable[tuple[str, str]], timeout_s: float
) -> HookRun:
    """Post the input to an address. Its answer is read like the output of a command.

    A status other than 2xx is a failure. Raise HookProblem if there is no answer in time."""
    try:
        async with asyncio.timeout(timeout_s):
            return await asyncio.to_thread(_post, url, body, dict(headers), timeout_s)
    except TimeoutError:
        raise HookProblem(f"did not answer within {timeout_s:g} s") from None
    except (OSError, ValueError) as error:
        raise HookProblem(f"could not be reached: {error}") from None


def _post(url: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> HookRun:
    from http.client import HTTPConnection, HTTPException, HTTPSConnection

    parts = urlsplit(url)
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=timeout_s)
    target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    try:
        connection.request("POST", target, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        data = answer.read(LARGEST_OUTPUT_BYTES + 1)
    except HTTPException as error:
        raise HookProblem(f"could not be reached: {error}") from None
    finally:
        connection.close()
    if len(data) > LARGEST_OUTPUT_BYTES:
        raise _build_flood_problem()
    is_good = 200 <= answer.status < 300
    text = data.decode("utf-8-sig", "replace").strip()
    reason = "" if is_good else f"HTTP {answer.status} {answer.reason}"
    return HookRun(exit_code=0 if is_good else 1, stdout=text if is_good else "", stderr=reason)


class _LimitedOutput:
    """The beginning of a stream. Too much output sets `flooded`, and the rest is dropped."""

    def __init__(self, flooded: asyncio.Event) -> None:
        self._flooded = flooded
        self._content = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._content += chunk[: LARGEST_OUTPUT_BYTES + 1 - len(self._content)]
        if len(self._content) > LARGEST_OUTPUT_BYTES:
            self._flooded.set()

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def text(self) -> str:
        return self._content.decode("utf-8-sig", errors="replace").strip()


def _start(
    command: str | tuple[str, ...],
    *,
    stdin: IO[bytes],
    pipes: tuple[Pipe, Pipe],
    cwd: Path,
    env: Mapping[str, str],
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            command,
            shell=isinstance(command, str),
            stdin=stdin,
            stdout=pipes[0].writer,
            stderr=pipes[1].writer,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise HookProblem(f"could not be started: {error}") from None


async def _wait(
    child: "subprocess.Popen[bytes]", flooded: asyncio.Event, *, timeout_s: float
) -> int:
    ended = asyncio.ensure_future(process.wait_for_exit(child))
    flood = asyncio.ensure_future(flooded.wait())
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.wait((ended, flood), return_when=asyncio.FIRST_COMPLETED)
    except TimeoutError:
        raise HookProblem(f"did not end within {timeout_s:g} s and was killed") from None
    finally:
        was_over = ended.done()
        for waiting in (ended, flood):
            waiting.cancel()
        await asyncio.gather(ended, flood, return_exceptions=True)
    if not was_over:
        raise _build_flood_problem()
    return ended.result()


def _build_flood_problem() -> HookProblem:
    return HookProblem(f"printed more than {LARGEST_OUTPUT_BYTES} bytes")


async def _kill(child: "subprocess.Popen[bytes]", tag: str) -> None:
    if os.name == "posix":
        await process.end(child, tag=tag, steps=_KILL)
    else:
        child.kill()
        child.wait()
