"""The person's home directory. Unlike with Path's own, there being none is no error."""

import os
from pathlib import Path


def home() -> Path:
    return expand_home("~")


def expand_home(written: str) -> Path:
    """A path as people write it; where there is no such home, `~x` is a name like others."""
    return Path(os.path.expanduser(written))  # noqa: PTH111 - Path's raises where there is none


def config_home() -> Path:
    """Where programs keep what the person has set, git among them."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or home() / ".config")
