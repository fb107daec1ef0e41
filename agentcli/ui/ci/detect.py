"""Where a run takes place: with a person who looks at it, or in a CI, and in which."""

import os
from collections.abc import Mapping

from agentcli.ui.streams import err_is_terminal

MAX_TURNS = 50
"""Model requests of a run in CI, where nobody says otherwise."""

_NO = frozenset({"", "0", "false", "no"})


def is_ci(*, option: bool | None, environ: Mapping[str, str] = os.environ) -> bool:
    """`said`: what the person said on the command line."""
    if option is not None:
        return option
    return environ.get("CI", "").lower() not in _NO or not err_is_terminal()


def is_github(environ: Mapping[str, str] = os.environ) -> bool:
    return environ.get("GITHUB_ACTIONS", "").lower() == "true"
