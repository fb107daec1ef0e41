"""An ordinary user of this machine, for tests that are run by root."""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

_NOBODY = 65534
_ROOT = Path(__file__).parents[2]
_PACKAGES = Path(pytest.__file__).parent.parent
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_CHECK = "import sys; assert sys.version_info >= (3, 11); import agentcli, pydantic, rich"
_ALONE = ("uv",)
"""Programs that consist of one file, which another user can run wherever it is."""


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    number: int
    python: str
    path: str
    """Its PATH."""

    def become(self, *argv: str | Path) -> tuple[str, ...]:
        """Return the command that runs another one as this user."""
        return (*_become(self.number), *map(str, argv))

    @property
    def interpreter(self) -> tuple[str, ...]:
        return self.become(self.python)

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables by which its interpreter finds the program."""
        return _search(self.path)

    def own(self, top: Path) -> None:
        """Make it the owner of a directory and all that is in it."""
        for path in (top, *top.rglob("*")):
            os.chown(path, self.number, self.number, follow_symlinks=False)


@cache
def find_ordinary_user() -> Account | str:
    """Return the user, or the reason why nobody can be that here."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return "only root, with setpriv, can become another user"
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        argv = [*_become(_NOBODY), python, "-c", _CHECK]
        ran = subprocess.run(argv, cwd="/", env=_search(_SYSTEM_PATH), capture_output=True)
        if ran.returncode == 0:
            path = f"{_SYSTEM_PATH}:{_link_programs()}"
            return Account(name="nobody", number=_NOBODY, python=python, path=path)
    return "no Python that another user could run the program with"


def _become(number: int) -> tuple[str, ...]:
    return ("setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups")


def _search(path: str) -> dict[str, str]:
    return {"PATH": path, "PYTHONPATH": f"{_ROOT}:{_PACKAGES}", "PYTHONDONTWRITEBYTECODE": "1"}


def _link_programs() -> Path:
    """Return a directory with links to the programs that only we have on our PATH."""
    directory = Path(tempfile.mkdtemp(prefix="agentcli-bin-", dir="/var/tmp"))
    atexit.register(shutil.rmtree, directory)
    directory.chmod(0o755)
    own = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for name in _ALONE:
        found = shutil.which(name, path=own)
        if found and subprocess.run([*_become(_NOBODY), "test", "-x", found]).returncode == 0:
            (directory / name).symlink_to(found)
    return directory
