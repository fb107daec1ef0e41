import signal

import pytest

from agentcli.tools.bash import KillCommand, parse_kill


@pytest.mark.parametrize(
    ("command", "kill"),
    [
        ("kill 42", KillCommand(signal=signal.SIGTERM, pids=(42,))),
        (" kill 42 43\n", KillCommand(signal=signal.SIGTERM, pids=(42, 43))),
        ("kill -9 42", KillCommand(signal=signal.SIGKILL, pids=(42,))),
        ("kill -0 42", KillCommand(signal=0, pids=(42,))),
        ("kill -INT 42", KillCommand(signal=signal.SIGINT, pids=(42,))),
        ("kill -SIGHUP 42", KillCommand(signal=signal.SIGHUP, pids=(42,))),
        ("kill -s KILL 42", KillCommand(signal=signal.SIGKILL, pids=(42,))),
    ],
)
def test_plain_kill_is_understood(command: str, kill: KillCommand) -> None:
    assert parse_kill(command) == kill


@pytest.mark.parametrize(
    "command",
    [
        "kill",
        "kill -9",
        "kill -NOSUCH 42",
        "kill -999 42",
        "kill -- -42",
        "kill -9 -1",
        "kill $!",
        "kill %1",
        "kill 42; rm x",
        "kill 42\nrm x",
        "kill 42 && rm x",
        "pkill 42",
        "echo kill 42",
    ],
)
def test_anything_else_is_left_to_the_shell(command: str) -> None:
    assert parse_kill(command) is None
