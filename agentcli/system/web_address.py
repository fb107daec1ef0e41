"""Web addresses: one spelling for each, and nothing in it that two programs could read in two ways.

Rules judge the host of an address, and the same host is then dialled.
"""

import re
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from agentcli.system.hosts import USUAL_PORTS, HostPattern, join_port, parse_host
from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

MOST_CHARS = 8000

_PORTS = {"http": 80, "https": 443}
_UNSAFE = compile_later(r"[\x00-\x20\x7f\\]")
_BARE = compile_later(r"(?:[a-z0-9-]+\.)+[a-z]{2,}(?:[:/?#]|$)", re.IGNORECASE)
_PATH_CHARS = "/%:@!$&'()*+,;=~-._"
_QUERY_CHARS = f"{_PATH_CHARS}?[]|"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAddress:
    is_secure: bool
    host: str
    """In its one spelling."""
    port: int
    target: str
    """The path and the query, as they are sent."""

    @classmethod
    def parse(cls, text: str) -> "WebAddress":
        """Read an address of http or https. Raise ValueError that says what to write instead."""
        text = text.strip()
        if len(text) > MOST_CHARS:
            raise ValueError(f"an address has at most {MOST_CHARS} characters")
        if _UNSAFE.search(text):
            raise ValueError("an address has no spaces, controls or backslashes; write %20")
        if _BARE.match(text):
            text = f"https://{text}"
        parts = urlsplit(text)
        if parts.scheme not in _PORTS:
            raise ValueError("only addresses that begin with https:// or http:// can be fetched")
        if "@" in parts.netloc:
            raise ValueError("an address with a user or password in it is not fetched")
        return cls(
            is_secure=parts.scheme == "https",
            host=_parse_host(parts),
            port=parts.port or _PORTS[parts.scheme],
            target=_encode_target(parts),
        )

    @property
    def authority(self) -> str:
        """The host, with the port if it is not the usual one: the value of a Host header."""
        usual = _PORTS["https" if self.is_secure else "http"]
        whole = join_port(self.host, self.port)
        return whole.removesuffix(f":{usual}") if self.port == usual else whole

    @property
    def location(self) -> str:
        """The host with its port, as rules judge it."""
        return join_port(self.host, self.port)

    def __str__(self) -> str:
        return f"http{'s' if self.is_secure else ''}://{self.authority}{self.target}"

    def join(self, location: str) -> "WebAddress":
        """Return where a redirect leads. Raise ValueError if it leads nowhere on the web."""
        return WebAddress.parse(urljoin(str(self), location.strip()))


def name_host(location: str) -> str:
    """Return `docs.example.org` for `docs.example.org:443`; other ports stay."""
    pattern = HostPattern.parse(location)
    return str(
        HostPattern(host=pattern.host, port=None if pattern.port in USUAL_PORTS else pattern.port)
    )


def _parse_host(parts: SplitResult) -> str:
    if not parts.hostname:
        raise ValueError("the address names no host")
    is_ipv6 = ":" in parts.hostname
    return parse_host(f"[{parts.hostname}]" if is_ipv6 else parts.hostname)


def _encode_target(parts: SplitResult) -> str:
    query = f"?{quote(parts.query, safe=_QUERY_CHARS)}" if parts.query else ""
    return (quote(parts.path, safe=_PATH_CHARS) or "/") + query
