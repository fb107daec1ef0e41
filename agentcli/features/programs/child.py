"""The inside of `run_program`: runs a model's program with the tools as functions.

It is passed as text to whatever Python the sandbox has, so it needs only the standard library.
Calls go out by the former stderr, and answers come in by the former stdin. The program itself gets
an empty stdin and one stream to print to. The sandbox provides the security. The audit hook only
keeps a program on the path where its calls are judged and recorded.
"""

import json
import linecache
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

NAME = "<program>"
OURS = "<string>"
"""The file name that Python gives to code passed with `-c`."""

_REFUSED = (
    *("subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty."),
    *("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "ctypes."),
    *("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate"),
    *("os.chmod", "os.chown", "os.utime", "shutil.", "sqlite3.connect"),
)
_LOOKS = ("open", "os.listdir", "os.scandir")
_NOT_IMPORTED = ("ctypes", "_ctypes", "_posixsubprocess", "subprocess", "multiprocessing")


class ToolError(Exception):
    """A call failed or was denied. `kind` is the reason, in one word."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class SessionLine:
    """The connection to the session: one call at a time, from any thread."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(0), "rb")
        self._calls = os.fdopen(os.dup(2), "wb")
        self._one_at_a_time = threading.Lock()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(1, 2)

    def receive(self) -> Any:
        line = self._answers.readline()
        if not line:
            raise SystemExit(1)  # the session has ended, and nothing reads on
        return json.loads(line)

    def call(self, name: str, given: "dict[str, Any]") -> str:
        data = json.dumps({"name": name, "input": given}, allow_nan=False).encode() + b"\n"
        with self._one_at_a_time:
            self._calls.write(data)
            self._calls.flush()
            answer = self.receive()
        if answer["error"]:
            raise ToolError(answer["text"], answer["error"])
        return str(answer["text"])


def build_function(
    line: SessionLine, name: str, *, parameters: "Sequence[str]"
) -> "Callable[..., str]":
    def call(*positional: Any, **named: Any) -> str:
        if len(positional) > len(parameters):
            raise TypeError(f"{name} takes {', '.join(parameters)}")
        given = dict(zip(parameters, positional))  # noqa: B905 - older Pythons have no strict
        twice = sorted(given.keys() & named.keys())
        if twice:
            raise TypeError(f"{name} got {twice[0]} twice")
        return line.call(name, {**given, **named})

    call.__name__ = call.__qualname__ = name
    return call


def _as_directory(path: str) -> str:
    return f"{os.path.realpath(path)}/"


def protect_streams() -> None:
    own = tuple(_as_directory(directory) for directory in sys.path if directory)

    def is_library(path: Any) -> bool:
        if isinstance(path, int):
            return True
        try:
            return _as_directory(os.fsdecode(path)).startswith(own)
        except (TypeError, ValueError):
            return False

    def watch(event: str, given: "tuple[Any, ...]") -> None:
        if event.startswith(_REFUSED) or (
            event == "import" and str(given[0]).partition(".")[0] in _NOT_IMPORTED
        ):
            raise PermissionError(f"{event}: a program reaches files and commands by tools alone")
        if event in _LOOKS and not is_library(given[0]):
            raise PermissionError(f"{given[0]}: a program reads and writes files by tools alone")
        if event == "open" and len(given) > 2 and (given[2] or 0) & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(f"{given[0]}: a program writes files by tools alone")

    sys.addaudithook(watch)


def main() -> None:
    line = SessionLine()
    order = line.receive()
    program: str = order["program"]
    functions = {
        name: build_function(line, name, parameters=given) for name, given in order["tools"].items()
    }
    scope = {
        "__name__": "__main__",
        "ToolError": ToolError,
        "call": lambda name, **given: line.call(name, given),
        **functions,
    }
    linecache.cache[NAME] = (len(program), None, program.splitlines(True), NAME)
    protect_streams()
    try:
        exec(compile(program, NAME, "exec"), scope)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the program's own, told to whoever wrote it
        trace = traceback.TracebackException.from_exception(error)
        frames = [frame for frame in trace.stack if frame.filename != OURS]
        trace.stack = traceback.StackSummary.from_list(frames)
        sys.stdout.write("".join(trace.format()))
        sys.exit(1)


if __name__ == "__main__":
    main()
