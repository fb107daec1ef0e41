import asyncio
import os
import secrets
import signal
import subprocess
import time
from pathlib import Path

import pytest

from agentcli.system import process_tree
from agentcli.system.environment import build_child_environment
from tests.support.processes import until

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/environ").exists(), reason="processes are told by ps here"
)


def mark() -> str:
    return f"agentcli-{secrets.token_hex(8)}.1."


def sleeping(own: str = "", *, command: str = "exec sleep 60") -> "subprocess.Popen[bytes]":
    env = build_child_environment(os.environ, tag=own)
    return subprocess.Popen(["bash", "-c", command], env=env, start_new_session=True)


def ended(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    child.wait()


def test_process_is_found_by_its_environment() -> None:
    own = mark()
    child = sleeping(own)
    try:
        asyncio.run(until(lambda: process_tree.find_processes(own)))
        assert process_tree.find_processes(own) == {child.pid: own}
        assert process_tree.find_processes(own[:-2]) == {child.pid: own}
        assert process_tree.find_processes(mark()) == {}
    finally:
        ended(child)
    assert process_tree.find_processes(own) == {}


@needs_proc
def test_process_is_found_by_its_file_where_its_environment_is_empty(tmp_path: Path) -> None:
    own = mark()
    script = tmp_path / own
    script.touch()
    child = sleeping(command=f"exec {process_tree.TAG_FD}<{script}; exec env -i sleep 60")
    try:
        asyncio.run(until(lambda: process_tree.find_processes(own)))
        assert process_tree.find_processes(own) == {child.pid: own}
    finally:
        ended(child)


@needs_proc
def test_confined_mark_counts_only_where_no_privileges_can_be_gained() -> None:
    own = process_tree.make_tag(confined=True)
    copier = sleeping(own)
    confined = sleeping(own, command="exec setpriv --no-new-privs sleep 60")
    try:
        asyncio.run(until(lambda: process_tree.find_processes(own)))
        assert process_tree.find_processes(own) == {confined.pid: own}
        assert asyncio.run(process_tree.kill_all(own, known={})) == []
        assert (copier.poll(), confined.wait()) == (None, -signal.SIGKILL)
    finally:
        ended(copier)
        ended(confined)


def test_process_is_found_by_ps_where_there_is_no_proc() -> None:
    own = mark()
    child = sleeping(own)
    try:
        asyncio.run(until(lambda: process_tree._find_with_ps(own)))
        assert process_tree._find_with_ps(own) == {child.pid: own}
    finally:
        ended(child)


@needs_proc
def test_survivors_are_found_near_the_shell_and_far_from_it() -> None:
    own = mark()
    shell = subprocess.run(
        ["bash", "-c", "(sleep 60; true) >/dev/null 2>&1 & echo $$ $!"],
        env=build_child_environment(os.environ, tag=own),
        stdout=subprocess.PIPE,
        check=True,
    )
    shell_pid, left = map(int, shell.stdout.split())
    asyncio.run(until(lambda: len(process_tree.find_processes(own)) == 2))
    for since_pid in (shell_pid, 2**30, -1):
        for ran_s in (0.0, 60.0):
            left_behind = process_tree.find_survivors(
                own, shell_pid=shell_pid, since_pid=since_pid, ran_s=ran_s
            )
            assert left_behind == [left]
    assert asyncio.run(process_tree.kill_all(own, known={})) == []
    assert process_tree.find_processes(own) == {}


def test_birth_tells_a_process_from_a_later_one() -> None:
    child = sleeping()
    birth = process_tree.read_start_time(child.pid)
    assert birth
    assert process_tree.read_start_time(child.pid) == birth
    child.kill()
    asyncio.run(
        until(lambda: process_tree.read_start_time(child.pid) == "")
    )  # a zombie counts as gone
    child.wait()
    assert process_tree.read_start_time(child.pid) == ""


def test_group_of_zombies_does_not_live() -> None:
    child = sleeping()
    assert process_tree.group_lives(child.pid)
    child.kill()
    if Path("/proc").exists():
        asyncio.run(until(lambda: not process_tree.group_lives(child.pid)))
    child.wait()
    assert not process_tree.group_lives(child.pid)


def test_waiting_for_the_dead_takes_no_time_and_for_the_living_not_long() -> None:
    child = sleeping()
    known = {child.pid: process_tree.read_start_time(child.pid)}
    began = time.monotonic()
    asyncio.run(process_tree.wait_until_gone(known, within_s=0.1))
    assert time.monotonic() - began >= 0.1
    assert asyncio.run(process_tree.kill_all(mark(), known=known)) == []
    child.wait()
    asyncio.run(process_tree.wait_until_gone(known, within_s=60))
