from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from agentcli.log.paths import SessionPaths
from agentcli.sandbox.choose import run_probe_alone
from agentcli.session.configuration import Configuration
from agentcli.session.sandbox_host import SandboxHost
from agentcli.types.events import Event, Warned
from agentcli.types.settings import Settings


class Desk:
    """A host for a workspace, and what it emitted."""

    def __init__(self, home: Path, workspace: Path) -> None:
        self.emitted: list[Event] = []
        self.homes = home / "state" / "homes"
        directory = home / "state" / "sessions" / "one"
        directory.mkdir(parents=True)
        paths = SessionPaths(id="one", directory=directory)
        self.host = SandboxHost(
            Configuration(settings=Settings(workspace=workspace)), paths, emit=self.emitted.append
        )

    @property
    def codes(self) -> list[str]:
        return [event.code for event in self.emitted if isinstance(event, Warned)]

    def prepare(self) -> None:
        """Prepare it as a session does, in another thread."""
        thread = Thread(target=self.host.prepare, args=[run_probe_alone])
        thread.start()
        thread.join()


@pytest.fixture
def desk(home: Path, workspace: Path) -> Iterator[Desk]:
    desk = Desk(home, workspace)
    yield desk
    desk.host.close()


def test_warnings_of_a_prepared_sandbox_come_once_when_it_is_needed(desk: Desk) -> None:
    desk.homes.write_text("no directory")
    desk.prepare()
    desk.prepare()
    assert desk.emitted == []
    chosen = desk.host.sandbox
    assert desk.codes.count("sandbox.home") == 1
    before = len(desk.emitted)
    assert desk.host.sandbox is chosen
    assert len(desk.emitted) == before


def test_prepared_sandbox_is_the_one_that_is_used(home: Path, workspace: Path) -> None:
    prepared = Desk(home / "a", workspace)
    prepared.prepare()
    made = prepared.host.sandbox
    plain = Desk(home / "b", workspace)
    assert type(made) is type(plain.host.sandbox)
    assert prepared.codes == plain.codes
    assert str(prepared.host.failure) == str(plain.host.failure)
    for one in (prepared, plain):
        one.host.close()


def test_nothing_is_left_of_a_sandbox_that_nobody_needed(desk: Desk) -> None:
    desk.prepare()
    desk.host.close()
    assert desk.emitted == []
    assert [*desk.homes.iterdir()] == []
    assert [*desk.host.paths.directory.iterdir()] == []


def test_home_that_commands_may_have_used_stays(desk: Desk) -> None:
    desk.prepare()
    assert desk.host.sandbox is None or desk.host.sandbox.name
    desk.host.close()
    assert len([*desk.homes.iterdir()]) == 1


def test_home_of_an_earlier_session_stays(home: Path, workspace: Path) -> None:
    earlier, later = Desk(home / "a", workspace), Desk(home / "b", workspace)
    assert earlier.host.sandbox is None or earlier.host.sandbox.name
    earlier.host.close()
    later.homes.symlink_to(earlier.homes)
    later.prepare()
    later.host.close()
    assert len([*earlier.homes.iterdir()]) == 1
