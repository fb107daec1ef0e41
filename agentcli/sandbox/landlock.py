"""Layer 2: Landlock, a system call filter and dropped capabilities, without user namespaces.

It needs nothing installed, costs next to nothing, and protects less. Git's hooks and settings are
within a command's reach, and are put back after it. Processes are visible. Unless root made the
mounts read-only, times of the user's files elsewhere can be changed.

Every command is started by its own thread, which is prepared before and ended at once. While it
lives, the kernel counts it as one of the command's own, so it must give access to nothing: this
process cannot be inspected, and the thread cannot be signalled. Another thread around it, out of
the command's reach, stays to end what the command leaves behind.
"""

import os
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from threading import Lock

from agentcli.sandbox import kernel, landlock_rules, seccomp, watched_calls
from agentcli.sandbox.enclosure import Enclosure, EnclosureAhead, Outsider
from agentcli.sandbox.limits import CommandLimits
from agentcli.sandbox.paths import (
    PROXY_PORT,
    SandboxPaths,
    list_granted,
    list_readable,
    list_resolver_files,
    without_hosts,
)
from agentcli.sandbox.protect import GrantedProtection, GuardedPath, find_pins, find_protection
from agentcli.sandbox.restore import GuardedPaths
from agentcli.sandbox.supervisor import CommandSupervisor
from agentcli.sandbox.watched_calls import SocketCalls, SocketReach
from agentcli.system import process
from agentcli.system.files import exists, is_directory, is_socket
from agentcli.system.temporary import create_short_directory
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.sandbox import TemporaryFiles

OLDEST_VERSION = landlock_rules.TCP_VERSION

_OWN_PACKAGE = Path(os.path.realpath(__file__)).parents[1]
_DEVICES = tuple(
    Path("/dev", name) for name in ("null", "zero", "full", "random", "urandom", "tty")
)
"""No harm comes from tty: a command has no terminal, or one of its own."""
_PROCESSES = Path("/proc")
_SHARED_MEMORY = Path("/dev/shm")
_STREAMS = (seccomp.AF_INET, seccomp.AF_INET6)
_INTERNET = (*_STREAMS, seccomp.AF_NETLINK)
_KEPT_DOMAINS = 16

_Launch = Callable[[], "Popen[bytes]"]


@dataclass(frozen=True, slots=True)
class _LandlockDomain:
    """The rights that a thread gives up for one set of grants."""

    ruleset: int
    view: int | None
    """Read-only mounts to enter. They protect modes and times, for which Landlock has no right."""
    network: int | None
    """A network to enter. None to stay, but without sockets if the filter allows none."""
    filter: seccomp.SyscallFilter
    overrides: bool
    calls: SocketCalls | None
    """Who makes the calls that the filter hands over; None if it hands over none."""
    reach: SocketReach

    def enter(self) -> None:
        """Restrict the calling thread. Each step needs the rights that the next one gives up."""
        if self.view is not None:
            kernel.enter_view(self.view)
        if self.network is not None:
            kernel.enter_network(self.network)
        kernel.forbid_new_privileges()
        kernel.drop_capabilities(but_override=self.overrides)
        landlock_rules.restrict_thread(self.ruleset)
        listener = seccomp.restrict_thread(self.filter)
        if listener is not None and self.calls is not None:
            self.calls.add(listener, self.reach)

    def close(self) -> None:
        for handle in (self.ruleset, self.view):
            if handle is not None:
                os.close(handle)


class LandlockSandbox:
    name = "landlock"
    has_process_namespace = False

    def __init__(self, paths: SandboxPaths, *, limits: CommandLimits) -> None:
        kernel.forbid_inspection()
        self._paths = paths
        # Commands work in a part of the private directory, and Landlock cannot exclude a part.
        protected = [path for path in paths.protected if path != paths.private]
        if paths.own_environment:
            protected.append(_OWN_PACKAGE)  # the rest of the environment is too large to record
        self._protection = find_protection(paths.workspace, protected, denied=paths.unwritable)
        self._roots = (paths.workspace, *self._protection.writable)
        keeper = GuardedPaths(self._list_guarded(), roots=self._roots, rejected=paths.rejected)
        self._granted = GrantedProtection(paths.find_denied)
        self._supervisor = CommandSupervisor(
            paths, keeper=keeper, granted=self._granted, limits=limits
        )
        self._network = kernel.make_private_network()
        self._calls = SocketCalls() if watched_calls.is_supported() else None
        self._short = create_short_directory(workspace=paths.workspace)
        self._temporary = self._short.path if self._short else paths.temporary
        self._is_memory_unused = _is_unused(_SHARED_MEMORY)
        self._domains: OrderedDict[Grants, _LandlockDomain] = OrderedDict()
        self._enclosures = EnclosureAhead()
        self._outsider: Outsider | None = None
        self._lock = Lock()
        self._commands: dict[Popen[bytes], tuple[Grants, Enclosure]] = {}

    @property
    def temporary(self) -> TemporaryFiles:
        at = self._temporary
        root = self._paths.shared if at == self._paths.temporary else at
        return TemporaryFiles(root=root, at=at, names=(at,))

    @property
    def can_run_servers(self) -> bool:
        """True if a command can listen on its loopback network."""
        return self.has_private_network or self._calls is not None

    @property
    def has_private_network(self) -> bool:
        """True if nobody else can reach the servers of commands."""
        return self._network is not None

    @property
    def has_view(self) -> bool:
        """True if times and attributes of files elsewhere are protected."""
        with self._lock:
            return self._ensure_domain(Grants()).view is not None

    @property
    def protects_modes(self) -> bool:
        """True if modes and owners of files elsewhere are protected."""
        return self.has_view or self._makes_mode_calls

    @property
    def _makes_mode_calls(self) -> bool:
        # As root we may do more than the command, so we do not do it in its place.
        return self._calls is not None and os.geteuid() != 0

    @property
    def can_read_denied(self) -> bool:
        """True if commands can read what rules deny: Landlock cannot exclude part of a grant."""
        return bool(self._paths.unreadable) and not self.has_view

    @property
    def shows_keys(self) -> bool:
        """True if the workspace holds keys of the user, which only a view can hide."""
        return not self._paths.unreadable.issuperset(self._find_hidden()) and not self.has_view

    @property
    def has_shared_memory(self) -> bool:
        is_open = self.has_view or self._is_memory_unused
        return is_open and self._shows_shared_memory(Grants())

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stdout: int,
        grants: Grants,
        stdin: int = DEVNULL,
        stderr: int = STDOUT,
        waits: bool = False,
    ) -> "Popen[bytes]":
        start = partial(
            process.start,
            argv,
            cwd=cwd,
            env=self._paths.complete_environment(env, self._temporary),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
        return self._supervisor.start(
            partial(self._launch, start, without_hosts(grants)), grants=grants, waits=waits
        )

    def _launch(self, start: _Launch, grants: Grants) -> "Popen[bytes]":
        with self._lock:
            self._outsider = self._outsider or Outsider()
            enclosure = self._enclosures.take(self._ensure_domain(grants).enter)
            try:
                started = enclosure.launcher.start(start)
            except BaseException:
                enclosure.close()
                raise
            enclosure.launcher.close()
        self._commands[started] = grants, enclosure
        return started

    def supervise(self, process: "Popen[bytes]") -> bool:
        self._supervisor.supervise(process, grants=self._commands[process][0])
        return True

    def finish(self, process: "Popen[bytes]") -> tuple[str, ...]:
        if process not in self._commands:
            return ()
        grants, enclosure = self._commands.pop(process)
        self._clear(enclosure)  # before the undo: it could repeat its changes
        notes = self._supervisor.end(process)
        with self._lock:
            self._enclosures.prepare(self._ensure_domain(grants).enter)
        return notes

    @property
    def reaches_sockets(self) -> bool:
        return self._calls is not None

    def listen(self) -> socket.socket | None:
        if self._network is not None:
            return kernel.listen_in_network(self._network, PROXY_PORT)
        return self._calls.listen() if self._calls else None

    def close(self) -> None:
        while self._commands:
            self._clear(self._commands.popitem()[1][1])
        self._supervisor.close()
        with self._lock:
            self._enclosures.close()
            if self._outsider is not None:
                self._outsider.close()
                self._outsider = None
            while self._domains:
                self._domains.popitem()[1].close()
            if self._network is not None:
                os.close(self._network)
                self._network = None
            if self._calls is not None:
                self._calls.close()
                self._calls = None
        if self._short is not None:
            self._short.close()
            self._short = None

    def _clear(self, enclosure: "Enclosure") -> None:
        """End what a command has left running. The outsider proves that nothing else is hit."""
        if self._outsider is not None:
            enclosure.clear(self._outsider)
        enclosure.close()

    def _list_guarded(self) -> tuple[GuardedPath, ...]:
        guarded = self._protection.guarded
        on_the_way = find_pins(self._roots, (one.path for one in guarded))
        entries = (GuardedPath(path, "entry") for path in on_the_way)
        return (*guarded, *entries, *self._protection.new_repository)

    def _ensure_domain(self, grants: Grants) -> _LandlockDomain:
        if grants not in self._domains:
            connects_anywhere = grants.network or self._network is not None
            calls = self._calls
            families = (
                *(_INTERNET if connects_anywhere else _STREAMS if calls else ()),
                *((seccomp.AF_UNIX,) if calls else ()),
            )
            handed_over = watched_calls.CONNECT if connects_anywhere else watched_calls.ALL
            rules, view = self._build_rules(grants), self._make_view(grants)
            if view is None and self._makes_mode_calls:
                handed_over += watched_calls.CALLS
            if view is None and self._is_memory_unused and self._shows_shared_memory(grants):
                rules.append((_SHARED_MEMORY, landlock_rules.SEGMENTS))
            self._domains[grants] = _LandlockDomain(
                ruleset=landlock_rules.make_ruleset(rules, tcp=connects_anywhere),
                view=view,
                network=None if grants.network else self._network,
                filter=seccomp.SyscallFilter(
                    families=families, sees_others=True, handed_over=handed_over if calls else ()
                ),
                overrides=self._paths.needs_override,
                calls=calls,
                reach=SocketReach(
                    connects_anywhere=connects_anywhere,
                    paths=(
                        *self._list_own(),
                        *filter(is_socket, list_readable(grants, self._paths)),
                    ),
                    changeable=(*self._list_changeable(grants), self._paths.shared_memory),
                ),
            )
        self._domains.move_to_end(grants)
        if len(self._domains) > _KEPT_DOMAINS:
            self._domains.popitem(last=False)[1].close()
        return self._domains[grants]

    def _list_changeable(self, grants: Grants) -> tuple[Path, ...]:
        others = list_granted(grants, self._paths)
        repositories = self._granted.find_mountable(others).writable
        paths = (*others, *repositories, *self._roots, *self._list_own())
        return tuple(sorted(filter(exists, paths), key=lambda path: len(path.parts)))

    def _make_view(self, grants: Grants) -> int | None:
        paths = self._paths
        shown = {_SHARED_MEMORY: paths.shared_memory} if self._shows_shared_memory(grants) else {}
        opened = (*list_granted(grants, paths), *list_readable(grants, paths))
        unreadable = {*self._find_hidden(), *self._granted.find_unreadable(opened)}
        denied = {path: paths.find_denied_cover(path) for path in sorted(unreadable)}
        return kernel.make_read_only_view(self._list_changeable(grants), replaced=shown | denied)

    def _find_hidden(self) -> set[Path]:
        """Return what is hidden, or denied by rules, where commands may read."""
        inside = (path for path in self._paths.hidden if self._paths.workspace in path.parents)
        return {*self._paths.unreadable, *inside}

    def _list_own(self) -> tuple[Path, ...]:
        return (*self._paths.own, self._temporary)

    def _shows_shared_memory(self, grants: Grants) -> bool:
        """Return whether /dev/shm exists, and holds nothing that a command needs."""
        needed = (*self._list_changeable(grants), *self._paths.readable, *self._paths.toolchains)
        return is_directory(_SHARED_MEMORY) and not any(
            path.is_relative_to(_SHARED_MEMORY) for path in needed
        )

    def _build_rules(self, grants: Grants) -> list[landlock_rules.Rule]:
        paths, protection = self._paths, self._protection
        granted = self._granted.find_mountable(list_granted(grants, paths))
        readable = (*paths.readable, *list_readable(grants, paths))
        run = (*_without(paths.system, paths.hidden), *paths.toolchains, *readable)
        git = (*protection.readable, *granted.readable)
        read = (_PROCESSES, *list_resolver_files(grants), *git)
        change = self._list_changeable(grants)
        return [
            *((path, landlock_rules.RUN) for path in run),
            *((path, landlock_rules.READ) for path in read),
            *((path, landlock_rules.DEVICE) for path in _DEVICES),
            *((path, landlock_rules.CHANGE) for path in change),
            # Where it is mounted, the directories above it do not count.
            (paths.shared_memory, landlock_rules.CHANGE),
        ]


def _is_unused(directory: Path) -> bool:
    """Return whether a directory holds nothing that our user could open."""
    try:
        with os.scandir(directory) as entries:
            return not any(
                os.access(one.path, os.R_OK) or os.access(one.path, os.W_OK) for one in entries
            )
    except OSError:
        return False


def _without(paths: Iterable[Path], hidden: Iterable[Path]) -> Iterator[Path]:
    """Yield paths with nothing hidden below them: Landlock cannot exclude part of a grant."""
    left_out = set(hidden)
    to_expand = {parent for one in left_out for parent in one.parents}
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        if path in to_expand:
            # A link needs no rule of its own, and must not lead a rule to anywhere else.
            waiting += [Path(entry.path) for entry in os.scandir(path) if not entry.is_symlink()]
        elif path not in left_out:
            yield path
