"""Runs the program, kills it at chosen moments, and tells what it left alive. Run as a program.

Every orphan comes to this process, whatever session or group it made for itself, so nothing that
outlives a run can hide. Moments are counted in processes that the run is about to start.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE_S = 15.0
_PROGRAM = """
import json, os, sys
def note(event, given):
    if event == "subprocess.Popen":
        words = [os.fsdecode(word) for word in given[1]]
        env = os.environ if given[3] is None else given[3]
        values = [os.fsdecode(value) for value in env.values()]
        os.write(FD, json.dumps([words, values]).encode() + b"\\n")
FD = int(sys.argv.pop(1))
sys.addaudithook(note)
from agentcli.__main__ import main
sys.exit(main())
"""


def run_and_kill(arguments: list[str], starts: int, delay_s: float) -> list[str]:
    """Kill it so long after it begins so many processes; return those, as it told of them."""
    reader, writer = os.pipe()
    run = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(writer), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(writer,),
    )
    os.close(writer)
    seen = []
    with os.fdopen(reader) as lines:
        for line in lines:
            seen.append(line)
            if len(seen) == starts:
                time.sleep(delay_s)
                run.kill()
    run.wait()
    return seen


def survivors() -> list[str]:
    """Wait until no child is left; return the command lines of those that do not end."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(InterruptedError):
            try:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    time.sleep(0.02)
            except ChildProcessError:
                return []
    return [_words(pid) for pid in _children()]


def _children() -> list[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def _words(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return words


def main() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    moments, *arguments = sys.argv[1:]
    seen: list[str] = []
    for starts, delay_s in json.loads(moments):
        seen += run_and_kill(arguments, starts, delay_s)
    started = [json.loads(line) for line in seen]
    json.dump({"started": started, "survivors": survivors()}, sys.stdout)


if __name__ == "__main__":
    main()
