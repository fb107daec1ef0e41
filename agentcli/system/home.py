"""The user's home directory. Unlike with `Path.home`, it is no error if there is none."""

import os
from pathlib import Path


def locate_home() -> Path:
    return expand_home("~")


def expand_home(written: str) -> Path:
    """Return the path that a user wrote. If there is no such home, `~x` is an ordinary name."""
    return Path(os.path.expanduser(written))  # noqa: PTH111 - Path's raises where there is none


def expand_own_home(written: str) -> Path:
    """Return the path that a model wrote: `~/x` is in the user's home, `~x` an ordinary name."""
    return expand_home(written) if written == "~" or written.startswith("~/") else Path(written)


def locate_config_home() -> Path:
    """Return the directory in which programs, such as git, keep the user's settings."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or locate_home() / ".config")


def shorten_home(path: Path) -> str:
    """Return the path with ~ for the home directory."""
    own = locate_home()
    if not path.is_relative_to(own) or own == Path("/"):
        return str(path)
    return f"~/{path.relative_to(own)}" if path != own else "~"
