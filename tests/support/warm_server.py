"""The program, loaded once: a process that forks itself for every command line it is sent.

A fork is a process of its own, with its own streams, environment and exit code; only the imports
are done already. It is run as a file, so that nothing of the tests is in it.
"""

import atexit
import fcntl
import gc
import itertools
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import termios
import threading
import time
from contextlib import suppress
from importlib import import_module
from io import TextIOWrapper
from types import ModuleType
from typing import Any, NamedTuple, cast

import agentcli
from agentcli.__main__ import main as run_program
from agentcli.system.lazy import compile_later

LARGEST_ORDER_BYTES = 100_000
_NEVER_LOADED = (
    "agentcli.providers.sdk_",
    "agentcli.features.batch.ray",
    "agentcli.features.batch.store",
    "agentcli.features.eval.harbor",
)
_LOADED_LATER = ("agentcli.features.acp", "agentcli.features.mcp", "agentcli.ui.repl.commands")
"""What takes longest, when it is clear that this is not about one test alone."""
_LATER_EVENTS = 5
_PATTERN = compile_later("")
_METHODS = ("finditer", "fullmatch", "match", "search", "split", "sub")


class Order(NamedTuple):
    """What the process is to be. It is followed by stdin, stdout, stderr and where to report."""

    argv: list[str]
    environ: dict[str, str]
    cwd: str
    is_terminal: bool
    """Whether the streams are a terminal, to become the one of its session."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _load_program(without=_LOADED_LATER)
    with (
        socket.socket(fileno=int(sys.argv[1])) as listener,
        selectors.DefaultSelector() as events,
    ):
        received = _serve(listener, events)
    if received is not None:
        _become(*received)
        try:
            _run(sys.argv[0])
        except SystemExit as ended:
            _end(ended.code)


def _serve(
    listener: socket.socket, events: selectors.BaseSelector
) -> tuple[Order, list[int]] | None:
    """Answer until nobody is connected. Return an order in the process that is to follow it."""
    events.register(listener, selectors.EVENT_READ)
    for seen_events in itertools.count(1):
        if seen_events == _LATER_EVENTS:
            _load_program()
        key = events.select()[0][0]
        if not isinstance(key.fileobj, socket.socket):
            events.unregister(key.fd)
            _report_end(key.fd, *key.data)
        elif key.fileobj is listener:
            events.register(listener.accept()[0], selectors.EVENT_READ)
        elif received := _receive(key.fileobj):
            if not _fork(events, received[1]):
                return received[0], received[1][:3]
        elif not _disconnect(events, key.fileobj):
            break
    return None


def _disconnect(events: selectors.BaseSelector, orders: socket.socket) -> bool:
    """Forget a connection that was closed. Return whether another is left beside the listener."""
    events.unregister(orders)
    orders.close()
    return sum(isinstance(key.fileobj, socket.socket) for key in events.get_map().values()) > 1


def _fork(events: selectors.BaseSelector, handles: list[int]) -> int:
    """Return the id of the process that is to have these handles, in that process 0."""
    *streams, report = handles
    pid = os.fork()
    if pid == 0:
        _forget_others(events, report)
        return pid
    for handle in streams:
        os.close(handle)
    os.write(report, b"%d\n" % pid)
    events.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, report))
    return pid


def _receive(orders: socket.socket) -> tuple[Order, list[int]] | None:
    """Return an order with its handles, or None once the other end is closed."""
    line, handles, _, _ = socket.recv_fds(orders, LARGEST_ORDER_BYTES, 4)
    return (Order(*json.loads(line)), handles) if line else None


def _report_end(pidfd: int, pid: int, report: int) -> None:
    _, status = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
    os.close(report)
    os.close(pidfd)


def _forget_others(events: selectors.BaseSelector, report: int) -> None:
    """Close what belongs to the server, in a process that is about to become the program."""
    os.close(report)
    for key in list(events.get_map().values()):
        if key.data is not None:
            os.close(key.fd)
            os.close(key.data[1])
        elif isinstance(key.fileobj, socket.socket):
            key.fileobj.close()


def _become(order: Order, handles: list[int]) -> None:
    for descriptor, handle in enumerate(handles):
        os.dup2(handle, descriptor)
        os.close(handle)
    if order.is_terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    assert isinstance(sys.stdout, TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(order.environ)
    time.tzset()
    os.chdir(order.cwd)
    sys.argv[:] = order.argv


def _run(program: str) -> None:
    """Run the program, or a script of the tests, which finds what both import loaded."""
    if not program.endswith(".py"):
        run_program()
    runpy.run_path(program, run_name="__main__")
    sys.exit(0)


def _end(code: object) -> None:
    """End as the interpreter does, but do not free what is shared with the server.

    That would copy most of it first, and be most of the time that a short command takes.
    """
    if not isinstance(code, int):
        sys.exit(cast(Any, code))
    cast(Any, threading)._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


def _load_program(without: tuple[str, ...] = ()) -> None:
    """Import every module of the program but those whose names begin so."""
    gc.disable()
    for module in pkgutil.walk_packages(agentcli.__path__, "agentcli."):
        if not module.name.startswith(_NEVER_LOADED + without):
            import_module(module.name)
    for name in [name for name in sys.modules if name.startswith("agentcli.")]:
        _compile_values(sys.modules[name])
    gc.freeze()  # what is loaded stays: no fork is to search it, which would copy it
    gc.enable()


def _compile_values(module: ModuleType) -> None:
    """Compile what waits for its first use: every fork would do that anew."""
    for value in list(vars(module).values()):
        if isinstance(value, type):
            getattr(value, "__init__")  # noqa: B009
        elif isinstance(value, type(_PATTERN)):
            for method in _METHODS:
                getattr(value, method)


if __name__ == "__main__":
    main()
