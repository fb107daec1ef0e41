"""The reasons why a layer does not work here, and the one command that would fix it."""

import errno
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from agentcli.sandbox import landlock_rules

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


@dataclass(frozen=True, slots=True)
class Remedy:
    reason: str
    fix: str = ""


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
    said = output.strip().splitlines()[-1] if output.strip() else "it printed nothing"
    if any(mark.exists() for mark in _CONTAINER_MARKS):
        return Remedy(f"This container does not let bubblewrap work ({said}).")
    return Remedy(f"bubblewrap failed ({said}).")


def workspace_unwritable(error: OSError, workspace: Path) -> Remedy | None:
    """Return the remedy if a file for the sandbox cannot be created, or None for other errors."""
    if error.filename is None or not Path(error.filename).is_relative_to(workspace):
        return None
    place = shlex.quote(str(workspace))
    fixes = {
        errno.ENOSPC: f"df -h {place} && df -i {place}  # and make room there",
        errno.EDQUOT: "quota -s  # and make room",
        errno.EROFS: f'sudo mount -o remount,rw "$(findmnt -no TARGET -T {place})"',
        errno.EACCES: f'sudo chown -R "$USER" {place}',
        errno.EPERM: f"sudo chattr -R -i {place}",
    }
    said = f"The workspace cannot be written: {error.strerror} ({error.filename})."
    return Remedy(said, fixes.get(error.errno or 0, ""))


def landlock_missing(version: int, needed: int) -> Remedy:
    if version == 0:
        return Remedy("This kernel has no Landlock, or it is not switched on (lsm=landlock,...).")
    return Remedy(f"This kernel's Landlock is version {version}; {needed} is needed (Linux 6.7).")


def list_landlock_gaps(*, has_view: bool, has_network: bool, is_home: bool) -> tuple[str, ...]:
    """Return the gaps that Landlock leaves open, worded for the user."""
    is_unscoped = landlock_rules.version() < landlock_rules.SCOPE_VERSION
    gaps = {
        "Git's hooks and settings are put back after a command, not held during it.": True,
        "After kill -9 of agentcli nothing is put back.": True,
        "Commands see the list of processes, and cannot use /tmp and /dev/shm.": True,
        "Commands can change modes and times of your files anywhere.": not has_view,
        "Commands have no loopback network, so no servers.": not has_network,
        "Commands can signal your other programs.": is_unscoped,
        "A process that sheds its marks can outlive its command.": is_unscoped,
        "The workspace holds your home directory: commands can read your keys, and change the "
        "records of sessions (agentcli audit shows it).": is_home,
    }
    return tuple(gap for gap, is_open in gaps.items() if is_open)


def _setting(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""
