"""A tool call as rules see it: its tool, the paths it names, the command it would run."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentcli.permissions.shell import ShellLine, parse_line
from agentcli.system.files import expand_own_home, is_directory
from agentcli.system.grants import flatten_request, parse_request
from agentcli.system.hosts import WebAddress
from agentcli.system.lazy import compile_later
from agentcli.types.computer import COMPUTER
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, NO_REQUEST, GrantRequest, Grants
from agentcli.types.own_tools import EDITING, OWN_TOOLS, READING, WEB_FETCH
from agentcli.types.sandbox import TemporaryFiles
from agentcli.types.tools import Effect

WEB_SEARCH = "web_search"
SHELL = "bash"
WRITE_STDIN = "write_stdin"
KNOWN_TOOLS = frozenset(OWN_TOOLS)

_PATCHED_FILE = compile_later(r"^\s*\*\*\*\s*(?:(?:Add|Update|Delete) File|Move to):(.+)$", re.M)
_UPDATED_FILE = compile_later(r"^\s*\*\*\*\s*Update File:\s*(.+?)\s*$", re.M)
_MCP_SOURCE = "mcp "


@dataclass(frozen=True, slots=True)
class ReachedPath:
    """A path that a call names, or may mean."""

    written: Path
    """Absolute, as written, with the links still in it."""
    real: Path
    is_temporary: bool = False
    """True for a temporary file of commands, which is theirs and the tools' alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSubject:
    tool: str
    effect: Effect
    root: Path
    """The workspace."""
    cwd: Path
    """The directory in which a command would run."""
    server: str = ""
    """The MCP server; empty for our own tools."""
    server_tool: str = ""
    paths: tuple[ReachedPath, ...] = ()
    changed: tuple[ReachedPath, ...] = ()
    """Those that are changed in part: an answer may show lines that they have."""
    command: str = ""
    line: ShellLine | None = None
    typed: ShellLine | None = None
    """The input for a running command, as a shell would read it. `command` is its text then."""
    receiver: str = ""
    """The running command that gets the input."""
    held: Grants = NO_GRANTS
    """What that command was granted when it started."""
    host: str = ""
    """The host and port of a page to fetch, as `docs.example.org:443`."""
    page: str = ""
    """The host and port of the page in the browser that a call acts on, or opens."""
    acts: frozenset[str] = frozenset()
    """The classes of the actions in the browser: look, click, type, navigate."""
    caution: str = ""
    """Why the provider wants the user to confirm the call; empty if it does not."""
    request: GrantRequest = NO_REQUEST
    """What a command needs beyond the sandbox, as the model says, with real paths."""
    added: Grants = NO_GRANTS
    """The directories that the user added to the workspace."""
    own: tuple[Path, ...] = ()
    """Other directories that tools may read: the session's outputs and the user's skills."""

    @property
    def takes_path(self) -> bool:
        return self.tool in EDITING | READING and not self.server

    @property
    def is_search(self) -> bool:
        """True if it asks the search engine that the user has configured."""
        return self.tool == WEB_SEARCH and not self.server

    @property
    def is_poll(self) -> bool:
        """True if it sends nothing, and only waits for what a running command prints."""
        return self.tool == WRITE_STDIN and not self.server and self.typed is None

    @property
    def roots(self) -> tuple[Path, ...]:
        """The workspace and the directories added to it."""
        return (self.root, *self.added.writable, *self.added.readable)

    @property
    def outside(self) -> tuple[ReachedPath, ...]:
        """The paths that a tool which reads could not reach."""
        if self.tool not in READING or self.server:
            return ()
        places = (*self.roots, *self.own)
        return tuple(
            reach
            for reach in self.paths
            if not (reach.is_temporary or any(map(reach.real.is_relative_to, places)))
        )


class SubjectFactory:
    """A factory of subjects for calls in one workspace."""

    def __init__(
        self,
        *,
        workspace: Path,
        cwd: Callable[[], Path],
        real_path: Callable[[Path], Path] | None = None,
        find_temporary: Callable[[], TemporaryFiles | None] = lambda: None,
        added: Callable[[], Grants] = lambda: NO_GRANTS,
        own: Sequence[Path] = (),
    ) -> None:
        self._root = Path(os.path.realpath(workspace))
        self._cwd = cwd
        self._added = added
        self._own = tuple(Path(os.path.realpath(path)) for path in own)
        self._real_path = real_path or (lambda path: Path(os.path.realpath(path)))
        self._find_temporary = find_temporary

    def build(
        self, tool: str, args: Any, *, effect: Effect, source: str = "built-in"
    ) -> CallSubject:
        """Build a subject. `args` are parsed arguments, or the mapping to parse them from."""
        server = find_server_name(source)
        is_shell = tool == SHELL and not server
        is_input = tool == WRITE_STDIN and not server
        is_browser = tool == COMPUTER and not server
        command = _read_field(args, "command") if is_shell else ""
        typed = _read_field(args, "input") if is_input else ""
        paths = () if server else _list_paths(tool, args)
        changed = () if server else _list_changed_paths(tool, args)
        return CallSubject(
            tool=tool,
            effect=effect,
            root=self._root,
            cwd=self._cwd(),
            server=server,
            server_tool=find_server_tool(tool, args, server=server) if server else "",
            paths=self._reach_all(paths, finds=tool in READING),
            changed=self._reach_all(changed),
            command=command or typed,
            line=parse_line(command) if is_shell else None,
            typed=parse_line(typed) if typed else None,
            receiver=_read_field(args, "command") if is_input else "",
            held=getattr(args, "grants", NO_GRANTS) if is_input else NO_GRANTS,
            host=_read_host(args) if tool == WEB_FETCH and not server else "",
            page=_read_field(args, "page") if is_browser else "",
            acts=frozenset(getattr(args, "acts", ())) if is_browser else frozenset(),
            caution=_read_field(args, "caution") if is_browser else "",
            request=self._read_request(args) if is_shell else NO_REQUEST,
            added=self._added(),
            own=self._own,
        )

    def _read_request(self, args: Any) -> GrantRequest:
        """Return the request with real paths: the user must see what would be mounted.

        A request that cannot be read has not passed the tool either, so nothing was asked."""
        needs = args.get("needs") if isinstance(args, Mapping) else getattr(args, "needs", None)
        if not needs:
            return NO_REQUEST
        try:
            asked = parse_request(flatten_request(needs))
        except (ValueError, TypeError, AttributeError):
            return NO_REQUEST
        grants = replace(
            asked.grants,
            writable=self._find_real(asked.grants.writable),
            readable=self._find_real(asked.grants.readable),
        )
        return replace(asked, grants=grants)

    def _find_real(self, paths: Iterable[Path]) -> tuple[Path, ...]:
        """Return real paths, without those in the commands' own temporary directory."""
        reached = (self.reach(path, finds=True) for path in paths)
        return tuple(found.real for found in reached if not found.is_temporary)

    def _reach_all(self, paths: Iterable[str], *, finds: bool = False) -> tuple[ReachedPath, ...]:
        located = (self._root / expand_own_home(text) for text in paths)
        return tuple(self.reach(path, finds=finds) for path in located)

    def reach(self, path: Path, *, finds: bool = False) -> ReachedPath:
        """Return what a path means. With `finds` it is about something that exists already: a
        file in /tmp that no command has put there is then the user's."""
        written = Path(os.path.normpath(path))
        try:
            real = self._real_path(path)
            added = self._added()
            roots = (self._root, *added.writable, *added.readable)
            # A link that leads out of the workspace is not theirs, wherever the workspace lies.
            is_work = any(one.is_relative_to(root) for one in (real, written) for root in roots)
            is_temporary = not is_work and self._names_temporary(written, real if finds else None)
            return ReachedPath(written, real, is_temporary)
        except (OSError, ValueError, RuntimeError):
            # A loop of links or a NUL: it leads nowhere, so it is in no workspace either.
            return ReachedPath(written, real=Path(os.sep))

    def _names_temporary(self, written: Path, found: Path | None) -> bool:
        temporary = self._find_temporary()
        if temporary is None:
            return False
        own = [one for one in temporary.names if written.is_relative_to(one)]
        if not own or found is None or not os.path.lexists(found):
            return bool(own)
        return any(_has_contents(temporary.at / written.relative_to(one)) for one in own)


def _has_contents(path: Path) -> bool:
    """Return whether there is a file, or a directory with anything in it.

    A directory of the user that a command was granted stays as an empty one of its name."""
    return any(path.iterdir()) if is_directory(path) else os.path.lexists(path)


def find_server_name(source: str) -> str:
    """Return the MCP server of a tool with this source; empty if it has none."""
    return source.removeprefix(_MCP_SOURCE) if source.startswith(_MCP_SOURCE) else ""


def _read_field(args: Any, name: str) -> str:
    value = args.get(name, "") if isinstance(args, Mapping) else getattr(args, name, "")
    return value if isinstance(value, str) else ""


def _read_host(args: Any) -> str:
    """Return the host of an address. One that cannot be read has not passed the tool either."""
    try:
        return WebAddress.parse(_read_field(args, "url")).location
    except ValueError:
        return ""


def _list_paths(tool: str, args: Any) -> Sequence[str]:
    if tool not in EDITING | READING:
        return []
    if tool == "apply_patch" or hasattr(args, "paths"):
        return find_patched_paths(args)
    path = _read_field(args, "path") or OWN_TOOLS[tool].default_path
    glob = _read_field(args, "glob")
    return [path, *([f"{path}/{glob}"] if glob and tool == "grep" else [])] if path else []


def _list_changed_paths(tool: str, args: Any) -> Sequence[str]:
    """Return the paths that a call changes in part, so that it must know what they have."""
    if tool == "apply_patch":
        changed = getattr(args, "changed_paths", None)
        return _UPDATED_FILE.findall(_read_patch(args)) if changed is None else changed
    return _list_paths(tool, args) if tool == "edit_file" else []


def find_patched_paths(args: Any) -> Sequence[str]:
    """Return the paths that the tool found in the patch, or else those that the patch names."""
    paths = getattr(args, "paths", None)
    if isinstance(paths, tuple | list):
        return [str(path) for path in paths]
    return [path.strip() for path in _PATCHED_FILE.findall(_read_patch(args))]


def _read_patch(args: Any) -> str:
    if isinstance(args, str):
        return args
    return _read_field(args, "patch") or _read_field(args, "input")


def find_server_tool(tool: str, args: Any, *, server: str) -> str:
    """Return the server's own name of the tool, if known: models may use a shorter name."""
    named = None if isinstance(args, Mapping) else getattr(args, "server_tool", None)
    return named if isinstance(named, str) else _without_server(tool, server)


def _without_server(tool: str, server: str) -> str:
    """Return `create` for `mcp__github__create`, `github_create` or `create`."""
    return re.sub(rf"^(?:mcp_+)?{re.escape(server)}[_.:/-]+", "", tool)
