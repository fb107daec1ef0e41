"""The choice of the layer that confines commands: the strongest that proves itself by running.

A layer counts only after a program really ran in it, could write where it may, and could not
where it may not. If no layer passes, nothing is started: there is no fallback to none.
"""

import errno
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from io import RawIOBase
from pathlib import Path
from select import POLLIN, poll
from tempfile import TemporaryDirectory, gettempdir
from threading import Thread
from typing import TYPE_CHECKING

from agentcli.sandbox import landlock_rules, seccomp
from agentcli.sandbox.bubblewrap import BubblewrapSandbox
from agentcli.sandbox.limits import kill_tree, lower_own_limits
from agentcli.sandbox.namespaces import make_private_network
from agentcli.sandbox.paths import SandboxPaths, survey_paths
from agentcli.sandbox.paths import SandboxScope as SandboxScope
from agentcli.system import own_process
from agentcli.system.environment import MARK
from agentcli.system.orphan_reaper import OrphanReaper
from agentcli.system.process_tree import new_tag
from agentcli.types.errors import SettingsError, explain_shortage
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.verdicts import Sandbox

if TYPE_CHECKING:
    from agentcli.sandbox.landlock import LandlockSandbox

_PROBE = ("/bin/sh", "-c", '{ echo > "$1"; } 2>/dev/null && exit 3; echo > "$2"', "sh")
_PROBE_LIMIT_S = 10.0
_SAID_BYTES = 1000
_CAN_READ_DENIED = "Commands can read what rules deny to read: only bubblewrap can hide it."
_SHOWS_KEYS = "Landlock cannot hide your keys in a workspace that holds your home directory."
_IN_A_PROJECT = "Start agentcli in the directory of a project."
_WITHOUT = "--sandbox off, if commands may do everything that you can"


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerFinding:
    """The state of one layer on this machine."""

    layer: str
    works: bool
    reason: str = ""
    """The reason why it does not work."""
    fix: str = ""
    """One command that fixes it, if there is one."""
    gaps: tuple[str, ...] = ()
    """The gaps it leaves open, though it works."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Why a layer does not work here, and the one command that would fix it."""

    reason: str
    fix: str = ""


class _Unusable(Exception):
    def __init__(self, remedy: Remedy) -> None:
        super().__init__(remedy.reason)
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProvenLayer:
    sandbox: Sandbox
    gaps: tuple[str, ...] = ()
    can_read_denied: bool = False
    """True if commands in it can read what rules deny."""


_Survey = Callable[[], SandboxPaths]
_Build = Callable[[SandboxScope, _Survey, Mapping[str, str]], _ProvenLayer]


def choose_sandbox(
    scope: SandboxScope,
    *,
    environ: Mapping[str, str] = os.environ,
    only: str | None = None,
    beside: Callable[[], None] = lambda: None,
    broken: Callable[[LayerFinding], None] = lambda finding: None,
) -> Sandbox:
    """Return the strongest layer that works, or the requested one. Raise SettingsError if none.

    `beside` is called in a thread while a layer is made and proves itself. `broken` is called with
    each stronger layer that is installed and does not work, and with the returned one if commands
    in it can read what rules deny."""
    failures: list[LayerFinding] = []
    for proven, finding in _attempts(scope, environ, only, beside):
        if proven is not None:
            for failure in failures:
                if failure.reason != not_installed().reason:
                    broken(failure)
            if proven.can_read_denied:
                broken(replace(finding, reason=_CAN_READ_DENIED, fix=not_installed().fix))
            return proven.sandbox
        failures.append(finding)
    reasons = " ".join(failure.reason for failure in failures)
    raise SettingsError(
        f"No sandbox works here, so no command is run. {reasons}".rstrip(),
        hint=next((failure.fix for failure in failures if failure.fix), _WITHOUT),
    )


def describe_layers(
    scope: SandboxScope, *, environ: Mapping[str, str] = os.environ
) -> tuple[LayerFinding, ...]:
    """Return every layer that a machine of this kind could have, the strongest first."""
    findings = []
    for proven, finding in _attempts(scope, environ):
        findings.append(finding)
        if proven is not None:
            proven.sandbox.close()
    return tuple(findings)


def _attempts(
    scope: SandboxScope,
    environ: Mapping[str, str],
    only: str | None = None,
    beside: Callable[[], None] = lambda: None,
) -> Iterator[tuple[_ProvenLayer | None, LayerFinding]]:
    builders = _builders()
    if not builders:
        return
    if os.path.realpath(scope.workspace) == os.sep:
        raise SettingsError(
            "The workspace is the root directory: everything would be in it.",
            hint=_IN_A_PROJECT,
        )
    lower_own_limits()

    @cache
    def survey() -> SandboxPaths:
        paths = survey_paths(scope, environ)
        Thread(target=beside, daemon=True, name="beside the proof").start()
        return paths

    for layer, build in builders.items():
        if only in (None, layer):
            try:
                proven = build(scope, survey, environ)
            except _Unusable as error:
                remedy = error.remedy
                yield (
                    None,
                    LayerFinding(layer=layer, works=False, reason=remedy.reason, fix=remedy.fix),
                )
            else:
                yield proven, LayerFinding(layer=layer, works=True, gaps=proven.gaps)


def _builders() -> dict[str, _Build]:
    if sys.platform == "linux":
        return {"bubblewrap": _bubblewrap, "landlock": _landlock}
    if sys.platform == "darwin":
        return {"seatbelt": _seatbelt}
    return {}


def _bubblewrap(scope: SandboxScope, survey: _Survey, environ: Mapping[str, str]) -> _ProvenLayer:
    program = _find_bubblewrap(environ, Path(os.path.realpath(scope.workspace)))
    if program is None:
        raise _Unusable(not_installed())
    with ThreadPoolExecutor(thread_name_prefix="bubblewrap") as beside:
        asked = beside.submit(_version, program)
        made = beside.submit(make_private_network, program)
        paths = survey()
    version, network = asked.result(), made.result()
    if version is None or not seccomp.is_supported():
        if network is not None:
            network.close()
        raise _Unusable(Remedy(f"{program} cannot be used on this machine."))
    make = partial(BubblewrapSandbox, paths, program=program, version=version, limits=scope.limits)
    sandbox = make(network=network)
    try:
        with sandbox.keep_for_first_command():
            _prove(sandbox, paths, Remedy)
    except _Unusable:
        sandbox = make(network=make_private_network(program), keeps_mounts=False)
        _prove(sandbox, paths, lambda output: bubblewrap_failed(output, program))
    return _ProvenLayer(sandbox=sandbox)


def _landlock(scope: SandboxScope, survey: _Survey, environ: Mapping[str, str]) -> _ProvenLayer:
    from agentcli.sandbox.landlock import OLDEST_VERSION, LandlockSandbox

    version = landlock_rules.version()
    if version < OLDEST_VERSION or not seccomp.is_supported():
        raise _Unusable(landlock_missing(version, OLDEST_VERSION))
    paths = survey()
    sandbox = LandlockSandbox(paths, limits=scope.limits)
    if sandbox.shows_keys:
        sandbox.close()
        raise _Unusable(Remedy(_SHOWS_KEYS, _IN_A_PROJECT))
    _prove(sandbox, paths, lambda output: Remedy(f"Landlock failed ({output})."))
    return _ProvenLayer(
        sandbox=sandbox,
        gaps=_list_landlock_gaps(sandbox, paths),
        can_read_denied=sandbox.can_read_denied,
    )


def _seatbelt(scope: SandboxScope, survey: _Survey, environ: Mapping[str, str]) -> _ProvenLayer:
    from agentcli.sandbox.seatbelt import PROGRAM, SeatbeltSandbox

    if not PROGRAM.exists():
        raise _Unusable(Remedy(f"There is no {PROGRAM}."))
    paths = survey()
    sandbox = SeatbeltSandbox(paths)
    _prove(sandbox, paths, lambda output: Remedy(f"sandbox-exec failed ({output})."))
    gaps = ("Memory and the number of processes are not limited.",)
    return _ProvenLayer(sandbox=sandbox, gaps=gaps)


def _find_bubblewrap(environ: Mapping[str, str], workspace: Path) -> Path | None:
    """Return an absolute path outside of the project, whatever PATH says."""
    path = own_process.system_path(workspace, environ)
    found = own_process.find_program("bwrap", beside=workspace, path=path)
    return Path(found) if found else None


def _version(program: Path) -> tuple[int, ...] | None:
    try:
        ran = own_process.run([program, "--version"], beside=None, timeout_s=_PROBE_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        if shortage := explain_shortage(error):
            raise shortage from error
        return None
    numbers = re.search(rb"(\d+)\.(\d+)\.(\d+)", ran.stdout)
    return tuple(map(int, numbers.groups())) if numbers else None


def _prove(sandbox: Sandbox, paths: SandboxPaths, remedy: Callable[[str], Remedy]) -> None:
    """Run a program that tries to write outside and inside, and check the effect.

    Raise _Unusable, and close the sandbox, if it does not hold."""
    inside = paths.temporary / "probe"
    inside.unlink(missing_ok=True)
    with TemporaryDirectory(prefix="agentcli-", dir=_beside(paths.workspace)) as directory:
        outside = Path(directory, "probe")
        try:
            code, output = _run(sandbox, [*_PROBE, str(outside), str(inside)], cwd=paths.workspace)
        except OSError as error:
            sandbox.close()
            unwritable = workspace_unwritable(error, paths.workspace)
            shortage = explain_shortage(error)
            if shortage and unwritable is None:
                raise shortage from error  # no reason to do without a sandbox
            raise _Unusable(unwritable or remedy(str(error))) from error
        works = code == 0 and inside.exists() and not outside.exists()
    inside.unlink(missing_ok=True)
    if not works:
        sandbox.close()
        raise _Unusable(remedy(output))


def _beside(workspace: Path) -> str:
    """Return a directory outside the workspace that we could write to without a sandbox."""
    usual = (gettempdir(), "/var/tmp", "/dev/shm")
    return next((path for path in usual if not Path(path).is_relative_to(workspace)), usual[0])


def _run(sandbox: Sandbox, argv: Sequence[str], *, cwd: Path) -> tuple[int, str]:
    """Run a program to its end. Return its exit code and the beginning of its output.

    It has a tag, by which it is ended if we are killed meanwhile."""
    tag = new_tag(confined=True)
    reaper = OrphanReaper(tag)
    reader, writer = os.pipe()
    try:
        with os.fdopen(reader, "rb", buffering=0) as output:
            try:
                process = sandbox.start(
                    argv, cwd=cwd, env={MARK: tag}, stdout=writer, grants=Grants()
                )
            finally:
                os.close(writer)
            said = _read_to_end(output)
            if said is None:
                kill_tree(process.pid)
            code = process.wait()
            sandbox.finish(process)
            return code, (said or b"")[:_SAID_BYTES].decode("utf-8", "replace").strip()
    finally:
        reaper.dismiss()


def _read_to_end(output: RawIOBase) -> bytes | None:
    """Return what the probe and its processes print, or None if they do not end in time."""
    deadline = time.monotonic() + _PROBE_LIMIT_S
    said = b""
    ready = poll()
    ready.register(output, POLLIN)
    while ready.poll(1000 * max(0.0, deadline - time.monotonic())):
        chunk = output.read(_SAID_BYTES)
        if not chunk:
            return said
        said += chunk
    return None


# The reasons why a layer does not work here, and the gaps of one that does.


_SYSCTL = Path("/proc/sys")
_CONTAINER_MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))

_INSTALLERS = {
    "apt-get": "sudo apt-get install -y bubblewrap",
    "dnf": "sudo dnf install -y bubblewrap",
    "pacman": "sudo pacman -S --noconfirm bubblewrap",
    "zypper": "sudo zypper install -y bubblewrap",
    "apk": "sudo apk add bubblewrap",
}

# Lets this one program create user namespaces, and no other.
_APPARMOR_FIX = (
    "printf 'abi <abi/4.0>,\\nprofile bwrap {program} flags=(unconfined) {{\\n  userns,\\n}}\\n'"
    " | sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap"
)


def not_installed() -> Remedy:
    found = next((fix for name, fix in _INSTALLERS.items() if shutil.which(name)), "")
    return Remedy("bubblewrap is not installed.", found)


def bubblewrap_failed(output: str, program: Path, *, settings: Path = _SYSCTL) -> Remedy:
    """Return the remedy, based on bubblewrap's output and the kernel's settings."""
    if _setting(settings / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return Remedy(
            "AppArmor does not let bubblewrap make user namespaces "
            "(kernel.apparmor_restrict_unprivileged_userns is 1, as on Ubuntu 24.04).",
            _APPARMOR_FIX.format(program=program),
        )
    if _setting(settings / "kernel/unprivileged_userns_clone") == "0":
        return Remedy(
            "The kernel lets only root make user namespaces.",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        )
    if _setting(settings / "user/max_user_namespaces") == "0":
        return Remedy(
            "The kernel is set to allow no user namespaces.",
            "sudo sysctl -w user.max_user_namespaces=15000",
        )
    last_line = output.strip().splitlines()[-1] if output.strip() else "it printed nothing"
    if any(mark.exists() for mark in _CONTAINER_MARKS):
        return Remedy(f"This container does not let bubblewrap work ({last_line}).")
    return Remedy(f"bubblewrap failed ({last_line}).")


def workspace_unwritable(error: OSError, workspace: Path) -> Remedy | None:
    """Return the remedy if a file for the sandbox cannot be created, or None for other errors."""
    if error.filename is None or not Path(error.filename).is_relative_to(workspace):
        return None
    quoted = shlex.quote(str(workspace))
    fixes = {
        errno.ENOSPC: f"df -h {quoted} && df -i {quoted}  # and make room there",
        errno.EDQUOT: "quota -s  # and make room",
        errno.EROFS: f'sudo mount -o remount,rw "$(findmnt -no TARGET -T {quoted})"',
        errno.EACCES: f'sudo chown -R "$USER" {quoted}',
        errno.EPERM: f"sudo chattr -R -i {quoted}",
    }
    reason = f"The workspace cannot be written: {error.strerror} ({error.filename})."
    return Remedy(reason, fixes.get(error.errno or 0, ""))


def landlock_missing(version: int, needed: int) -> Remedy:
    if version == 0:
        return Remedy("This kernel has no Landlock, or it is not switched on (lsm=landlock,...).")
    return Remedy(f"This kernel's Landlock is version {version}; {needed} is needed (Linux 6.7).")


_NO_SOCKETS = "Commands have no Unix sockets: this machine does not let us connect for them."
_NO_SHARED_MEMORY = "Commands cannot use /dev/shm: other programs have shared memory there."
_SHARED_LOOPBACK = "Servers of commands listen on your loopback: all programs here can reach them."
_OPEN_MODES = "Commands can change modes and owners of your files anywhere."
_OPEN_RECORDS = (
    "The workspace holds your home directory: commands can change the records of sessions "
    "(agentcli audit shows it)."
)
_OPEN_PACKAGES = (
    "agentcli is installed in the workspace: commands can change the packages that it uses."
)


def _list_landlock_gaps(sandbox: "LandlockSandbox", paths: SandboxPaths) -> tuple[str, ...]:
    """Return the gaps that Landlock leaves open, worded for the user."""
    is_unscoped = landlock_rules.version() < landlock_rules.SCOPE_VERSION
    is_shared = sandbox.can_run_servers and not sandbox.has_private_network
    has_own_environment = paths.own_environment is not None
    gaps = (
        ("Git's hooks and settings are put back after a command, not held during it.", True),
        ("After kill -9 of agentcli nothing is put back.", True),
        ("Commands see the list of processes, and have a TMPDIR of their own, but no /tmp.", True),
        (_NO_SOCKETS, not sandbox.reaches_sockets),
        (_NO_SHARED_MEMORY, not sandbox.has_shared_memory),
        (_OPEN_MODES, not sandbox.protects_modes),
        ("Commands can change times and attributes of your files anywhere.", not sandbox.has_view),
        ("Commands have no loopback network, so no servers.", not sandbox.can_run_servers),
        (_SHARED_LOOPBACK, is_shared),
        ("Commands can signal your other programs.", is_unscoped),
        ("A process that sheds its marks can outlive its command.", is_unscoped),
        (_OPEN_RECORDS, paths.is_home),
        (_OPEN_PACKAGES, has_own_environment),
    )
    return tuple(gap for gap, is_open in gaps if is_open)


def _setting(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
