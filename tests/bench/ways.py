"""The ways through the program, counted: what a reader meets between two moments of a run.

A step is a function that is entered from another module of ours, each counted once. Constructors,
special methods and lambdas are not counted, nor a coroutine that goes on, nor what is called while
a module is imported or what is prepared in threads beside the way. The stack is the functions that
are open when the way ends.
"""

import dis
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import IO, NamedTuple

from agentcli.__main__ import main
from tests.bench.dialects import of_anthropic
from tests.bench.figures import Figure
from tests.bench.model import Model
from tests.support.program import environment

PACKAGE = "agentcli"
OUTPUT = "WAY_OUTPUT"
THOUGHT_S = 0.5
_BESIDE = (
    *("preparation", "beside the proof", "shells ahead", "unused homes"),
    *("new repositories", "command limits"),
)
"""The names of threads in which something is prepared, or looked after."""
_SPECIAL = ("agentcli.types.fast_dataclass",)
"""The modules with the constructors and special methods of our classes, by other names."""
_RESUME = dis.opmap["RESUME"]


class Way(NamedTuple):
    begins: str
    """The module and the function whose call begins the way."""
    ends: str
    command: str = "echo hi"
    is_asked: bool = False
    """True if the command needs an approval, which a program gives."""
    thought_s: float = 0
    """How long the model thinks before it calls."""


WAYS = {
    "agentcli run to the first byte": Way(
        "agentcli.__main__.main", "agentcli.providers.http.direct.HttpConnection.send"
    ),
    "the first bash call, after a thought": Way(
        "agentcli.agent.dispatch.Dispatcher.prepare",
        "agentcli.agent.model_client.ModelClient.send",
        thought_s=THOUGHT_S,
    ),
    "the first bash call, at once": Way(
        "agentcli.agent.dispatch.Dispatcher.prepare", "agentcli.agent.model_client.ModelClient.send"
    ),
    "an approval": Way(
        "agentcli.session.permission_gate.PermissionGate.judge",
        "agentcli.tools.bash.Bash.run",
        command="touch a",
        is_asked=True,
    ),
}


def figures() -> Iterator[Figure]:
    for what, way in WAYS.items():
        found = _count(way)
        for part, value in found.items():
            yield Figure(what=f"{what}: {part}", value=value, unit="")


def _count(way: Way) -> dict[str, int]:
    def reply(step: int) -> bytes:
        if step == 0:
            time.sleep(way.thought_s)
        return of_anthropic(step, None if step else ("bash", {"command": way.command}))

    with TemporaryDirectory() as scratch, Model(reply) as model:
        home, project = Path(scratch), Path(scratch, "project")
        project.mkdir()
        output = home / "way.json"
        command = [sys.executable, "-m", __name__, way.begins, way.ends, "run", "--model", "opus"]
        env = {**model.environment, OUTPUT: str(output), "PYTHONPATH": str(Path.cwd())}
        run = _run_and_approve if way.is_asked else _run
        run(command, environment(home, **env), project)
        found: dict[str, int] = json.loads(output.read_text())
    return found


def _run(command: list[str], env: dict[str, str], project: Path) -> None:
    subprocess.run([*command, "--mode", "auto", "-q", "Go on."], env=env, cwd=project, check=True)


def _run_and_approve(command: list[str], env: dict[str, str], project: Path) -> None:
    """Run a task whose first question is answered with yes."""
    options = ("--mode", "ask", "--input", "stream-json", "-o", "stream-json")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [*command, *options], env=env, cwd=project, stdin=pipe, stdout=pipe, text=True
    ) as run:
        assert run.stdin and run.stdout
        _write_line(run.stdin, type="prompt", text="Go on.")
        for line in run.stdout:
            row = json.loads(line)
            if row["type"] == "question":
                _write_line(run.stdin, type="answer", id=row["id"], decision="allow")
                run.stdin.close()


def _write_line(stdin: IO[str], **message: str) -> None:
    stdin.write(json.dumps(message) + "\n")
    stdin.flush()


class Probe:
    """Counts the steps between two calls. Must be set as profiler of every thread."""

    def __init__(self, begins: str, ends: str) -> None:
        self._begins = begins
        self._ends = ends
        self._is_on = False
        self._steps: set[tuple[str, str]] = set()
        self.found: dict[str, int] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or self.found:
            return
        module, function = _name(frame)
        called = f"{module}.{function}"
        self._is_on = self._is_on or called == self._begins
        if not self._is_on or not _is_ours(module):
            return
        if called == self._ends:
            self._finish(frame)
        elif self._is_step(frame, module, function):
            self._steps.add((module, function))

    def _is_step(self, frame: FrameType, module: str, function: str) -> bool:
        name = frame.f_code.co_name
        is_special = name.startswith(("<", "__")) or module in _SPECIAL
        is_beside = threading.current_thread().name.startswith(_BESIDE)
        if is_special or is_beside or _goes_on(frame):
            return False
        caller = next(_iter_callers(frame), None)
        return caller is None or (
            caller.f_code.co_name != "<module>" and _name(caller)[0] != module
        )

    def _finish(self, frame: FrameType) -> None:
        stack = {_name(frame), *map(_name, _iter_callers(frame))}
        self.found = {
            "functions": len(self._steps),
            "modules": len({module for module, _ in self._steps}),
            "functions on the stack": len(stack),
            "modules on the stack": len({module for module, _ in stack}),
        }
        Path(os.environ[OUTPUT]).write_text(json.dumps(self.found))


def _iter_callers(frame: FrameType) -> Iterator[FrameType]:
    """Yield the frames of ours below a frame, the nearest first."""
    caller = frame.f_back
    while caller is not None:
        if _is_ours(_name(caller)[0]):
            yield caller
        caller = caller.f_back


def _goes_on(frame: FrameType) -> bool:
    """Return whether a coroutine or generator was entered before, and continues."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at] == _RESUME and code[at + 1] != 0


def _name(frame: FrameType) -> tuple[str, str]:
    return frame.f_globals.get("__name__", ""), frame.f_code.co_qualname


def _is_ours(module: str) -> bool:
    return module == PACKAGE or module.startswith(f"{PACKAGE}.")


if __name__ == "__main__":
    _, begins, ends, *arguments = sys.argv
    sys.argv = ["agentcli", *arguments]
    probe = Probe(begins, ends)
    threading.setprofile(probe)
    sys.setprofile(probe)
    main()
