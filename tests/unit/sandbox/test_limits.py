import subprocess
import sys
from pathlib import Path

import pytest

from agentcli.sandbox.limits import (
    CommandLimits,
    CommandWatch,
    Process,
    count_tasks,
    find_tree,
    kill_tree,
    list_processes,
)

LOWERED = """
import resource
from agentcli.sandbox.limits import CommandLimits, count_tasks
from agentcli.sandbox.limits import limit_processes, lower_own_limits
lower_own_limits(); lower_own_limits()
for name in ("CORE", "FSIZE", "NOFILE"):
    print(name, *resource.getrlimit(getattr(resource, "RLIMIT_" + name)))
for processes in (5000, 100):
    limit_processes(CommandLimits(processes=processes), tasks_now=count_tasks())
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
