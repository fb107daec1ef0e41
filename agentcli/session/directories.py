"""Agentcli's own directories, and those that the user added to the workspace of a session.

What the user added are grants: they are given to every command, and the file tools reach the same
paths. Only the user can add one. Each is recorded, so a session that is resumed has it again.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from platformdirs import user_state_path

from agentcli.settings import get_user_directory
from agentcli.system.files import expand_home, is_directory, is_utf8, locate_home
from agentcli.system.plain_text import show_controls
from agentcli.system.reserved import Reserved, is_protected
from agentcli.types.errors import UsageError
from agentcli.types.events import DirectoryAdded, Emit, Fact, SessionForked, Warned
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.settings import Settings

READ_ONLY = ":ro"
_HINT = "--add-dir DIR, or DIR:ro only to read it"
_SYSTEM = tuple(
    map(
        Path,
        (
            *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/nix", "/proc", "/run", "/sbin"),
            *("/sys", "/usr", "/System", "/Library", "/private/etc"),
        ),
    )
)
_STATE = tuple(map(Path, ("/dev", "/proc", "/run", "/sys")))


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnDirectories:
    """Agentcli's settings and records. No command may change them, even in the workspace."""

    settings: Path
    sessions: Path
    trust: Path

    @property
    def records(self) -> tuple[Path, ...]:
        """The sessions, and the directory of all other records."""
        return (self.sessions, self.trust.parent)

    @property
    def all(self) -> tuple[Path, ...]:
        return (self.settings, *self.records)


def get_trust_directory() -> Path:
    return user_state_path("agentcli", appauthor=False) / "trust"


def locate_own_directories(sessions: Path) -> OwnDirectories:
    return OwnDirectories(
        settings=get_user_directory(), sessions=sessions, trust=get_trust_directory()
    )


class Directories:
    def __init__(self, settings: Settings, *, sessions: Path, emit: Emit) -> None:
        """`sessions` is the directory of all sessions. Raise UsageError for a bad `add_dir`."""
        self.workspace = Path(os.path.realpath(settings.workspace))
        self._sessions = sessions
        self._emit = emit
        self._grants = NO_GRANTS
        self._problems: list[str] = []
        for written in settings.directories:
            self._try(written)
        for written in settings.add_dir:
            self._grants |= self.check(written)

    def find_grants(self) -> Grants:
        """Return what every command may reach besides the workspace.

        What has vanished, or is a link by now, is dropped, with a warning."""
        for path in (*self._grants.writable, *self._grants.readable):
            if not is_directory(path):
                self._drop(path, "is gone")
            elif os.path.realpath(path) != str(path):
                self._drop(path, "leads elsewhere now")
        return self._grants

    def find_roots(self) -> tuple[Path, ...]:
        grants = self.find_grants()
        return (*grants.writable, *grants.readable)

    def check(self, written: str) -> Grants:
        """Return what a directory would add. Raise UsageError that says why it cannot be added."""
        is_read_only = written.endswith(READ_ONLY)
        path = Path(os.path.realpath(expand_home(written.removesuffix(READ_ONLY))))
        if why := self._why_not_addable(path, is_read_only=is_read_only):
            raise UsageError(f"cannot add {show_controls(written)}: {why}", hint=_HINT)
        if is_read_only:
            return Grants(readable=(path,))
        return Grants(writable=(path,))

    def add(self, written: str) -> Path:
        """Add a directory from now on, and record it. Raise UsageError if it cannot be added."""
        added = self.check(written)
        self._grants |= added
        ((path, is_writable),) = _list(added)
        self._record(path, is_writable)
        return path

    def start(self, past: Iterable[Fact]) -> None:
        """Record what the settings add, and add again what the session had before."""
        known = _fold(past)
        for path, is_writable in _list(self._grants):
            if (path, is_writable) not in known:
                self._record(path, is_writable)
        for path, is_writable in known - set(_list(self._grants)):
            self._try(f"{path}{'' if is_writable else READ_ONLY}")
        for problem in self._problems:
            self._warn(problem)

    def _try(self, written: str) -> None:
        try:
            self._grants |= self.check(written)
        except UsageError as error:
            self._problems.append(str(error))

    def _record(self, path: Path, is_writable: bool) -> None:
        self._emit(DirectoryAdded(path=str(path), writable=is_writable))

    def _drop(self, path: Path, why: str) -> None:
        self._grants = Grants(
            writable=tuple(one for one in self._grants.writable if one != path),
            readable=tuple(one for one in self._grants.readable if one != path),
        )
        self._warn(f"the added directory {show_controls(str(path))} {why}, and is no longer used")

    def _warn(self, message: str) -> None:
        self._emit(Warned(code="directory", message=message))

    def _why_not_addable(self, path: Path, *, is_read_only: bool) -> str:
        if not is_directory(path):
            return "there is no such directory"
        if not os.access(path, os.R_OK | os.X_OK):
            return "you may not read it"
        if not is_utf8(path):
            return "its path is not UTF-8"
        return (
            self._why_protected(path, is_read_only=is_read_only)
            or self._why_nested(path)
            or ("" if is_read_only or os.access(path, os.W_OK) else "you may not write to it")
        )

    def _why_protected(self, path: Path, *, is_read_only: bool) -> str:
        user_home = Path(os.path.realpath(locate_home()))
        reserved = Reserved(user_home, home=user_home)
        if path == path.parent or user_home.is_relative_to(path):
            return "it holds your home directory; add a directory in it"
        if is_protected(path, path.parts):
            return "it belongs to git or to agentcli's settings"
        own = [Path(os.path.realpath(one)) for one in locate_own_directories(self._sessions).all]
        if any(path.is_relative_to(one) or one.is_relative_to(path) for one in own):
            return "it holds agentcli's own settings or records"
        if why := reserved.why_hidden(path):
            return why
        if any(path.is_relative_to(one) for one in (_STATE if is_read_only else _SYSTEM)):
            return "it belongs to the system"
        return "" if is_read_only else reserved.why_guarded(path)

    def _why_nested(self, path: Path) -> str:
        if path.is_relative_to(self.workspace):
            return "it is in the workspace already"
        if self.workspace.is_relative_to(path):
            return "it holds the workspace; start agentcli there, with -C"
        for other in (*self._grants.writable, *self._grants.readable):
            if path.is_relative_to(other) or other.is_relative_to(path):
                return f"{show_controls(str(other))} is added already"
        return ""


def _fold(facts: Iterable[Fact]) -> set[tuple[Path, bool]]:
    """Return the recorded directories. A fork only reads those of the session it comes from."""
    known: set[tuple[Path, bool]] = set()
    for fact in facts:
        match fact:
            case DirectoryAdded(path=path, writable=writable):
                known.add((Path(path), writable))
            case SessionForked():
                known = {(path, False) for path, _ in known}
            case _:
                pass
    return known


def _list(grants: Grants) -> list[tuple[Path, bool]]:
    """Return the directories, each with whether it may be written."""
    return [
        *((path, True) for path in grants.writable),
        *((path, False) for path in grants.readable),
    ]
