"""The environment of every command the agent starts, made in one place.

No variable whose name speaks of a secret is passed on, nor any that changes how bash itself runs:
the same command does the same thing whatever shell the agent was started from.
"""

import re
from collections.abc import Collection, Mapping

MARK = "AGENTCLI_CALL"
"""Carries the mark by which `tree` finds a command's processes; an agent in an agent appends."""

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)

_SHELL = re.compile(
    r"ENV|BASH_ENV|BASHOPTS|SHELLOPTS|POSIXLY_CORRECT|CDPATH|GLOBIGNORE|BASH_XTRACEFD|BASH_FUNC_.*"
)

_FIXED = {
    "TERM": "dumb",
    "COLUMNS": "77",  # what is shown of a command stands a little to the right, in 80 columns
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "CI": "1",
    "PYTHONUNBUFFERED": "1",
    "DEBIAN_FRONTEND": "noninteractive",
}

_UTF8_LOCALE = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


def child_environment(
    base: Mapping[str, str], *, mark: str = "", passed: Collection[str] = ()
) -> dict[str, str]:
    """What a command gets of `base`: nobody is there to page, edit, answer or look at colours.

    `passed` are names the person has given: those are passed on whatever they say.
    """
    kept = {
        name: value
        for name, value in base.items()
        if not SECRET_NAME.search(name) and not _SHELL.fullmatch(name)
    }
    wanted = {name: base[name] for name in passed if name in base}
    locale = {} if base.get("LANG") or base.get("LC_ALL") else _UTF8_LOCALE
    marks = {MARK: base.get(MARK, "") + mark} if mark else {}
    return kept | locale | _FIXED | wanted | marks
