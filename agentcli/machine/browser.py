"""The person's browser, where there is one before them."""

import os
import sys
import webbrowser
from urllib.parse import urlsplit

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


def is_page(address: str) -> bool:
    """Whether it is a page of the web: a program that opens addresses may open anything."""
    try:
        parts = urlsplit(address)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and address.isprintable()
    except ValueError:
        return False


def host_of(address: str) -> str:
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
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, _SCREENS))


def open_page(address: str) -> bool:
    """Whether it was opened. Takes a moment."""
    if not is_page(address) or not has_screen():
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
