"""The installed program as a process of its own, with a home that is empty and thrown away."""

import fcntl
import json
import os
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tests.support import warm
from tests.support.accounts import Account

PROGRAM = Path(sys.executable).with_name("agentcli")
LIMIT_S = 110.0
_PASSED_ON = ("COVERAGE", "AGENTCLI_SANDBOX")
"""Variables of the tests that are also for the program; the fixture `without_sandbox` sets one."""


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.split("\n") if line]


def environment(home: Path, **more: str) -> dict[str, str]:
    """PATH, an empty home and UTF-8: nothing of the user's own settings or keys."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "AGENTCLI_MCP_WAIT": "100",  # a slow machine must not make servers late
        **{name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)},
        **more,
    }


def agentcli(
    *arguments: str | Path,
    home: Path,
    cwd: Path | None = None,
    stdin: str | None = None,
    env: dict[str, str] | None = None,
    account: Account | None = None,
) -> Ran:
    """Run the program to its end. It is forked from a loaded one where that makes no difference."""
    argv = [str(PROGRAM), *map(str, arguments)]
    environ = environment(home, **(env or {}))
    if account or warm.can_start(argv, environ):
        return Ran(*warm.run(argv, environ, cwd or home, stdin, limit_s=LIMIT_S, account=account))
    ran = subprocess.run(
        argv,
        cwd=cwd or home,
        env=environ,
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def write_fork_command() -> str:
    """Return a command for clients that start one: the program, forked from a loaded one."""
    return str(warm.write_command(PROGRAM) if sys.platform == "linux" else PROGRAM)


def write_script_command(script: Path) -> list[str]:
    """Return a command that runs a script where the imports of the program are loaded."""
    is_linux = sys.platform == "linux"
    return [str(warm.write_command(script))] if is_linux else [sys.executable, str(script)]


class Started(Protocol):
    """A process of the program."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int: ...


def start_on_terminal(
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    cwd: Path,
    terminal: int,
    is_warm: bool = True,
    account: Account | None = None,
) -> Started:
    """Start the program in a session of its own, with this terminal as its streams."""
    argv = [str(PROGRAM), *arguments]
    if account or (is_warm and warm.can_start(argv, environ)):
        return warm.start(argv, environ, cwd, (terminal,) * 3, is_terminal=True, account=account)
    return subprocess.Popen(
        argv,
        cwd=cwd,
        env=environ,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=partial(fcntl.ioctl, terminal, termios.TIOCSCTTY, 0),
    )


def script(path: Path, replies: Sequence[Any]) -> str:
    """Writes a script and returns the model's name for it."""
    path.write_text(json.dumps(replies))
    return f"script/{path}"


def session_log(home: Path) -> Path:
    """The log of the one session that was run there."""
    (log,) = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    return log


def read_facts(log: Path) -> list[dict[str, Any]]:
    """The facts of a log, without a line that is still being written."""
    lines = log.read_text().split("\n")[:-1]
    return [json.loads(line)["fact"] for line in lines]
