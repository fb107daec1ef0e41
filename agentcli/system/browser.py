"""The user's browser, if there is a screen to show it on."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from agentcli.system import own_process

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")
_OPENERS = (
    ["xdg-open"],
    ["gio", "open"],
    ["wslview"],
    ["x-www-browser"],
    ["firefox"],
    ["chromium"],
    ["google-chrome"],
)
_PATIENCE_S = 5.0


def is_page(address: str) -> bool:
    """Return whether it is a web page: a program that opens addresses may open anything."""
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and address.isprintable()
    except ValueError:
        return False


def parse_host(address: str) -> str:
    """Return the host as it will be looked up, so that look-alike letters show what they are."""
    host = urlsplit(address).hostname or ""
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return ascii(host)


def has_screen() -> bool:
    """Return whether a browser can be seen: not over ssh, nor in a terminal alone."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or any(map(os.environ.get, _SCREENS))


def open_page(address: str, *, workspace: Path) -> bool:
    """Open the page and return whether that worked. Takes a moment.

    Nothing in the workspace has an influence on what runs.
    """
    if not is_page(address) or not has_screen():
        return False
    env = own_process.build_user_environment(workspace)
    return any(_opens([*words, address], workspace, env=env) for words in _iter_openers())


def open_file(path: Path) -> bool:
    """Open a page that we wrote, and return whether that worked. Takes a moment."""
    if not has_screen():
        return False
    address, directory = path.absolute().as_uri(), path.parent
    env = own_process.build_user_environment(directory)
    return any(_opens([*words, address], directory, env=env) for words in _iter_openers())


def _iter_openers() -> Iterator[list[str]]:
    for chosen in filter(None, os.environ.get("BROWSER", "").split(os.pathsep)):
        with suppress(ValueError):  # quotes that do not close
            yield [word for word in shlex.split(chosen) if word != "%s"]
    yield from (["open"],) if sys.platform == "darwin" else _OPENERS


def _opens(argv: list[str], workspace: Path, *, env: Mapping[str, str]) -> bool:
    """Return whether the program opened the page.

    Some of these programs are the browser and keep running. Others exit when it has opened.
    """
    try:
        child = own_process.start(argv, workspace=workspace, env=env, start_new_session=True)
    except OSError:
        return False
    try:
        return child.wait(_PATIENCE_S) == 0
    except subprocess.TimeoutExpired:
        return True
