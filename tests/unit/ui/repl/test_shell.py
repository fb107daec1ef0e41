import asyncio
import os
import signal
from pathlib import Path

import pytest

from agentcli.ui.repl.shell import Ran, needs_terminal, run_captured


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


def test_model_is_told_a_bounded_text() -> None:
    ran = Ran(command="x", exit_code=1, output="a" * 50_000, duration_s=0.0)
    assert len(ran.for_model()) < 21_000
    assert "30000 characters left out" in ran.for_model()


def test_programs_that_need_a_terminal_are_known() -> None:
    assert [needs_terminal(it) for it in ("vim x", "/usr/bin/less y", "ls", "", "vimdiff")] == [
        True,
        True,
        False,
        False,
        False,
    ]
