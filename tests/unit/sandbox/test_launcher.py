import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from agentcli.sandbox import kernel
from agentcli.sandbox.kernel import Launcher
from agentcli.system import process


def start(launcher: Launcher, *argv: str) -> "subprocess.Popen[bytes]":
    return launcher.start(command(*argv))


def command(*argv: str, stdout: int = subprocess.DEVNULL) -> "partial[subprocess.Popen[bytes]]":
    return partial(process.start, argv, cwd=Path("/"), env={}, stdout=stdout)


def test_processes_are_started_by_the_thread_that_gave_up_its_rights() -> None:
    threads = []
    launcher = Launcher(lambda: threads.append(threading.current_thread()), name="launcher")
    assert [start(launcher, "/bin/true").wait() for _ in range(3)] == [0, 0, 0]
    assert [thread.name for thread in threads] == ["launcher_0"]
    launcher.close()


def test_nothing_is_started_when_rights_could_not_be_given_up() -> None:
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted")

    launcher = Launcher(refuse, name="launcher")
    for _ in range(2):
        with pytest.raises(PermissionError):
            start(launcher, "/bin/true")
    launcher.close()


def test_nothing_is_given_up_after_the_launcher_is_closed() -> None:
    given_up = threading.Event()

    def restrict() -> None:
        time.sleep(0.1)
        given_up.set()

    Launcher(restrict, name="launcher").close()
    assert given_up.is_set()


def test_missing_program_is_told() -> None:
    launcher = Launcher(lambda: None, name="launcher")
    with pytest.raises(FileNotFoundError):
        start(launcher, "/no/such/program")
    assert start(launcher, "/bin/true").wait() == 0
    launcher.close()


def test_process_has_its_own_session_and_no_input() -> None:
    launcher = Launcher(lambda: None, name="launcher")
    process = start(launcher, "/bin/sh", "-c", "read line || exec sleep 60")
    assert os.getsid(process.pid) == process.pid
    process.kill()
    process.wait()
    launcher.close()


@pytest.mark.skipif(sys.platform != "linux", reason="rights of a thread are those of Linux")
def test_rights_are_given_up_by_one_thread_only() -> None:
    launcher = Launcher(kernel.forbid_new_privileges, name="launcher")
    reader, writer = os.pipe()
    look = command("/bin/grep", "NoNewPrivs", "/proc/self/status", stdout=writer)
    launcher.start(look).wait()
    os.close(writer)
    with os.fdopen(reader) as output:
        assert output.read() == "NoNewPrivs:\t1\n"
    assert "NoNewPrivs:\t0\n" in Path("/proc/self/status").read_text()
    launcher.close()
