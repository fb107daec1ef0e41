import asyncio
import os
import signal
from pathlib import Path

import pytest

from agentcli.types.errors import UsageError
from agentcli.ui.repl.shell import ShellResult, needs_terminal, run_captured, run_on_terminal
from tests.support.terminal import until


def untold(text: str) -> None:
    """Nobody looks while it runs."""


def test_command_runs_in_the_workspace_with_its_output_kept(tmp_path: Path) -> None:
    told: list[str] = []
    ran = asyncio.run(run_captured("pwd; echo err >&2; exit 3", cwd=tmp_path, progress=told.append))
    assert (ran.exit_code, ran.output) == (3, f"{tmp_path}\nerr\n")
    assert told


def test_cancelled_command_is_ended(tmp_path: Path) -> None:
    async def go() -> int:
        told: list[str] = []
        has_begun = asyncio.Event()

        def progress(text: str) -> None:
            told.append(text)
            has_begun.set()

        command = "echo $$; exec sleep 1000"
        work = asyncio.ensure_future(run_captured(command, cwd=tmp_path, progress=progress))
        await has_begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return int(told[0])

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(go()), signal.SIGCONT)


def test_command_that_leaves_something_running_comes_back(tmp_path: Path) -> None:
    async def go() -> None:
        told: list[str] = []
        command = "(trap exit TERM; while [ ! -e on ]; do sleep 0.01; done; echo on; touch went) &"
        ran = await run_captured(f"{command} echo begun", cwd=tmp_path, progress=told.append)
        assert (ran.exit_code, ran.output) == (0, "begun\n")
        (tmp_path / "on").touch()
        await asyncio.to_thread(until, (tmp_path / "went").exists, "it can still write")
        assert told == ["begun\n"]

    asyncio.run(go())


@pytest.mark.parametrize("shell", ["/nonexistent/zsh", "/etc/passwd"])
def test_shell_that_cannot_be_run_is_an_error_that_says_so(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", shell)
    with pytest.raises(UsageError, match=f"cannot start {shell}"):
        asyncio.run(run_captured("ls", cwd=tmp_path, progress=untold))
    with pytest.raises(UsageError, match=f"cannot start {shell}"):
        run_on_terminal("ls", cwd=tmp_path)


@pytest.mark.parametrize("command", ["echo \0", "echo \ud800", "echo " + "x" * 200_000])
def test_command_that_no_process_can_be_given_is_an_error(command: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot start"):
        asyncio.run(run_captured(command, cwd=tmp_path, progress=untold))


def test_directory_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"in {tmp_path}/none: No such file"):
        asyncio.run(run_captured("ls", cwd=tmp_path / "none", progress=untold))


def test_last_of_a_long_output_is_kept(tmp_path: Path) -> None:
    command = "yes 0123456789 | head -n 300000; echo end"
    ran = asyncio.run(run_captured(command, cwd=tmp_path, progress=untold))
    assert len(ran.output) == 1_000_000
    assert ran.output.endswith("0123456789\nend\n")


def test_model_is_told_a_bounded_text() -> None:
    ran = ShellResult(command="x", exit_code=1, output="a" * 50_000, duration_s=0.0)
    assert len(ran.render_for_model()) < 21_000
    assert "30000 characters left out" in ran.render_for_model()


def test_programs_that_need_a_terminal_are_known() -> None:
    assert [needs_terminal(it) for it in ("vim x", "/usr/bin/less y", "ls", "", "vimdiff")] == [
        True,
        True,
        False,
        False,
        False,
    ]
