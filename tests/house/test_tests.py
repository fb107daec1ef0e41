"""The tests themselves: which are quick, and that a forked program is the program."""

import contextlib
import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from agentcli.system.diff import compare
from tests.support.program import PROGRAM, agentcli, environment, script, write_fork_command
from tests.support.serving import serve
from tests.support.speed import Guard, Reach

TESTS = Path(__file__).parents[1]
SERVES = re.compile(r"\.(serve_forever|handle_request)\b")


class Listening(ThreadingHTTPServer):
    """Listens as soon as it is made."""


@contextlib.contextmanager
def listening() -> Iterator[Listening]:
    yield Listening(("127.0.0.1", 0), BaseHTTPRequestHandler)


def by_a_helper() -> None:
    with listening():
        pass


def by_the_program() -> None:
    agentcli("--version", home=Path())


def by_itself() -> None:
    subprocess.run(["true"])


def by_a_value() -> None:
    [one() for one in WAYS]


def not_at_all() -> None:
    compare("a", "b", path="a.txt")


WAYS: list[Callable[[], None]] = [not_at_all, by_itself]


@pytest.mark.parametrize("way", [by_a_helper, by_the_program, by_itself, by_a_value])
def test_code_that_reaches_a_start_is_not_quick(way: Callable[[], None]) -> None:
    assert Reach([way]).starts(way)


def test_code_that_starts_nothing_is_quick() -> None:
    assert not Reach([not_at_all]).starts(not_at_all)


def test_quick_test_is_marked(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("quick")


def test_guard_names_what_a_quick_test_started() -> None:
    guard = Guard()
    guard.watch()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    with pytest.raises(pytest.fail.Exception, match=r"socket\.bind .*os\.posix_spawn .*true"):
        guard.stop()
    guard.watch()
    guard.stop()


def test_server_ends_with_its_block_though_the_test_is_skipped_in_it() -> None:
    before = set(threading.enumerate())
    with pytest.raises(pytest.skip.Exception), listening() as server, serve(server):
        pytest.skip("what it needs is not installed")
    assert set(threading.enumerate()) <= before
    assert server.fileno() == -1


def test_servers_of_tests_are_run_in_one_place() -> None:
    running = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if "target=" in (text := path.read_text()) and SERVES.search(text)
    }
    in_a_sandbox = "e2e/test_sandbox_work.py"
    assert running - {in_a_sandbox, "house/test_tests.py"} == {"support/serving.py"}


@pytest.mark.parametrize(
    "words", [("--version",), ("no-such-command",), ("run", "-"), ("policy", "explain", "bash: ls")]
)
def test_forked_program_is_the_program(words: tuple[str, ...], tmp_path: Path) -> None:
    text = "said äöü\n" if words[0] == "run" else None
    options = ("--model", script(tmp_path / "s.json", ["Done."])) if words[0] == "run" else ()
    forked = agentcli(*words, *options, home=tmp_path, stdin=text)
    started, by_command = (
        subprocess.run(
            [program, *words, *options],
            cwd=tmp_path,
            env=environment(tmp_path),
            input=text or "",
            capture_output=True,
            text=True,
        )
        for program in (PROGRAM, write_fork_command())
    )
    assert (forked.code, forked.out) == (started.returncode, started.stdout)
    assert (by_command.returncode, by_command.stdout) == (started.returncode, started.stdout)


def test_command_of_a_forked_program_passes_signals_on_and_ends_as_it_did(tmp_path: Path) -> None:
    command = [write_fork_command(), "acp", "--model", script(tmp_path / "s.json", [])]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment(tmp_path), stdin=pipe, stdout=pipe) as started:
        assert started.stdin is not None and started.stdout is not None
        started.stdin.write(b"[]\n")
        started.stdin.flush()
        started.stdout.readline()
        started.terminate()
        assert started.wait(timeout=30) == 0
