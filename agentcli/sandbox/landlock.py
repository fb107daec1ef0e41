"""Layer 2: Landlock, a system call filter and dropped capabilities, without user namespaces.

It needs nothing installed, costs next to nothing, and protects less. Git's hooks and settings are
within a command's reach, and are put back after it. Processes are visible. Unless root made the
mounts read-only, times and modes of the user's files elsewhere can be changed.

Every command is started by its own thread, which is prepared before and ended at once. While it
lives, the kernel counts it as one of the command's own, so it must give access to nothing: this
process cannot be inspected, and the thread cannot be signalled. Another thread around it, out of
the command's reach, stays to end what the command leaves behind.
"""

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from threading import Lock

from agentcli.sandbox import kernel, landlock_rules, seccomp
from agentcli.sandbox.enclosure import Enclosure, Outsider
from agentcli.sandbox.launcher import LauncherAhead
from agentcli.sandbox.limits import CommandLimits
from agentcli.sandbox.new_repositories import NewRepositoryScan
from agentcli.sandbox.paths import SandboxPaths, list_granted, resolver_files
from agentcli.sandbox.protect import GuardedPath, find_pins, find_protection, guard_new_repository
from agentcli.sandbox.restore import GuardedPaths, find_original
from agentcli.sandbox.supervisor import CommandSupervisor
from agentcli.system.kinds import exists
from agentcli.types.verdicts import Grants

OLDEST_VERSION = landlock_rules.TCP_VERSION

_DEVICES = tuple(map(Path, ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")))
_PROCESSES = Path("/proc")
_INTERNET = (seccomp.AF_INET, seccomp.AF_INET6, seccomp.AF_NETLINK)
_KEPT_DOMAINS = 16


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

    def enter(self) -> None:
        """Restrict the calling thread. Each step needs the rights that the next one gives up."""
        if self.view is not None:
            kernel.enter_view(self.view)
        if self.network is not None:
            kernel.enter_network(self.network)
        kernel.forbid_new_privileges()
        kernel.drop_capabilities(but_override=self.overrides)
        landlock_rules.restrict_thread(self.ruleset)
        seccomp.restrict_thread(self.filter)

    def close(self) -> None:
        for handle in (self.ruleset, self.view):
            if handle is not None:
                os.close(handle)


@dataclass(frozen=True, slots=True)
class _RunningCommand:
    """A command that was started and not yet finished."""

    grants: Grants
    enclosure: Enclosure


class LandlockSandbox:
    def __init__(self, places: SandboxPaths, *, limits: CommandLimits) -> None:
        kernel.forbid_inspection()
        self._places = places
        # Commands work in a part of the private directory, and Landlock cannot exclude a part.
        protected = [path for path in places.protected if path != places.private]
        self._protection = find_protection(places.workspace, protected)
        self._roots = (places.workspace, *self._protection.writable)
        keeper = GuardedPaths(self._list_guarded(), roots=self._roots, rejected=places.rejected)
        original = find_original(places.workspace)
        newcomers = NewRepositoryScan(places.workspace, original=original, rejected=places.rejected)
        self._attendance = CommandSupervisor(
            original, keeper=keeper, newcomers=newcomers, limits=limits
        )
        self._network = kernel.make_private_network()
        self._domains: OrderedDict[Grants, _LandlockDomain] = OrderedDict()
        name = "landlock launcher"
        self._enclosures = LauncherAhead(partial(Enclosure, name=name), name=name)
        self._outsider: Outsider | None = None
        self._lock = Lock()
        self._commands: dict[Popen[bytes], _RunningCommand] = {}

    @property
    def name(self) -> str:
        return "landlock"

    @property
    def has_network(self) -> bool:
        """True if a command can run servers, though nobody else can reach them."""
        return self._network is not None

    @property
    def has_view(self) -> bool:
        """True if modes and times of files elsewhere are protected."""
        with self._lock:
            return self._domain(Grants()).view is not None

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
        before = None if waits else self._attendance.prepare()
        try:
            process, enclosure = self._launch(argv, cwd, env, grants, stdio=(stdin, stdout, stderr))
        except BaseException:
            if before:
                self._attendance.give_up()
            raise
        self._commands[process] = _RunningCommand(grants, enclosure)
        if before:
            self._attendance.begin(process, before)
        return process

    def _launch(
        self,
        argv: Sequence[str],
        cwd: Path,
        env: dict[str, str],
        grants: Grants,
        *,
        stdio: tuple[int, int, int],
    ) -> "tuple[Popen[bytes], Enclosure]":
        temporary = {"TMPDIR": str(self._places.temporary)}
        environment = {**env, **self._places.variables, **temporary}
        stdin, stdout, stderr = stdio
        with self._lock:
            self._outsider = self._outsider or Outsider()
            enclosure = self._enclosures.take(self._domain(grants).enter)
            try:
                process = enclosure.launcher.start(
                    argv, cwd=cwd, env=environment, stdout=stdout, stdin=stdin, stderr=stderr
                )
            except BaseException:
                enclosure.close()
                raise
            enclosure.launcher.close()
        return process, enclosure

    def attend(self, process: "Popen[bytes]") -> bool:
        self._attendance.begin(process, self._attendance.prepare())
        return True

    def finish(self, process: "Popen[bytes]") -> tuple[str, ...]:
        command = self._commands.pop(process, None)
        if command is None:
            return ()
        self._clear(command)  # before the undo: it could repeat its changes
        told = self._attendance.end(process)
        with self._lock:
            self._enclosures.prepare(self._domain(command.grants).enter)
        return told

    def close(self) -> None:
        while self._commands:
            self._clear(self._commands.popitem()[1])
        self._attendance.close()
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

    def _clear(self, command: _RunningCommand) -> None:
        if self._outsider is not None:
            command.enclosure.clear(self._outsider)
        command.enclosure.close()

    def _list_guarded(self) -> tuple[GuardedPath, ...]:
        guarded = self._protection.guarded
        on_the_way = find_pins(self._roots, (one.path for one in guarded))
        has_repository = self._places.workspace / ".git" in on_the_way
        new = () if has_repository else guard_new_repository(self._places.workspace)
        return (*guarded, *(GuardedPath(path, "entry") for path in on_the_way), *new)

    def _domain(self, grants: Grants) -> _LandlockDomain:
        if grants not in self._domains:
            has_network = grants.network or self._network is not None
            # A socket in the file system can be reached wherever it is, so none are allowed.
            families = _INTERNET if has_network else ()
            self._domains[grants] = _LandlockDomain(
                ruleset=landlock_rules.make_ruleset(self._rules(grants), tcp=has_network),
                view=kernel.make_read_only_view(self._changeable(grants)),
                network=None if grants.network else self._network,
                filter=seccomp.SyscallFilter(families=families, sees_others=True),
                overrides=self._places.needs_override,
            )
        self._domains.move_to_end(grants)
        if len(self._domains) > _KEPT_DOMAINS:
            self._domains.popitem(last=False)[1].close()
        return self._domains[grants]

    def _changeable(self, grants: Grants) -> tuple[Path, ...]:
        others = list_granted(grants, self._places)
        paths = (*others, *self._roots, self._places.shared)
        return tuple(sorted(filter(exists, paths), key=lambda path: len(path.parts)))

    def _rules(self, grants: Grants) -> list[landlock_rules.Rule]:
        places, protection = self._places, self._protection
        run = (*_without(places.system, places.hidden), *places.toolchains, *places.readable)
        names = resolver_files() if grants.network else ()
        read = (_PROCESSES, *names, *protection.readable)
        change = self._changeable(grants)
        return [
            *((path, landlock_rules.RUN) for path in run),
            *((path, landlock_rules.READ) for path in read),
            *((path, landlock_rules.DEVICE) for path in _DEVICES),
            *((path, landlock_rules.CHANGE) for path in change),
        ]


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
