"""Starts the program from a process that has it loaded: `warm_server`, one for all test workers."""

import atexit
import fcntl
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from signal import SIGKILL

from tests.support.accounts import Account
from tests.support.warm_server import LARGEST_ORDER_BYTES

_OF_THE_INTERPRETER = ("PYTHON", "LC_", "COVERAGE")
_SERVER = Path(__file__).with_name("warm_server.py")
_START = Path(__file__).with_name("warm_start.py")


class Started:
    """A process of the program. Its parent is the server, which tells how it ended."""

    def __init__(self, report: int) -> None:
        self._report = os.fdopen(report)
        self.pid = int(self._report.readline())
        self._code: int | None = None
        self._lock = threading.Lock()

    def wait(self) -> int:
        """Return the exit code once it has ended; negative for the signal that ended it."""
        with self._lock:
            if self._code is None:
                self._code = int(self._report.readline())
                self._report.close()
            return self._code


def can_start(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Return whether a fork is the same: not if the environment is for the interpreter itself."""
    return (
        sys.platform == "linux"
        and environ.get("LANG") == "C.UTF-8"
        and not any(name.startswith(_OF_THE_INTERPRETER) for name in environ)
        and len(json.dumps([argv, dict(environ)])) < LARGEST_ORDER_BYTES // 2
    )


def start(
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    streams: tuple[int, int, int],
    *,
    is_terminal: bool = False,
    account: Account | None = None,
) -> Started:
    """Start the program with these streams, which stay open here."""
    reader, writer = os.pipe()
    order = json.dumps([argv, dict(environ), str(cwd), is_terminal]).encode()
    socket.send_fds(_connect(account), [order], [*streams, writer])
    os.close(writer)
    return Started(reader)


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    stdin: str | None,
    *,
    limit_s: float,
    account: Account | None = None,
) -> tuple[int, str, str]:
    """Return the exit code and what was written, as `subprocess.run` does."""
    source, feed = os.pipe() if stdin is not None else (os.open(os.devnull, os.O_RDONLY), -1)
    (out, write_out), (err, write_err) = os.pipe(), os.pipe()
    streams = source, write_out, write_err
    with ThreadPoolExecutor(3) as threads:
        started = start(argv, environ, cwd, streams, account=account)
        for handle in streams:
            os.close(handle)
        killer = threading.Timer(limit_s, os.kill, (started.pid, SIGKILL))
        killer.start()
        if stdin is not None:
            threads.submit(_write, feed, stdin)
        texts = [threads.submit(_read, handle) for handle in (out, err)]
        code = started.wait()
        killer.cancel()
        return code, texts[0].result(), texts[1].result()


def _write(handle: int, text: str) -> None:
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)  # a reader that leaves early is no matter of ours: nobody asks


def _read(handle: int) -> str:
    with os.fdopen(handle, encoding="utf-8") as stream:
        return stream.read()


@cache
def write_command(program: Path) -> Path:
    """Return a command that stands for the program or a script, for a client that starts it."""
    _connect(None)
    command = _own_directory() / program.stem
    words = [sys.executable, "-IS", _START, _find_address(None), program]
    command.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$PWD" "$@"\n')
    command.chmod(0o755)
    return command


@cache
def _own_directory() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="agentcli-warm-"))
    atexit.register(shutil.rmtree, directory)
    return directory


@cache
def _connect(account: Account | None) -> socket.socket:
    """Connect to the server, which ends when the last worker does. The first one starts it."""
    address = _find_address(account)
    address.parent.mkdir(mode=0o700, exist_ok=True)
    orders = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (address.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            orders.connect(str(address))
        except (FileNotFoundError, ConnectionRefusedError):
            address.unlink(missing_ok=True)
            _start_server(address, account)
            orders.connect(str(address))
    atexit.register(orders.close)  # before its end is waited for: the last is done first
    return orders


def _start_server(address: Path, account: Account | None) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(address))
        listener.listen()
        python = account.interpreter if account else (sys.executable,)
        search = account.environment if account else {"PATH": os.environ["PATH"]}
        server = subprocess.Popen(
            [*python, "-P", _SERVER, str(listener.fileno())],
            pass_fds=[listener.fileno()],
            env={"LANG": "C.UTF-8", **search},
            stdin=subprocess.PIPE,  # as of a program whose streams are pipes: nothing is sought
            stdout=subprocess.PIPE,
        )

    def clear() -> None:
        server.wait()
        shutil.rmtree(address.parent, ignore_errors=True)  # two servers share it

    atexit.register(clear)


def _find_address(account: Account | None) -> Path:
    """Return the socket of the server, by the name that all workers have for the run."""
    run_id = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    directory = Path(tempfile.gettempdir(), f"agentcli-warm-{os.getuid()}-{run_id}")
    return directory / (account.name if account else "orders")
