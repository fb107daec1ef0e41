"""What only some users need: the extras of the package, and the commands that install them.

A command installs into the environment that runs, whoever made it. It names packages that are not
ours: on a package index, our name may belong to somebody else.
"""

import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

from agentcli.types.errors import SettingsError

_FOR_DEVELOPERS = "dev"
_EXTRA = re.compile(r"""extra == ['"]([\w-]+)['"]""")
_NAME = re.compile(r"[\w.-]+")


def is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False


def require(module: str, *, needed_by: str, extra: str = "", package: str = "") -> None:
    """Raise SettingsError if a module is missing that comes with an extra, or a foreign package."""
    if not is_installed(module):
        raise SettingsError(
            f"{needed_by} needs the Python package {module.partition('.')[0]}",
            hint=build_install_command(package) if package else build_extra_command(extra),
        )


def build_extra_command(extra: str) -> str:
    """Return the command that installs an extra into this environment."""
    packages = read_extras().get(extra)
    return build_install_command(*packages) if packages else f"pip install '.[{extra}]'"


def build_install_command(*packages: str) -> str:
    """Return the command that installs packages into this environment."""
    if is_pipx_environment():
        installer = ["pipx", "inject", Path(sys.prefix).name]
    elif is_installed("pip"):
        installer = [sys.executable, "-m", "pip", "install"]
    else:
        installer = ["uv", "pip", "install", "--python", sys.executable]
    return shlex.join([*installer, *packages])


def is_pipx_environment() -> bool:
    return Path(sys.prefix, "pipx_metadata.json").exists()


def list_installed_extras() -> list[str]:
    """Return the extras of which every package is here."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - as below

    def is_here(package: str) -> bool:
        try:
            return bool(distribution(package))
        except PackageNotFoundError:
            return False

    extras = read_extras().items()
    return [
        name
        for name, packages in extras
        if all(is_here(_NAME.findall(package)[0]) for package in packages)
    ]


def read_extras() -> dict[str, list[str]]:
    """Return the packages of each extra for users; none if we run without being installed."""
    from importlib.metadata import PackageNotFoundError, requires  # noqa: PLC0415 - slow to import

    extras: dict[str, list[str]] = {}
    try:
        requirements = requires("agentcli") or []
    except PackageNotFoundError:
        return {}
    for requirement in requirements:
        package, _, marker = requirement.partition(";")
        if (extra := _EXTRA.search(marker)) and extra[1] != _FOR_DEVELOPERS:
            extras.setdefault(extra[1], []).append(package.strip())
    return extras
