import asyncio
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen

import pytest

from agentcli.system import process, process_tree
from agentcli.system.output import LOG_LIMIT_BYTES
from agentcli.tools.bash import TAKEN_DOWN
from agentcli.types.grants import Grants
from agentcli.types.sandbox import TemporaryFiles
from agentcli.types.tools import ErrorKind
from tests.support.bash import Session, details, in_session, names, ran, text
from tests.support.confined import confined
from tests.support.processes import running, unique_seconds, until


def test_child_left_behind_is_named_and_not_waited_for(tmp_path: Path) -> None:
    seconds = unique_seconds()

    async def scenario(session: Session) -> None:
        output = await session.run(f"sleep {seconds} & echo started")
        await until(lambda: running(f"sleep {seconds}"))
        (pid,) = running(f"sleep {seconds}")
        assert text(output) == f"started\n[background: pid {pid} still running]\n[exit code 0]"
        assert details(output).left_running == (pid,)
        assert details(output).duration_s < float(seconds)
        await session.run(f"kill {pid}")
        await until(lambda: session.ledger.list_running() == [])

    in_session(tmp_path, scenario)


def test_several_children_left_behind_are_named_in_one_line(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        output = await session.run("for i in $(seq 12); do sleep 60 >/dev/null 2>&1 & done")
        assert len(details(output).left_running) == 12
        assert re.search(
            r"^\[background: pids (\d+, ){9}\d+ and 2 more still running\]$", text(output), re.M
        )

    in_session(tmp_path, scenario)


def test_writer_left_behind_writes_on_to_the_log(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        output = await session.run("(while :; do echo tick; sleep 0.02; done) & echo started")
        log, size = Path(details(output).log_path), details(output).output_bytes
        await until(lambda: log.stat().st_size > size)
        assert len(session.ledger.list_running()) == 1

    in_session(tmp_path, scenario)


def test_command_out_of_time_is_ended_and_what_it_printed_is_kept(tmp_path: Path) -> None:
    seconds = unique_seconds()
    command = (
        f"echo before; setsid sleep {seconds} & env -i setsid sleep {seconds} & sleep {seconds}"
    )
    output = ran(tmp_path, command, timeout=3)
    assert text(output) == (
        "before\n[timed out after 3 s, killed; raise timeout or use background=true]"
    )
    assert (output.error, details(output).timed_out) == (ErrorKind.TIMEOUT, True)
    assert details(output).left_running == ()
    assert running(seconds) == []


def test_output_without_end_is_cut_off_with_its_command(tmp_path: Path) -> None:
    output = ran(tmp_path, "yes", timeout=1)
    assert text(output).endswith(
        "\n[timed out after 1 s, killed; raise timeout or use background=true]"
    )
    stored_bytes = min(details(output).output_bytes, LOG_LIMIT_BYTES)
    assert (tmp_path / "out/1.log").stat().st_size == stored_bytes


def test_cancelled_command_is_ended_and_its_output_logged(tmp_path: Path) -> None:
    seconds = unique_seconds()

    async def scenario(session: Session) -> None:
        running_call = asyncio.ensure_future(
            session.run(f"echo before; setsid sleep {seconds} & sleep {seconds}")
        )
        await until(lambda: session.told)
        running_call.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await running_call
        (partial,) = stopped.value.args
        assert partial.error is ErrorKind.CANCELLED
        said = r"before\n\[interrupted after [0-9.]+ s, 1 lines until then\]"
        assert re.fullmatch(said, text(partial))
        assert running(seconds) == []
        assert session.ledger.list_running() == []

    in_session(tmp_path, scenario)
    assert (tmp_path / "out/1.log").read_bytes() == b"before\n"


def test_background_command_returns_at_once_and_its_end_is_told(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        output = await session.run(
            "echo started; until [ -e go ]; do sleep 0.02; done; exit 4", background=True
        )
        pid, log = details(output).background_pid, tmp_path / "out/1.log"
        assert text(output) == f"[background pid {pid}, output in {log}; kill {pid} stops it]"
        assert (output.error, details(output).exit_code) == (None, None)
        await until(lambda: log.read_bytes() == b"started\n")
        assert session.ledger.take_finished() == []
        await session.run("touch go")
        await until(lambda: session.ledger.list_running() == [])
        (finished,) = session.ledger.take_finished()
        assert (finished.started.pid, finished.returncode) == (pid, 4)
        assert names(session.out_dir) == ["1.log", "2.log"]

    in_session(tmp_path, scenario)


def test_background_command_is_ended_by_killing_its_pid(tmp_path: Path) -> None:
    seconds = unique_seconds()

    async def scenario(session: Session) -> None:
        output = await session.run(f"sleep {seconds} & sleep {seconds}", background=True)
        await until(lambda: len(running(f"sleep {seconds}")) == 2)
        told = await session.run(f"kill {details(output).background_pid}")
        assert text(told) == "[no output]\n[exit code 0]"
        await until(lambda: running(seconds) == [])
        assert running(seconds) == []
        await until(lambda: session.ledger.list_running() == [])
        (finished,) = session.ledger.take_finished()
        assert finished.how == "killed by SIGTERM"

    in_session(tmp_path, scenario)


def test_detached_command_goes_on_in_the_background_and_its_end_is_told(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        waiting = asyncio.ensure_future(
            session.run("cd /; echo one; until [ -e $OLDPWD/go ]; do sleep 0.02; done; echo two")
        )
        await until(lambda: session.told)
        assert session.ledger.detach() == 1
        output, log = await waiting, tmp_path / "out/1.log"
        pid = details(output).background_pid
        said = re.fullmatch(
            r"one\n\[the user moved it to the background after [0-9.]+ s; it continues there: "
            r"pid (\d+), all output in (.+)\]\n\[read_file shows that log, kill \1 stops it; "
            r"you are told when it ends\]",
            text(output),
        )
        assert said is not None
        assert said.groups() == (str(pid), str(log))
        assert (output.error, details(output).was_moved, details(output).head) == (
            None,
            True,
            "one",
        )
        assert session.ledger.detach() == 0
        assert [one.pid for one in session.ledger.list_running()] == [pid]
        heard = len(session.told)
        assert text(await session.run("basename $PWD; touch go")).startswith("workspace\n")
        await until(lambda: session.ledger.list_running() == [])
        (finished,) = session.ledger.take_finished()
        assert (finished.started.pid, finished.returncode) == (pid, 0)
        assert log.read_text() == "one\ntwo\n"
        assert "two" not in "".join(session.told[heard:])
        assert names(session.out_dir) == ["1.log", "2.log"]

    in_session(tmp_path, scenario)


def test_detached_command_ends_with_the_session(tmp_path: Path) -> None:
    seconds = unique_seconds()

    async def scenario(session: Session) -> None:
        waiting = asyncio.ensure_future(session.run(f"echo one; sleep {seconds}", timeout=10))
        await until(lambda: session.told)
        session.ledger.detach()
        await waiting
        await until(lambda: len(running(f"sleep {seconds}")) == 1)

    in_session(tmp_path, scenario)
    assert running(seconds) == []


def test_detach_without_a_command_does_nothing(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("true")
        await session.run("sleep 60", background=True)
        assert session.ledger.detach() == 0

    in_session(tmp_path, scenario)


def test_two_commands_at_once_do_not_mix(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        meet = "touch {0}; until [ -e {1} ]; do sleep 0.01; done; echo {0}"
        first, second = await asyncio.gather(
            session.run("mkdir sub; cd sub; " + meet.format("../a", "../b")),
            session.run(meet.format("b", "a")),
        )
        assert text(first) == "../a\n[now in sub/]\n[exit code 0]"
        assert text(second) == "b\n[exit code 0]"
        assert details(first).log_path != details(second).log_path
        assert text(await session.run("basename $PWD")) == "sub\n[exit code 0]"

    in_session(tmp_path, scenario)


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        before = names(Path("/dev/fd"))
        for command in ("echo a", "exit 3", "kill -9 $$", "sleep 0.3 & true"):
            await session.run(command)
        await session.run("true", background=True)
        session.shells.close()
        await session.ledger.close()
        assert names(Path("/dev/fd")) == before

    in_session(tmp_path, scenario)


class Recorded:
    """A sandbox that hides and denies nothing, and keeps what it was asked of processes that ran.

    Its processes can gain no privileges, by which those of a sandbox are known."""

    name = "recorded"
    has_process_namespace = False
    reaches_sockets = False
    temporary = TemporaryFiles(root=Path("/tmp"), at=Path("/tmp"), names=())

    def __init__(self) -> None:
        self.asked: list[tuple[Path, Grants]] = []
        self.finished: list[int | None] = []
        self.waiting: dict[Popen[bytes], tuple[Path, Grants]] = {}

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stdout: int,
        grants: Grants,
        stdin: int = DEVNULL,
        stderr: int = STDOUT,
        waits: bool = False,
    ) -> "Popen[bytes]":
        argv = ["setpriv", "--no-new-privs", *argv]
        child = process.start(argv, cwd=cwd, env=env, stdout=stdout, stdin=stdin, stderr=stderr)
        if waits:
            self.waiting[child] = (cwd, grants)
        else:
            self.asked.append((cwd, grants))
        return child

    def supervise(self, process: "Popen[bytes]") -> bool:
        self.asked.append(self.waiting.pop(process))
        return True

    def finish(self, process: "Popen[bytes]") -> tuple[str, ...]:
        if not self.waiting.pop(process, None):
            self.finished.append(process.returncode)
        return ("A protected file was put back.",)

    def listen(self) -> None: ...

    def close(self) -> None: ...


def test_command_is_started_and_finished_by_the_sandbox(tmp_path: Path) -> None:
    sandbox = Recorded()

    async def scenario(session: Session) -> None:
        assert text(await session.run("echo in; exit 3")) == (
            "in\n[A protected file was put back.]\n[exit code 3]"
        )
        await session.run("exit 4", background=True)
        await until(lambda: session.ledger.list_running() == [])
        (finished,) = session.ledger.take_finished()
        assert finished.remarks == ("A protected file was put back.",)

    in_session(tmp_path, scenario, sandbox)
    assert sandbox.finished == [3, 4]
    for cwd, confinement in sandbox.asked:
        assert cwd == tmp_path / "workspace"
        assert confinement == Grants(network=True, writable=(tmp_path,))
    assert len(sandbox.asked) == 2


def test_sandboxed_command_can_end_what_the_session_started(tmp_path: Path) -> None:
    seconds = unique_seconds()

    async def scenario(session: Session) -> None:
        first = await session.run(f"sleep {seconds} & sleep {seconds}", background=True)
        second = await session.run(f"sleep {seconds} >/dev/null 2>&1 &")
        pids = (details(first).background_pid, *details(second).left_running)
        started = len(sandbox.asked)
        output = await session.run(f"kill {' '.join(map(str, pids))}")
        assert text(output) == "[no output]\n[exit code 0]"
        assert len(sandbox.asked) == started
        await until(lambda: running(seconds) == [])

    sandbox = Recorded()
    in_session(tmp_path, scenario, sandbox)


def test_sandboxed_command_cannot_signal_anything_else_by_us(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("kill -0 1")
        await session.run("kill -0 $$")
        assert len(sandbox.asked) == 2

    sandbox = Recorded()
    in_session(tmp_path, scenario, sandbox)


@pytest.mark.parametrize(
    ("command", "is_said"),
    [
        ("sleep 600 >/dev/null & echo a", True),
        ("nohup sleep 600 >/dev/null 2>&1 & disown; echo a", True),
        ("setsid -f sleep 600 >/dev/null 2>&1; echo a", True),
        ("(sleep 600 >/dev/null 2>&1 &); echo a; set -eu; IFS=/p; set -o posix", True),
        ("(setsid nohup sleep 600 </dev/null >/dev/null 2>&1 &); echo a; exit 0", True),
        ("bash -c 'sleep 600 >/dev/null & exit'; trap : EXIT; echo a; exit", True),
        ("env -i setsid -f sleep 600 >/dev/null 2>&1; trap : EXIT; echo a", True),
        ("echo a", False),
        ("(true &); true & wait; echo a", False),
        ("echo a > >(cat)", False),
        ("yes | head -1 | tr y a", False),
        ("sleep 0.01 & wait; set -f; echo a", False),
    ],
)
@pytest.mark.parametrize("layer", ["bubblewrap", "landlock"])
def test_what_is_left_behind_in_any_way_is_said_to_end(
    tmp_path: Path, layer: str, command: str, is_said: bool
) -> None:
    async def scenario(session: Session) -> None:
        output = await session.run(command)
        said = f"{TAKEN_DOWN}\n" if is_said else ""
        assert text(output) == f"a\n{said}[exit code 0]"

    with confined(layer, tmp_path) as ground:
        in_session(tmp_path, scenario, ground.sandbox, out=ground.kept)


class TakesDown(Recorded):
    """One whose commands leave nothing behind, as in a process namespace."""

    def finish(self, process: "Popen[bytes]") -> tuple[str, ...]:
        if process_tree.signal_group(process.pid, signal.SIGKILL):
            while process_tree.group_lives(process.pid):
                pass
        return ()


def test_what_the_sandbox_took_down_is_not_called_running(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        output = await session.run("sleep 600 >/dev/null & echo started")
        assert text(output) == f"started\n{TAKEN_DOWN}\n[exit code 0]"
        assert details(output).left_running == ()
        assert text(await session.run("true & wait; echo a")) == "a\n[exit code 0]"

    in_session(tmp_path, scenario, TakesDown())
