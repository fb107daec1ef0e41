"""Servers and clients that others wrote, installed by their package names where that can be done.

They are looked for on the PATH and in the directories that MCP_TEST_SERVERS names. What is missing
is installed once, beside this Python's own packages, within a minute; a second run finds it there.
Where it cannot be had (no npm, no package index, no minute) the tests are skipped, and say why.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

WITHIN_S = 55.0
AGAIN_AFTER_S = 3600.0
NPM = {
    "mcp-server-everything": "@modelcontextprotocol/server-everything",
    "mcp-server-filesystem": "@modelcontextprotocol/server-filesystem",
    "mcp-server-memory": "@modelcontextprotocol/server-memory",
}
ACP = {"acpx": "acpx"}
ACP_SDK = "@agentclientprotocol/sdk"
PYPI = {name: name for name in ("mcp-server-git", "mcp-server-time", "mcp-server-fetch")}


class CannotBeHad(Exception):
    """Why not, for whoever reads which tests were skipped."""


def installed(program: str) -> str:
    """Its path. Skips the test where there is none to be had."""
    places = os.pathsep.join([os.environ.get("MCP_TEST_SERVERS", ""), os.environ["PATH"]])
    if found := shutil.which(program, path=places):
        return found
    if program not in NPM | ACP | PYPI:
        pytest.skip(f"{program} is not installed")
    try:
        folder = _choose(program)
    except CannotBeHad as why:
        pytest.skip(f"{program} is not installed, and cannot be: {why}")
    return str(folder / program)


def find_acp_sdk() -> Path:
    """The directory of the TypeScript SDK for editors. Skips the test where it cannot be had."""
    try:
        return _from_npm("acp").parent / ACP_SDK
    except CannotBeHad as why:
        pytest.skip(f"{ACP_SDK} is not installed, and cannot be: {why}")


def _choose(program: str) -> Path:
    if program in PYPI:
        return _from_pypi()
    return _from_npm("npm" if program in NPM else "acp")


@cache
def _from_npm(group: str) -> Path:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotBeHad("there is no npm")
    quiet = ("--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=0")
    folder, programs = _place(group), NPM if group == "npm" else ACP
    packages = [*programs.values(), *([ACP_SDK] if group == "acp" else [])]
    command = [npm, "install", "--prefix", str(folder), *quiet, *packages]
    return _made(folder, folder / "node_modules" / ".bin", programs, lambda: _run(command))


@cache
def _from_pypi() -> Path:
    folder = _place("pypi")

    def make() -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        quiet = ("-q", "--disable-pip-version-check", "--retries", "1", "--timeout", "10")
        pip = [sys.executable, "-m", "pip", "--python", str(folder), "install", *quiet]
        _run([*pip, *PYPI.values()])

    return _made(folder, folder / "bin", PYPI, make)


def _made(folder: Path, programs: Path, names: Iterable[str], make: Callable[[], None]) -> Path:
    """Once, whichever of several processes comes first; what failed is not tried again at once."""
    with _alone(folder):
        failed = folder / "failed"
        if failed.exists() and time.time() - failed.stat().st_mtime < AGAIN_AFTER_S:
            raise CannotBeHad(failed.read_text())
        if not all((programs / name).exists() for name in names):
            try:
                make()
            except CannotBeHad as why:
                failed.write_text(str(why))
                raise
        return programs


def _run(command: Sequence[str]) -> None:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    try:
        said, _ = process.communicate(timeout=WITHIN_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise CannotBeHad(f"{command[0]} took longer than {WITHIN_S:g} s") from None
    if process.returncode:
        complaints = [line for line in said.splitlines() if "error" in line.lower()]
        raise CannotBeHad(f"{Path(command[0]).name} failed: {(complaints or [said[:200]])[0]}")


def _place(kind: str) -> Path:
    """In the environment of the tests, which is thrown away with it; else among temporary files."""
    is_own = sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK)
    root = Path(sys.prefix) if is_own else Path(tempfile.gettempdir())
    folder = root / f"mcp-test-servers-{os.getuid()}" / kind
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
