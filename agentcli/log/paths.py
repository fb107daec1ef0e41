"""The paths of sessions: one private directory each, under the platform's state directory."""

import hashlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count, takewhile
from pathlib import Path

from platformdirs import user_state_path

from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass

LOG = "log.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPaths:
    id: str
    directory: Path
    log_name: str = LOG

    @property
    def log(self) -> Path:
        return self.directory / self.log_name

    @property
    def sessions(self) -> Path:
        """The directory of all sessions. The log of a child agent is among its parent's outputs."""
        return self.directory.parent if self.log_name == LOG else self.directory.parent.parent

    @property
    def out(self) -> Path:
        """The directory with full outputs of commands; the read tools may read here."""
        return self.directory / "out"

    def choose_child_log(self) -> Path:
        """Return an unused path for a child agent's log, where its parent may read it."""
        return next(path for path in self._iter_child_paths() if not path.exists())

    def iter_child_logs(self) -> Iterator[Path]:
        """Yield the logs of child agents, the oldest first."""
        return takewhile(Path.exists, self._iter_child_paths())

    def _iter_child_paths(self) -> Iterator[Path]:
        return (self.out / f"child-{number}.jsonl" for number in count(1))


def locate_sessions() -> Path:
    directory = user_state_path("agentcli", appauthor=False) / "sessions"
    if not directory.is_absolute():
        raise SettingsError("this user has no home directory", hint="export HOME=/some/directory")
    return directory


def locate_fork_tree(session: str) -> Path:
    """Return the workspace of a fork: an ordinary directory, so not beside the sessions."""
    return user_state_path("agentcli-forks", appauthor=False) / session


def locate_worktrees(repository: Path) -> Path:
    """Return where the worktrees of a repository are: ordinary directories, found by its name."""
    key = hashlib.sha256(os.fsencode(repository)).hexdigest()[:8]
    return _locate_all_worktrees() / f"{repository.name or 'root'}-{key}"


def is_worktree(workspace: Path) -> bool:
    """Return whether a directory is below those of our worktrees."""
    return workspace.is_relative_to(_locate_all_worktrees())


def _locate_all_worktrees() -> Path:
    return user_state_path("agentcli-worktrees", appauthor=False)


def create_session_paths(sessions: Path | None = None) -> SessionPaths:
    """Make a new session's directory, readable by its owner only."""
    sessions = sessions or locate_sessions()
    try:
        sessions.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            session = _make_id()
            paths = SessionPaths(id=session, directory=sessions / session)
            if _create(paths.directory):
                paths.out.mkdir(mode=0o700)
                return paths
    except OSError as error:
        raise SettingsError(
            f"cannot create a session directory in {sessions}: {error.strerror}",
            hint="export XDG_STATE_HOME=/a/writable/directory",
        ) from error


def _make_id() -> str:
    """Return an id that sorts by time; its last four characters are enough to type by hand."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"


def _create(directory: Path) -> bool:
    """Return False if another process took the same id in the same second."""
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        return False
    return True
