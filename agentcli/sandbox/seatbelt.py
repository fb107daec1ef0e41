"""macOS: a Seatbelt profile for each set of grants, applied by sandbox-exec.

The profile's text is fixed. Every path is a parameter, so that no file name can become part of the
rules. There is no process namespace here: whoever started a command must also end what it left
running.
"""

import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen

from agentcli.sandbox.paths import SandboxPaths, list_granted, list_readable
from agentcli.sandbox.protect import GrantedProtection, find_pins, find_protection
from agentcli.sandbox.restore import GuardedPaths, Snapshot
from agentcli.system.process import start
from agentcli.types.grants import Grants
from agentcli.types.sandbox import TemporaryFiles

PROGRAM = Path("/usr/bin/sandbox-exec")

_SYSTEM = tuple(
    map(
        Path,
        (
            *("/usr", "/bin", "/sbin", "/System", "/Library", "/opt/homebrew", "/private/etc"),
            *("/private/var/db", "/private/var/select", "/Applications/Xcode.app"),
        ),
    )
)
_ETC = Path("/private/etc")

_BASE = """\
(version 1)
(deny default)
(allow process-exec process-fork process-info*)
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo")
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.trustd.agent"))
(allow ipc-posix-sem ipc-posix-shm)
(allow pseudo-tty)
(allow file-read-metadata)
(allow file-read* (literal "/") (literal "/dev") (subpath "/dev/fd"))
(allow file-read* file-write*
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom")
  (literal "/dev/dtracehelper") (literal "/dev/ptmx") (literal "/dev/tty")
  (regex #"^/dev/ttys[0-9]+$"))
(allow file-ioctl (literal "/dev/ptmx") (literal "/dev/tty") (regex #"^/dev/ttys[0-9]+$"))
"""
_NETWORK = """\
(allow network*)
(allow mach-lookup (global-name "com.apple.SystemConfiguration.configd"))
(allow system-socket)
"""
_NO_NETWORK = "(deny network*)\n"
_PROXY_ONLY = '(allow network-outbound (remote ip "localhost:{}"))\n'


def build_profile(
    *,
    read: Iterable[Path],
    change: Iterable[Path],
    hide: Iterable[Path],
    guard: Iterable[Path],
    pinned: Iterable[Path],
    network: bool,
    proxy_port: int = 0,
) -> tuple[str, dict[str, str]]:
    """Return the rules and their parameters. Of the rules that match, the last one decides.

    Without the network, only `proxy_port` of the loopback can be connected to; 0 is none.
    """
    rules = (
        ("READ", "(allow file-read* (subpath (param {})))", read),
        ("CHANGE", "(allow file-read* file-write* (subpath (param {})))", change),
        ("HIDE", "(deny file-read* file-write* (subpath (param {})))", hide),
        ("GUARD", "(deny file-write* (subpath (param {})))", guard),
        # A directory that may not be unlinked may not be renamed either.
        ("PIN", "(deny file-write-unlink (literal (param {})))", pinned),
    )
    lines = [_BASE, _NETWORK if network else _NO_NETWORK]
    if proxy_port and not network:
        lines.append(_PROXY_ONLY.format(proxy_port))
    parameters = {}
    for kind, rule, paths in rules:
        for index, path in enumerate(paths):
            name = f"{kind}_{index}"
            parameters[name] = str(path)
            lines.append(rule.format(f'"{name}"') + "\n")
    return "".join(lines), parameters


def build_reading_prefix(paths: Iterable[Path]) -> list[str]:
    """Return the prefix for a program that reads those paths and changes nothing."""
    read = (*(path for path in _SYSTEM if path != _ETC), *paths)
    return _build_argv(
        *build_profile(read=read, change=(), hide=(), guard=(), pinned=(), network=False)
    )


def _build_argv(text: str, parameters: dict[str, str]) -> list[str]:
    defined = (word for name, value in parameters.items() for word in ("-D", f"{name}={value}"))
    return [str(PROGRAM), "-p", text, *defined]


class SeatbeltSandbox:
    name = "seatbelt"
    has_process_namespace = False
    reaches_sockets = False

    def __init__(self, paths: SandboxPaths) -> None:
        self._paths = paths
        self._protection = find_protection(
            paths.workspace, paths.protected, denied=paths.unwritable
        )
        self._roots = (paths.workspace, *self._protection.writable)
        # A rule on the target of a link does not cover the link.
        links = (one for one in self._protection.guarded if one.kind == "entry")
        watched = (*links, *self._protection.new_repository)
        self._keeper = GuardedPaths(watched, roots=self._roots, rejected=paths.rejected)
        self._snapshots: dict[Popen[bytes], Snapshot] = {}
        self._granted = GrantedProtection(paths.find_denied)
        self._proxy_port = 0

    @property
    def temporary(self) -> TemporaryFiles:
        paths = self._paths
        return TemporaryFiles(root=paths.shared, at=paths.temporary, names=(paths.temporary,))

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
        snapshot = self._keeper.take_snapshot()
        process = start(
            [*self.build_prefix(grants), *argv],
            cwd=cwd,
            env=self._paths.complete_environment(env, self._paths.temporary),
            stdout=stdout,
            stdin=stdin,
            stderr=stderr,
        )
        self._snapshots[process] = snapshot
        return process

    def supervise(self, process: "Popen[bytes]") -> bool:
        self._snapshots[process] = self._keeper.take_snapshot()
        return True

    def finish(self, process: "Popen[bytes]") -> tuple[str, ...]:
        snapshot = self._snapshots.pop(process, None)
        return () if snapshot is None else self._keeper.undo(snapshot)

    def listen(self) -> socket.socket:
        """There is no private network, so other programs can connect. They have no token."""
        listener = socket.create_server(("127.0.0.1", 0))
        self._proxy_port = listener.getsockname()[1]
        return listener

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def build_prefix(self, grants: Grants) -> list[str]:
        """Return the arguments that come before a command's own."""
        paths, guarded = self._paths, [one.path for one in self._protection.guarded]
        guarded += [paths.own_environment] if paths.own_environment else []
        others, opened = list_granted(grants, paths), list_readable(grants, paths)
        # A rule holds what does not exist yet, too.
        granted = [self._granted.find(path) for path in others]
        guarded += [one.path for each in granted for one in each.guarded]
        guarded += [one.path for each in granted for one in each.new_repository]
        tops = (*self._roots, *others, *(path for each in granted for path in each.writable))
        text, parameters = build_profile(
            read=(
                *(*_SYSTEM, *paths.toolchains, *paths.readable, *opened),
                *(path for each in (self._protection, *granted) for path in each.readable),
            ),
            change=(*tops, *paths.own),
            hide=(*paths.hidden, *self._granted.find_hidden(writable=others, readable=opened)),
            guard=[path for path in guarded if path != paths.private],
            pinned=find_pins(tops, guarded),
            network=grants.network,
            proxy_port=self._proxy_port,
        )
        return _build_argv(text, parameters)
