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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING

from agentcli.sandbox import landlock_rules, seccomp
from agentcli.sandbox.limits import kill_tree, lower_own_limits
from agentcli.sandbox.paths import SandboxPaths, survey_paths
from agentcli.sandbox.paths import SandboxScope as SandboxScope
from agentcli.system import own_process
from agentcli.system.environment import add_tag, has_container_file
from agentcli.system.process import read_answer
from agentcli.system.process_table import kill_tagged_if_killed
from agentcli.system.process_tree import make_tag
from agentcli.types.errors import SettingsError, explain_shortage
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.sandbox import PROBE_PASSED, RunProbe, Sandbox

if TYPE_CHECKING:
    from agentcli.sandbox.landlock import LandlockSandbox

_PROBE = "! {{ echo > {outside}; }} 2>/dev/null && echo > {inside} && echo || exit 3"
_PROBE_LIMIT_S = 10.0
_CAN_READ_DENIED = "Commands can read what rules deny to read: only bubblewrap can hide it."
_SHOWS_KEYS = "Landlock cannot hide your keys in a workspace that holds your home directory."
_IN_A_PROJECT = "Start agentcli in the directory of a project."
_WITHOUT = "--sandbox off, if commands may do everything that you can"
_NOTHING = nullcontext()


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """What each layer is made from and proven with."""

    scope: SandboxScope
    environ: Mapping[str, str]
    survey: Callable[[], SandboxPaths]
    run_probe: RunProbe

    def prove(
        self,
        sandbox: Sandbox,
        remedy: Callable[[str], Remedy],
        *,
        ahead: AbstractContextManager[None] = _NOTHING,
    ) -> None:
        """Run a line that tries to write outside and inside, and check the effect.

        `ahead` begins what the sandbox can make meanwhile. Raise _Unusable, and close the sandbox,
        if it does not hold."""
        try:
            with ahead:
                output = self._run_probe(sandbox)
        except OSError as error:
            sandbox.close()
            unwritable = explain_unwritable_workspace(error, self.survey().workspace)
            shortage = explain_shortage(error)
            if shortage and unwritable is None:
                raise shortage from error  # no reason to do without a sandbox
            raise _Unusable(unwritable or remedy(str(error))) from error
        if output != PROBE_PASSED:
            sandbox.close()
            self._require_space()
            raise _Unusable(remedy(output.strip()))

    def _require_space(self) -> None:
        """Raise SettingsError if the probe could write nothing because its disk is full."""
        inside = self.survey().temporary / "probe"
        try:
            inside.write_bytes(b"\n")
            inside.unlink()
        except OSError as error:
            named = OSError(error.errno, error.strerror, str(inside))  # a write names no file
            if shortage := explain_shortage(named):
                raise shortage from error

    def _run_probe(self, sandbox: Sandbox) -> str:
        """Return what it printed, or nothing if the files say otherwise."""
        paths = self.survey()
        inside = paths.temporary / "probe"
        inside.unlink(missing_ok=True)
        with TemporaryDirectory(
            prefix="agentcli-", dir=_choose_probe_directory(paths.workspace)
        ) as directory:
            outside = Path(directory, "probe")
            line = _PROBE.format(outside=shlex.quote(str(outside)), inside=shlex.quote(str(inside)))
            output = self.run_probe(sandbox, line, paths.workspace)
            holds = inside.exists() and not outside.exists()
        inside.unlink(missing_ok=True)
        return output if holds or output != PROBE_PASSED else ""


_Build = Callable[[_Trial], _ProvenLayer]


def run_probe_alone(sandbox: Sandbox, line: str, cwd: Path) -> str:
    """Run the probe in a process of its own, which has a tag: it ends if we are killed."""
    tag = make_tag(confined=True)
    kill_tagged_if_killed(tag)
    with ExitStack() as handles:
        reader, writer = os.pipe()
        handles.callback(os.close, reader)
        try:
            process = sandbox.start(
                ["/bin/sh", "-c", line],
                cwd=cwd,
                env=add_tag({}, tag),
                stdout=writer,
                grants=Grants(),
            )
        finally:
            os.close(writer)
        said = read_answer(reader, PROBE_PASSED.encode(), within_s=_PROBE_LIMIT_S)
    if said != PROBE_PASSED.encode():
        kill_tree(process.pid)
    process.wait()
    sandbox.finish(process)
    return said.decode("utf-8", "replace")


def choose_sandbox(
    scope: SandboxScope,
    *,
    environ: Mapping[str, str] = os.environ,
    only: str | None = None,
    run_probe: RunProbe = run_probe_alone,
    broken: Callable[[LayerFinding], None] = lambda finding: None,
) -> Sandbox:
    """Return the strongest layer that works, or the requested one. Raise SettingsError if none.

    `run_probe` runs the proof of each layer. It may keep what it started for later, if that passes.
    `broken` is called with each stronger layer that is installed and does not work, and with the
    returned one if commands in it can read what rules deny."""
    failures: list[LayerFinding] = []
    for proven, finding in _iter_attempts(scope, environ, only=only, run_probe=run_probe):
        if proven is not None:
            for failure in failures:
                if failure.reason != explain_not_installed().reason:
                    broken(failure)
            if proven.can_read_denied:
                broken(replace(finding, reason=_CAN_READ_DENIED, fix=explain_not_installed().fix))
            return proven.sandbox
        failures.append(finding)
    reasons = " ".join(failure.reason for failure in failures)
    raise SettingsError(
        f"No sandbox works here, so no command is run. {reasons}".rstrip(),
        hint=next((failure.fix for failure in failures if failure.fix), _WITHOUT),
    )


def describe_layers(scope: SandboxScope) -> tuple[LayerFinding, ...]:
    """Return every layer that a machine of this kind could have, the strongest first."""
    findings = []
    for proven, finding in _iter_attempts(scope, os.environ):
        findings.append(finding)
        if proven is not None:
            proven.sandbox.close()
    return tuple(findings)


def _iter_attempts(
    scope: SandboxScope,
    environ: Mapping[str, str],
    *,
    only: str | None = None,
    run_probe: RunProbe = run_probe_alone,
) -> Iterator[tuple[_ProvenLayer | None, LayerFinding]]:
    builders = _list_builders()
    if not builders:
        return
    if os.path.realpath(scope.workspace) == os.sep:
        raise SettingsError(
            "The workspace is the root directory: everything would be in it.",
            hint=_IN_A_PROJECT,
        )
    lower_own_limits()
    survey = cache(partial(survey_paths, scope, environ))
    trial = _Trial(scope=scope, environ=environ, survey=survey, run_probe=run_probe)
    for layer, build in builders.items():
        if only in (None, layer):
            try:
                proven = build(trial)
            except _Unusable as error:
                remedy = error.remedy
                yield (
                    None,
                    LayerFinding(layer=layer, works=False, reason=remedy.reason, fix=remedy.fix),
                )
            else:
                yield proven, LayerFinding(layer=layer, works=True, gaps=proven.gaps)


def _list_builders() -> dict[str, _Build]:
    if sys.platform == "linux":
        return {"bubblewrap": _build_bubblewrap, "landlock": _build_landlock}
    if sys.platform == "darwin":
        return {"seatbelt": _build_seatbelt}
    return {}


def _build_bubblewrap(trial: _Trial) -> _ProvenLayer:
    scope = trial.scope
    program = _find_bubblewrap(trial.environ, Path(os.path.realpath(scope.workspace)))
    if program is None:
        raise _Unusable(explain_not_installed())
    from agentcli.sandbox.bubblewrap import BubblewrapSandbox, make_private_network

    with ThreadPoolExecutor(thread_name_prefix="bubblewrap") as beside:
        asked = beside.submit(_read_version, program)
        made = beside.submit(make_private_network, program)
        paths = trial.survey()
    version, network = asked.result(), made.result()
    if version is None or not seccomp.is_supported():
        if network is not None:
            network.close()
        raise _Unusable(Remedy(f"{program} cannot be used on this machine."))
    make = partial(BubblewrapSandbox, paths, program=program, version=version, limits=scope.limits)
    sandbox = make(network=network)
    try:
        trial.prove(sandbox, Remedy, ahead=sandbox.mount_ahead())
    except _Unusable:
        sandbox = make(network=make_private_network(program), keeps_mounts=False)
        trial.prove(sandbox, lambda output: explain_bubblewrap_failure(output, program))
    return _ProvenLayer(sandbox=sandbox)


def _build_landlock(trial: _Trial) -> _ProvenLayer:
    from agentcli.sandbox.landlock import OLDEST_VERSION, LandlockSandbox

    version = landlock_rules.read_version()
    if version < OLDEST_VERSION or not seccomp.is_supported():
        raise _Unusable(explain_missing_landlock(version, OLDEST_VERSION))
    paths = trial.survey()
    sandbox = LandlockSandbox(paths, limits=trial.scope.limits)
    if sandbox.shows_keys:
        sandbox.close()
        raise _Unusable(Remedy(_SHOWS_KEYS, _IN_A_PROJECT))
    trial.prove(sandbox, lambda output: Remedy(f"Landlock failed ({output})."))
    return _ProvenLayer(
        sandbox=sandbox,
        gaps=_list_landlock_gaps(sandbox, paths),
        can_read_denied=sandbox.can_read_denied,
    )


def _build_seatbelt(trial: _Trial) -> _ProvenLayer:
    from agentcli.sandbox.seatbelt import PROGRAM, SeatbeltSandbox

    if not PROGRAM.exists():
        raise _Unusable(Remedy(f"There is no {PROGRAM}."))
    sandbox = SeatbeltSandbox(trial.survey())
    trial.prove(sandbox, lambda output: Remedy(f"sandbox-exec failed ({output})."))
    gaps = ("Memory and the number of processes are not limited.",)
    return _ProvenLayer(sandbox=sandbox, gaps=gaps)


def _find_bubblewrap(environ: Mapping[str, str], workspace: Path) -> Path | None:
    """Return an absolute path outside of the project, whatever PATH says."""
    path = own_process.build_system_path(workspace, environ)
    found = own_process.find_program("bwrap", workspace=workspace, path=path)
    return Path(found) if found else None


def _read_version(program: Path) -> tuple[int, ...] | None:
    try:
        ran = own_process.run([program, "--version"], workspace=None, timeout_s=_PROBE_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        if shortage := explain_shortage(error):
            raise shortage from error
        return None
    numbers = re.search(rb"(\d+)\.(\d+)\.(\d+)", ran.stdout)
    return tuple(map(int, numbers.groups())) if numbers else None


def _choose_probe_directory(workspace: Path) -> str:
    """Return a directory outside the workspace that we could write to without a sandbox."""
    usual = (gettempdir(), "/var/tmp", "/dev/shm")
    return next((path for path in usual if not Path(path).is_relative_to(workspace)), usual[0])


# The reasons why a layer does not work here, and the gaps of one that does.


_SYSCTL = Path("/proc/sys")

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


def explain_not_installed() -> Remedy:
    found = next((fix for name, fix in _INSTALLERS.items() if shutil.which(name)), "")
    return Remedy("bubblewrap is not installed.", found)


def explain_bubblewrap_failure(output: str, program: Path, *, settings: Path = _SYSCTL) -> Remedy:
    """Return the remedy, based on bubblewrap's output and the kernel's settings."""
    if _read_setting(settings / "kernel/apparmor_restrict_unprivileged_userns") == "1":
        return Remedy(
            "AppArmor does not let bubblewrap make user namespaces "
            "(kernel.apparmor_restrict_unprivileged_userns is 1, as on Ubuntu 24.04).",
            _APPARMOR_FIX.format(program=program),
        )
    if _read_setting(settings / "kernel/unprivileged_userns_clone") == "0":
        return Remedy(
            "The kernel lets only root make user namespaces.",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        )
    if _read_setting(settings / "user/max_user_namespaces") == "0":
        return Remedy(
            "The kernel is set to allow no user namespaces.",
            "sudo sysctl -w user.max_user_namespaces=15000",
        )
    last_line = output.strip().splitlines()[-1] if output.strip() else "it printed nothing"
    if has_container_file():
        return Remedy(f"This container does not let bubblewrap work ({last_line}).")
    return Remedy(f"bubblewrap failed ({last_line}).")


def explain_unwritable_workspace(error: OSError, workspace: Path) -> Remedy | None:
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


def explain_missing_landlock(version: int, needed: int) -> Remedy:
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
    is_unscoped = landlock_rules.read_version() < landlock_rules.SCOPE_VERSION
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
        ("A process that drops its tags can outlive its command.", is_unscoped),
        (_OPEN_RECORDS, paths.is_home),
        (_OPEN_PACKAGES, has_own_environment),
    )
    return tuple(gap for gap, is_open in gaps if is_open)


def _read_setting(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
