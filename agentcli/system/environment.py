"""The environment of every command the agent starts, built in one module.

Variables whose name suggests a secret are not passed on, nor any that change how bash itself runs.
So a command does the same thing whatever shell the agent was started from.
"""

import os
import shutil
from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import Path

from agentcli.system.lazy import compile_later

TAG_VARIABLE = "AGENTCLI_CALL"
"""The variable with the tag by which `process_tree` finds a command's processes.

An agent that runs inside an agent appends its own tag.
"""

_WORD = compile_later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET = (
    *("TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE", "APIKEY"),
    *("CREDENTIAL", "CREDENTIALS"),
)
_SECRET_AFTER_A_WORD = ("KEY", "KEYS", "PASS", "PWD")
_KINDS_OF_KEYS = (
    *("API", "SECRET", "ACCESS", "PRIVATE", "ENCRYPTION", "SIGNING", "MASTER", "AUTH", "SERVICE"),
    *("DEPLOY", "LICENSE"),
)
_NO_SECRET_KEYS = ("PUBLIC", "PRIMARY", "FOREIGN", "SORT", "PARTITION", "CACHE", "INDEX")
_ABOUT_A_SECRET = (
    *("FILE", "PATH", "DIR", "NAME", "ID", "URL", "URI", "TYPE", "TTL", "LIMIT", "LENGTH", "SIZE"),
    *("EXPIRY", "COUNT"),
)

_SHELL = {
    *("ENV", "BASH_ENV", "BASHOPTS", "SHELLOPTS", "POSIXLY_CORRECT", "CDPATH", "GLOBIGNORE"),
    "BASH_XTRACEFD",
}
_FUNCTION = "BASH_FUNC_"

_FIXED = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "CI": "1",
    "PYTHONUNBUFFERED": "1",
    "DEBIAN_FRONTEND": "noninteractive",
}

UNATTENDED = ("CI", "DEBIAN_FRONTEND", "GIT_TERMINAL_PROMPT")
"""The fixed variables by which programs know that nobody answers their questions."""

_COLUMNS_MIN = 120
"""Enough for programs that refuse a narrow terminal; the model does not read in columns."""

_UTF8_LOCALE = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


def is_secret_name(name: str) -> bool:
    """Return whether a variable of this name holds a secret, by the whole words in it.

    It does if a word ends in one of `_SECRET`. KEY, PASS and PWD need a word before them. In lower
    case, since code has many keys, KEY needs a word before it that says it is secret. The last word
    can exclude a name: TOKEN_URL is no secret."""
    words = [word.upper() for word in _WORD.findall(name)]
    if not words or words[-1] in _ABOUT_A_SECRET:
        return False
    if any(word.endswith(_SECRET) for word in words):
        return True
    pairs = [(kind, word) for kind, word in pairwise(words) if word in _SECRET_AFTER_A_WORD]
    if any(kind in _KINDS_OF_KEYS for kind, _ in pairs):
        return True
    is_last = bool(pairs) and pairs[-1][1] == words[-1] and pairs[-1][0] not in _NO_SECRET_KEYS
    return is_last and (name.isupper() or words[-1] in ("PASS", "PWD"))


def add_tag(environ: Mapping[str, str], tag: str) -> dict[str, str]:
    """Return the environment with a tag, after those of agents around this one."""
    return {**environ, TAG_VARIABLE: environ.get(TAG_VARIABLE, "") + tag}


def build_child_environment(
    base: Mapping[str, str], *, tag: str = "", passed: Collection[str] = ()
) -> dict[str, str]:
    """Return what a command gets of `base`: nobody is there to page, edit, answer or see colours.

    `passed` are names that the user has listed: they are passed on whatever their names suggest.
    """
    kept = {
        name: value
        for name, value in base.items()
        if name not in _SHELL and not name.startswith(_FUNCTION) and not is_secret_name(name)
    }
    wanted = {name: base[name] for name in passed if name in base}
    locale = {} if base.get("LANG") or base.get("LC_ALL") else _UTF8_LOCALE
    columns = max(_COLUMNS_MIN, shutil.get_terminal_size().columns)
    environ = kept | locale | _FIXED | {"COLUMNS": str(columns)} | wanted
    return add_tag(environ, tag) if tag else environ


# Whether this is a container, by the files and variables that container programs set.
#
# There is no better way to know.


_FILES = (Path("/.dockerenv"), Path("/run/.containerenv"))
_VARIABLES = ("container", "KUBERNETES_SERVICE_HOST")


def has_container_file() -> bool:
    return any(path.exists() for path in _FILES)


def is_container() -> bool:
    return has_container_file() or any(map(os.environ.get, _VARIABLES))
