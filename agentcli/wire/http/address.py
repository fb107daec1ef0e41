"""Where a provider is reached: a base address, however it is written, and a path below it."""

import re
from urllib.parse import urlsplit

from agentcli.machine.numbers import parse_whole_number
from agentcli.types.errors import SettingsError

_VERSION = re.compile(r"/v\d+[a-z0-9]*(?=/|$)")


def join_url(base_url: str, path: str) -> str:
    """The full address. The base may end in a slash, in a version, or in the path itself."""
    base = base_url.strip().rstrip("/")
    route, question, query = path.partition("?")
    unversioned = _VERSION.sub("", route, count=1)
    if base.endswith(unversioned):
        return base + question + query
    has_version = _VERSION.search(urlsplit(base).path) is not None
    return base + (unversioned if has_version else route) + question + query


def check_base_url(base_url: str, *, source: str) -> str:
    """The address, or a SettingsError that names where the bad one came from."""
    if is_address(base_url.strip()):
        return base_url.strip()
    raise SettingsError(
        f"{source} is not an address: {base_url!r}",
        hint=f"{source} must look like https://host or http://127.0.0.1:8080",
    )


def is_address(url: str) -> bool:
    """Of a host that is spoken to by HTTP."""
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket without its other half
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and _has_port(parts.netloc)


def _has_port(netloc: str) -> bool:
    """No port at all, or one that exists."""
    port = re.search(r":([^:\]]*)$", netloc.rpartition("@")[2])
    return port is None or 0 < (parse_whole_number(port[1]) or 0) < 65536
