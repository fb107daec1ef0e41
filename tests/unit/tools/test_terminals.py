import asyncio
import hashlib
import shutil
from pathlib import Path

import pytest

from agentcli.tools.terminals import TERMINALS_MAX
from agentcli.types.errors import ToolError
from agentcli.types.grants import Grants
from agentcli.types.tools import ErrorKind, Output
from tests.support.bash import Session, details, in_session, text
from tests.support.confined import LAYERS, confined
from tests.support.processes import running, unique_seconds, until
from tests.support.terminal import alive

ASKS = "read -p 'Name? ' name; echo \"hello $name\"; read -p 'Sure? ' sure; exit 3"


async def show(session: Session, number: int, wanted: str, *, sent: str = "") -> str:
    """Send input, and return what is printed from then on until it contains the wanted text."""
    shown = text(await session.send(number, sent))
    while wanted not in shown:
        shown += text(await session.send(number))
    return shown


def read_log(output: Output) -> str:
    return Path(details(output).log_path).read_text()


def test_question_of_a_program_is_answered(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        asked = await session.run(ASKS, terminal=True)
        pid = details(asked).background_pid
        assert text(asked) == (
            f"Name? \n[terminal 1 is open, pid {pid}: write_stdin sends input, kill {pid} ends it]"
        )
        assert "hello Bob\n" in await show(session, 1, "Sure? ", sent="Bob\n")
        output = await session.send(1, "yes\n")
        assert text(output).endswith("[terminal 1 has ended: exit code 3]")
        assert (details(output).exit_code, details(output).terminal) == (3, 1)
        assert details(output).background_pid is None
        assert read_log(output) == "Name? Bob\nhello Bob\nSure? yes\n"
        assert session.ledger.take_finished() == []  # the model has heard of the end
        with pytest.raises(ToolError, match="Terminal 1 has ended"):
            await session.send(1, "again\n")

    in_session(tmp_path, scenario)


def test_python_on_a_terminal_keeps_its_state_and_is_interrupted(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("python3 -q", terminal=True)
        assert "42\n" in await show(session, 1, "42\n>>> ", sent="x = 6 * 7\nprint(x)\n")
        await session.send(1, "import time; print('be' + 'gun'); time.sleep(1000)\n")
        assert "KeyboardInterrupt" in await show(session, 1, "KeyboardInterrupt", sent="\x03")
        assert "43\n" in await show(session, 1, "43\n", sent="print(x + 1)\n")
        ended = text(await session.send(1, "\x04"))
        while "has ended" not in ended:
            ended = text(await session.send(1))

    in_session(tmp_path, scenario)


@pytest.mark.parametrize("layer", LAYERS)
def test_terminal_is_that_of_the_command_in_every_sandbox(tmp_path: Path, layer: str) -> None:
    if shutil.which("setsid") is None:
        pytest.skip("there is no setsid here")

    async def scenario(session: Session) -> None:
        await session.run(
            "trap 'echo caught' INT; printf '> '; while :; do sleep 0.1; done", terminal=True
        )
        shown = await show(session, 1, "caught", sent="\x03")
        assert "Permission denied" not in shown

    with confined(layer, tmp_path) as ground:
        in_session(tmp_path, scenario, ground.sandbox, out=ground.kept)


OPENS = "{ echo by its usual name >/dev/tty; } && tty && "
BY_NAME = 'echo by its own name >"$(tty)" && '


@pytest.mark.parametrize("layer", LAYERS)
def test_terminal_is_found_by_its_names(tmp_path: Path, layer: str) -> None:
    if shutil.which("setsid") is None:
        pytest.skip("there is no setsid here")
    # Below Landlock the name leads to a directory of terminals, and the others may be the user's.
    opens = OPENS + (BY_NAME if layer == "bubblewrap" else "")

    async def scenario(session: Session) -> None:
        await session.run("echo before")  # the sandbox has kept its mounts by now
        shown = text(await session.run(f"{opens} echo opened; read", terminal=True))
        while "opened\n" not in shown:
            assert "[terminal 1 has ended" not in shown, shown
            shown += text(await session.send(1))
        assert "by its usual name" in shown
        await session.send(1, "\n")
        assert text(await session.run("echo after")).startswith("after\n")

    with confined(layer, tmp_path) as ground:
        in_session(tmp_path, scenario, ground.sandbox, out=ground.kept)


def test_terminals_end_with_the_session_and_when_their_call_is_stopped(tmp_path: Path) -> None:
    kept, stopped = unique_seconds(), unique_seconds()

    async def scenario(session: Session) -> None:
        await session.run(f"printf begun; sleep {kept}", terminal=True)
        await session.run("read -p '> ' line; echo; sleep $line", terminal=True)
        sending = asyncio.create_task(session.send(2, f"{stopped}\n", timeout=600))
        await until(lambda: running(f"sleep {stopped}"))
        sending.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await sending
        (report,) = cancelled.value.args
        assert isinstance(report, Output)
        assert report.error is ErrorKind.CANCELLED
        assert running(f"sleep {stopped}") == []
        await until(lambda: running(f"sleep {kept}"))

    in_session(tmp_path, scenario)
    assert running(f"sleep {kept}") == []


def test_output_of_a_call_is_bounded_and_all_of_it_is_logged(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("read -p '> '; seq 100000; read -p '> '; seq 3", terminal=True)
        shown = await show(session, 1, "100000\n> ", sent="\n")
        assert "left out" in shown
        assert len(shown) < 70_000
        last = await session.send(1, "\n")
        assert text(last).split("\n")[1:4] == ["1", "2", "3"]
        assert read_log(last).count("\n") == 100_000 + 3 + 2

    in_session(tmp_path, scenario)


def test_input_that_a_terminal_cannot_take_is_refused_in_words(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("read -p '> '; sleep 1000", terminal=True)
        for wrong, words in {
            "x" * 5000 + "\n": "a line has 5000 bytes",
            "x" * 70_000: "at most 65536",
            "\ud800": "half a surrogate pair",
        }.items():
            with pytest.raises(ToolError, match=words):
                await session.send(1, wrong)
        with pytest.raises(ToolError, match="Terminal 7 does not exist"):
            await session.send(7, "x\n")
        for _ in range(TERMINALS_MAX - 1):
            await session.run("printf '> '; sleep 1000", terminal=True)
        with pytest.raises(ToolError, match="4 terminals are open"):
            await session.run("cat", terminal=True)
        with pytest.raises(ToolError, match="outside the sandbox"):
            await session.run("cat", terminal=True, grants=Grants(outside=True))

    in_session(tmp_path, scenario)


def test_program_that_does_not_read_takes_what_fits(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("stty raw -echo; echo ready; sleep 1000", terminal=True)
        shown = text(await session.send(1, "x" * 60_000, timeout=1))
        assert "bytes were not taken: the program does not read]" in shown

    in_session(tmp_path, scenario)


def test_log_of_a_terminal_is_sealed_when_it_ends(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        output = await session.run("echo one; read -p '> '; echo two", terminal=True)
        assert details(output).output_sha256 == ""
        kept = session.terminals.find(1).kept
        await session.send(1, "\n")
        await until(lambda: not alive(kept.shell.child.pid))
        data = read_log(output).encode()
        assert kept.output.sha256 == hashlib.sha256(data).hexdigest()

    in_session(tmp_path, scenario)
