import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread, get_native_id

import pytest

from agentcli.sandbox.limits import (
    CommandLimits,
    CommandWatch,
    Process,
    count_tasks,
    find_tree,
    kill_tree,
    list_processes,
    run_ahead,
)

LOWERED = """
import resource
from agentcli.sandbox.limits import CommandLimits, count_tasks
from agentcli.sandbox.limits import limit_processes, lower_own_limits
lower_own_limits(); lower_own_limits()
for name in ("CORE", "FSIZE", "NOFILE"):
    print(name, *resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
for processes in (5000, 100):
    limit_processes(CommandLimits(processes=processes))
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    print(abs(soft - count_tasks() - processes) < 90, hard == -1 or hard >= soft)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limits are those of Linux")
def test_own_limits_are_lowered_and_never_raised() -> None:
    limited = 'ulimit -Sn 512; ulimit -Hn 4096; exec "$0" -c "$1"'
    ran = subprocess.run(
        ["bash", "-c", limited, sys.executable, LOWERED], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == [
        "CORE 0 0",
        f"FSIZE {64 * 1024**3} {64 * 1024**3}",
        "NOFILE 512 4096",
        "True True",
        "True True",
    ]


def test_command_within_its_limits_is_left_alone() -> None:
    watch = CommandWatch(CommandLimits())
    process = subprocess.Popen(["sleep", "0.3"], start_new_session=True)
    watch.add(process, tasks_before=count_tasks())
    assert (process.wait(), watch.remove(process), watch.remove(process)) == (0, (), ())


def test_tree_holds_descendants_and_the_rest_of_the_session() -> None:
    table = {
        1: Process(parent=0, session=1, memory_bytes=0),
        10: Process(parent=1, session=10, memory_bytes=0),
        11: Process(parent=10, session=10, memory_bytes=0),
        12: Process(parent=11, session=12, memory_bytes=0),
        13: Process(parent=1, session=10, memory_bytes=0),
        14: Process(parent=1, session=14, memory_bytes=0),
    }
    assert find_tree(10, table) == {10, 11, 12, 13}
    assert find_tree(99, table) == set()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_whole_tree_is_killed() -> None:
    script = "sleep 300 & setsid sleep 301 & wait"
    process = subprocess.Popen(["bash", "-c", script], start_new_session=True)
    while len(find_tree(process.pid, list_processes())) < 3:
        assert process.poll() is None
    members = find_tree(process.pid, list_processes())
    kill_tree(process.pid)
    process.wait()
    while members & list_processes().keys():
        pass  # dying takes a moment


def _may_run_ahead() -> bool:
    with suppress(AttributeError, OSError), run_ahead():
        return os.sched_getscheduler(0) != os.SCHED_OTHER
    return False


@pytest.mark.skipif(not _may_run_ahead(), reason="only root may run ahead of other processes")
def test_all_threads_run_ahead_while_a_bomb_is_stopped_and_no_process_that_they_start() -> None:
    is_done = Event()
    other = Thread(target=is_done.wait)
    other.start()
    threads = [get_native_id(), other.native_id or 0]
    with run_ahead():
        assert all(os.sched_getscheduler(one) & os.SCHED_FIFO for one in threads)
        asked = "import os; print(os.sched_getscheduler(0))"
        ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, check=True)
        assert int(ran.stdout) == os.SCHED_OTHER
    assert {os.sched_getscheduler(one) for one in threads} == {os.SCHED_OTHER}
    is_done.set()
    other.join()
