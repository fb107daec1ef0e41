import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agentcli.session.directories import Directories
from agentcli.types.errors import UsageError
from agentcli.types.events import DirectoryAdded, Event, Fact, SessionForked, Warned
from agentcli.types.settings import Settings


@dataclass
class Heard:
    events: list[Event] = field(default_factory=list)

    @property
    def added(self) -> list[tuple[str, bool]]:
        found = (one for one in self.events if isinstance(one, DirectoryAdded))
        return [(one.path, one.writable) for one in found]

    @property
    def warnings(self) -> list[str]:
        return [one.message for one in self.events if isinstance(one, Warned)]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def other(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(home))
    other = tmp_path / "other"
    other.mkdir()
    return other


def build(
    workspace: Path, heard: Heard, *added: str | Path, directories: tuple[str, ...] = ()
) -> Directories:
    settings = Settings(
        workspace=workspace, add_dir=tuple(map(str, added)), directories=directories
    )
    sessions = Path(os.environ["HOME"]).parent / "own/sessions"
    return Directories(settings, sessions=sessions, emit=heard.events.append)


def test_directory_of_the_command_line_is_recorded_once_it_starts(
    workspace: Path, other: Path, heard: Heard
) -> None:
    directories = build(workspace, heard, other)
    assert heard.events == []
    directories.start(())
    assert heard.added == [(str(other), True)]
    assert directories.find_grants().writable == (other,)


def test_directory_is_added_only_to_read(workspace: Path, other: Path, heard: Heard) -> None:
    directories = build(workspace, heard)
    assert directories.add(f"{other}:ro") == other
    assert heard.added == [(str(other), False)]
    assert directories.find_grants().readable == (other,)
    assert directories.find_grants().writable == ()


def test_link_is_added_as_what_it_leads_to(
    workspace: Path, other: Path, heard: Heard, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(other)
    assert build(workspace, heard).add(str(tmp_path / "link")) == other


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("{tmp}/missing", "there is no such directory"),
        ("{tmp}/file", "there is no such directory"),
        ("/", "it holds your home directory"),
        ("{tmp}/home", "it holds your home directory"),
        ("{tmp}/home/.ssh", "it holds the user's keys, passwords or history"),
        ("{tmp}/home/.ssh:ro", "it holds the user's keys, passwords or history"),
        ("{tmp}/home/.local/bin", "it runs at login or later, or belongs to the system"),
        ("{tmp}/other/.git/hooks", "it belongs to git or to agentcli's settings"),
        ("{tmp}/own/sessions", "it holds agentcli's own settings or records"),
        ("/usr/lib", "it belongs to the system"),
        ("/proc/self:ro", "it belongs to the system"),
        ("{tmp}/work", "it is in the workspace already"),
        ("{tmp}/work/inner", "it is in the workspace already"),
        ("{tmp}/added/inner", "is added already"),
        ("{tmp}/link-to-keys", "it holds the user's keys, passwords or history"),
    ],
)
def test_bad_directory_is_refused(
    written: str, why: str, tmp_path: Path, workspace: Path, other: Path, heard: Heard
) -> None:
    for name in (
        *("home/.ssh", "home/.local/bin", "other/.git/hooks", "own/sessions", "work/inner"),
        "added/inner",
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "link-to-keys").symlink_to(tmp_path / "home/.ssh")
    directories = build(workspace, heard, tmp_path / "added")
    before = directories.find_grants()
    with pytest.raises(UsageError, match="cannot add") as refused:
        directories.add(written.format(tmp=tmp_path))
    assert why in str(refused.value)
    assert directories.find_grants() == before
    assert heard.added == []


def test_directory_whose_path_is_not_utf8_is_refused(
    workspace: Path, heard: Heard, tmp_path: Path
) -> None:
    odd = tmp_path / os.fsdecode(b"bad\xff")
    odd.mkdir()
    with pytest.raises(UsageError, match="its path is not UTF-8"):
        build(workspace, heard).add(str(odd))


def test_directory_that_holds_the_workspace_is_refused(
    workspace: Path, other: Path, heard: Heard
) -> None:
    inner = other / "project"
    inner.mkdir()
    with pytest.raises(UsageError, match="it holds the workspace"):
        build(inner, heard, other)


def test_bad_directory_of_the_settings_is_a_recorded_warning(
    workspace: Path, other: Path, heard: Heard
) -> None:
    directories = build(workspace, heard, directories=(str(other), "/missing/directory"))
    directories.start(())
    assert directories.find_grants().writable == (other,)
    assert heard.warnings == ["cannot add /missing/directory: there is no such directory"]


def test_directory_that_vanishes_is_left_out_with_a_warning(
    workspace: Path, other: Path, heard: Heard
) -> None:
    directories = build(workspace, heard, other)
    shutil.rmtree(other)
    assert directories.find_grants().writable == ()
    assert directories.find_grants().writable == ()
    assert heard.warnings == [f"the added directory {other} is gone, and is no longer used"]


def test_resumed_session_has_its_directories_again(
    workspace: Path, other: Path, heard: Heard
) -> None:
    past = [DirectoryAdded(path=str(other), writable=False)]
    directories = build(workspace, heard)
    directories.start(past)
    assert directories.find_grants().readable == (other,)
    assert heard.added == []


def test_fork_only_reads_the_directories_of_its_origin(
    workspace: Path, other: Path, heard: Heard
) -> None:
    past: list[Fact] = [
        DirectoryAdded(path=str(other), writable=True),
        SessionForked(session="new", origin="old", at_seq=1),
    ]
    directories = build(workspace, heard)
    directories.start(past)
    assert (directories.find_grants().writable, directories.find_grants().readable) == (
        (),
        (other,),
    )
