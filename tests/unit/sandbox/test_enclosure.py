import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from agentcli.sandbox import landlock_rules
from agentcli.sandbox.enclosure import Enclosure, EnclosureAhead, Outsider
from agentcli.system import process
from tests.support.processes import running, unique_seconds, until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or landlock_rules.read_version() < landlock_rules.SCOPE_VERSION,
    reason="signals leave a Landlock domain here",
)

SHED = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 200)
        os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
"""


@pytest.fixture
def outsider() -> Iterator[Outsider]:
    made = Outsider()
    yield made
    made.close()


@pytest.fixture
def enclosures() -> Iterator[tuple[Enclosure, Enclosure]]:
    made = (
        Enclosure(landlock_rules.restrict_scope),
        Enclosure(lambda: None),
    )
    yield made
    for enclosure in made:
        enclosure.close()


def started(enclosure: Enclosure, *argv: str) -> "subprocess.Popen[bytes]":
    start = partial(process.start, argv, cwd=Path("/"), env={}, stdout=subprocess.DEVNULL)
    return enclosure.launcher.start(start)


def test_whatever_a_command_shed_ends_with_it_and_nothing_else(
    enclosures: tuple[Enclosure, Enclosure], outsider: Outsider
) -> None:
    ours, others, persons = unique_seconds(), unique_seconds(), unique_seconds()
    one, other = enclosures
    with subprocess.Popen(["sleep", persons]) as person:
        command = started(one, sys.executable, "-c", SHED, ours)
        elsewhere = started(other, "/bin/sleep", others)
        assert command.wait() == 0
        asyncio.run(until(lambda: len(running(f"sleep {ours}")) == 1))
        one.clear(outsider)
        assert running(ours) == []
        assert (running(others), running(persons)) == ([elsewhere.pid], [person.pid])
        other.clear(outsider)
        assert (running(others), running(persons)) == ([], [person.pid])
        assert outsider.is_alive
        person.kill()
    elsewhere.wait()


def test_nobody_is_killed_unless_the_domain_is_seen_to_hold(
    enclosures: tuple[Enclosure, Enclosure],
) -> None:
    gone = Outsider()
    gone.close()
    with started(enclosures[0], "/bin/sleep", "60") as command:
        enclosures[0].clear(gone)
        assert command.poll() is None
        command.kill()


def test_thread_that_ends_a_command_cannot_be_signalled_by_it(
    enclosures: tuple[Enclosure, Enclosure],
) -> None:
    own = enclosures[0]._thread.submit(threading.get_native_id).result()
    with started(enclosures[0], "/bin/sh", "-c", f"kill -0 {own}") as tried:
        assert tried.wait() != 0
    os.kill(own, 0)  # anybody else could


def test_launcher_that_cannot_give_up_its_rights_still_says_so(outsider: Outsider) -> None:
    def refuse() -> None:
        raise PermissionError(1, "Operation not permitted")

    enclosure = Enclosure(refuse)
    with pytest.raises(PermissionError):
        started(enclosure, "/bin/true")
    enclosure.clear(outsider)
    enclosure.close()
    assert outsider.is_alive


def test_enclosure_made_ahead_is_taken_once_and_only_for_the_same_rights() -> None:
    made = []

    def first() -> None:
        made.append("first")

    def second() -> None:
        made.append("second")

    ahead = EnclosureAhead()
    ahead.prepare(first)
    ahead.prepare(second)
    for wanted in (first, first, second):
        enclosure = ahead.take(wanted)
        assert started(enclosure, "/bin/true").wait() == 0
        enclosure.close()
    ahead.prepare(first)
    ahead.close()
    assert made[:3] == ["first", "first", "second"]
