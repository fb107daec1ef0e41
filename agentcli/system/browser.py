"""The person's browser, where there is one before them."""

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
    """Whether it is a page of the web: a program that opens addresses may open anything."""
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and address.isprintable()
    except ValueError:
        return False


def parse_host(address: str) -> str:
    """As it will be looked up: letters that only look like others show as what they are."""
    host = urlsplit(address).hostname or ""
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return ascii(host)


def has_screen() -> bool:
    """Whether a browser could be seen: over ssh, or in a terminal alone, it could not."""
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or any(map(os.environ.get, _SCREENS))


def open_page(address: str, *, beside: Path) -> bool:
    """Whether it was opened. Takes a moment. `beside`: the workspace, which has no say in it."""
    if not is_page(address) or not has_screen():
        return False
    env = own_process.user_environment(beside)
    return any(_opens([*words, address], beside, env) for words in _openers())


def _openers() -> Iterator[list[str]]:
    for chosen in filter(None, os.environ.get("BROWSER", "").split(os.pathsep)):
        with suppress(ValueError):  # quotes that do not close
            yield [word for word in shlex.split(chosen) if word != "%s"]
    yield from (["open"],) if sys.platform == "darwin" else _OPENERS


def _opens(argv: list[str], beside: Path, env: Mapping[str, str]) -> bool:
    """Some of these programs are the browser, and stay; others leave when it has opened."""
    try:
        child = own_process.start(argv, beside=beside, env=env, start_new_session=True)
    except OSError:
        return False
    try:
        return child.wait(_PATIENCE_S) == 0
    except subprocess.TimeoutExpired:
        return True
