import asyncio
import signal
from pathlib import Path
from subprocess import Popen

import pytest

from agentcli.tools.kill import KillCommand, parse_kill
from tests.support.bash import Session, details, in_session, text
from tests.support.confined import confined
from tests.support.processes import running, unique_seconds, until


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


WAYS = [
    "kill {pid}; echo on",
    "kill {pid} || true",
    "kill -9 {pid} 2>/dev/null; sleep 0",
    "true && kill -s HUP {pid} && echo on",
    "if kill -0 {pid}; then kill -- -{pid}; fi",
    "set -eux; for p in {pid}; do kill -KILL $p; done",
    "pkill -f {name}; echo on",
    "pkill -9 -f '[s]leep {name}' || true",
    "pkill --signal KILL --full 'sleep.*{name}'",
    "kill $(pgrep -f {name}) || true",
    "pgrep -f 'sleep {name}' | xargs kill",
    "for p in $(pgrep -f {name}); do kill -9 $p; done",
    "pgrep -f {name} | xargs -r kill -9; echo on",
    "ps aux | grep {name} | grep -v grep | awk '{{print $2}}' | xargs kill",
    "kill -9 $(ps -ef | grep '[s]leep {name}' | awk '{{print $2}}')",
    "kill $(ps ax | awk '/[s]leep {name}/ {{print $1}}')",
]


WAYS_BY_PORT = [
    "fuser -k {port}/tcp; fuser -k -n tcp 1; true",
    "kill $(lsof -ti:{port})",
    "lsof -t -i tcp:{port} | xargs kill -9",
    "lsof -ti tcp:{port} | xargs -r kill",
]


@pytest.mark.parametrize("layer", ["bubblewrap", "landlock"])
def test_background_command_is_ended_in_every_usual_way(tmp_path: Path, layer: str) -> None:
    async def end(session: Session, way: str) -> None:
        seconds = unique_seconds()
        output = await session.run(f"sleep {seconds}; exit 3", background=True)
        pid = details(output).background_pid
        assert text(output).endswith(f"; kill {pid} stops it]")
        await until(lambda: len(running(f"sleep {seconds}")) == 1)
        ended = await session.run(way.format(pid=pid, name=seconds))
        assert details(ended).exit_code == 0, (way, text(ended))
        await until(lambda: session.ledger.list_background() == [])
        assert running(seconds) == [], way

    async def scenario(session: Session) -> None:
        for way in WAYS:
            await end(session, way)

    with confined(layer, tmp_path) as ground:
        in_session(tmp_path, scenario, ground.sandbox, out=ground.kept)


@pytest.mark.parametrize("layer", ["bubblewrap", "landlock"])
def test_server_is_ended_by_its_port(tmp_path: Path, layer: str) -> None:
    serve = (
        "import socket, time; s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], flush=True); time.sleep(600)"
    )

    async def end(session: Session, way: str) -> None:
        output = await session.run(f'python3 -c "{serve}"', background=True)
        log = Path(details(output).log_path)
        await until(lambda: log.read_bytes().endswith(b"\n"))
        port = int(await asyncio.to_thread(log.read_bytes))
        ended = await session.run(way.format(port=port))
        assert details(ended).exit_code == 0, way
        await until(lambda: session.ledger.list_background() == [])

    async def scenario(session: Session) -> None:
        for way in WAYS_BY_PORT:
            await end(session, way)

    with confined(layer, tmp_path) as ground:
        in_session(tmp_path, scenario, ground.sandbox, out=ground.kept)


LISTED = {
    "ps aux | grep -c '[s]leep {name}'": "1",
    "ps -ef | grep -c '[s]leep {name}'": "1",
    "pgrep -f 'sleep {name}' | wc -l": "1",
    "ps -p {pid} | grep -c {pid}": "1",
    "ps -p 1 | grep -c {pid}": "0",
}


@pytest.mark.parametrize("layer", ["bubblewrap", "landlock"])
def test_background_command_is_listed(tmp_path: Path, layer: str) -> None:
    seconds = unique_seconds()

    async def scenario(session: Session) -> None:
        output = await session.run(f"sleep {seconds}; exit 3", background=True)
        pid = details(output).background_pid
        await until(lambda: len(running(f"sleep {seconds}")) == 1)
        for command, rows in LISTED.items():
            listed = text(await session.run(command.format(pid=pid, name=seconds)))
            assert listed.split("\n")[0] == rows, (command, listed)

    with confined(layer, tmp_path) as ground:
        in_session(tmp_path, scenario, ground.sandbox, out=ground.kept)


def test_nothing_else_is_ended_by_a_request(tmp_path: Path) -> None:
    seconds = unique_seconds()

    async def scenario(session: Session) -> None:
        await session.run("sleep 600", background=True)
        commands = (f"kill {other.pid}; true", f"pkill -f {seconds}", "pkill -f 'sl(e+)+p'")
        answers = [text(await session.run(command)) for command in commands]
        assert "No such process" in answers[0]
        assert other.poll() is None
        assert len(session.ledger.list_background()) == 1

    with confined("bubblewrap", tmp_path) as ground, Popen(["sleep", seconds]) as other:
        try:
            in_session(tmp_path, scenario, ground.sandbox, out=ground.kept)
        finally:
            other.kill()
