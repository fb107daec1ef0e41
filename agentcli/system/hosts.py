"""Names of hosts and web addresses: patterns that users grant, and where a name must not lead.

Every name has one spelling here. What programs would read as an address in another notation is
refused, so that no pattern and no request can mean something else than it seems to.
"""

import re
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

IPAddress = IPv4Address | IPv6Address

USUAL_PORTS = (80, 443, 22)
"""The ports of a pattern that names none: HTTP, HTTPS, and ssh for git."""

_LONGEST_NAME = 253
_LABEL = compile_later(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_NUMBER = compile_later(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_PORT = compile_later(r"[1-9][0-9]{0,4}", re.ASCII)
_MOST_PORT = 65_535
_REGISTRY_LABELS = frozenset(
    {"ac", "co", "com", "edu", "gov", "go", "mil", "ne", "net", "or", "org"}
)
"""Below the domain of a country these belong to everybody, as `co.uk` does."""
_COUNTRY_CHARS = 2
_TRANSLATED = IPv6Network("64:ff9b::/96")
_LOCALHOST = "localhost"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPattern:
    """One host, or all hosts below a domain, on one port or on the usual ones."""

    host: str
    """The name or address; for a wildcard, the domain without `*.`."""
    port: int | None = None
    is_wildcard: bool = False

    @classmethod
    def parse(cls, text: str) -> "HostPattern":
        """Read `docs.example.org`, `*.example.com`, `localhost:8080` or `[::1]:80`.

        Raise ValueError that says what to write instead.
        """
        host, port = split_port(text)
        if not host.startswith("*"):
            found = parse_host(host)
            if (address := parse_address(found)) and address.is_unspecified:
                raise ValueError(f"{text}: no address of a host; for your own write localhost:8080")
            return cls(host=found, port=port)
        domain = host.removeprefix("*.")
        if domain == host or "*" in domain:
            raise ValueError(
                f"{text}: a wildcard stands for all names below one domain: *.example.com"
            )
        domain = parse_host(domain)
        _check_wildcard(text, domain)
        return cls(host=domain, port=port, is_wildcard=True)

    def __str__(self) -> str:
        host = f"*.{self.host}" if self.is_wildcard else self.host
        return host if self.port is None else join_port(host, self.port)

    def matches(self, host: str, port: int) -> bool:
        """Return whether the pattern covers a host and port. False if `host` is no valid name."""
        try:
            return self.covers(HostPattern(host=parse_host(host), port=port))
        except ValueError:
            return False

    def covers(self, other: "HostPattern", *, any_port: bool = False) -> bool:
        """Return whether this stands for all that another pattern stands for.

        With `any_port`, a pattern without a port stands for all ports, as in a rule that denies.
        """
        is_below = self.is_wildcard and other.host.endswith(f".{self.host}")
        is_same = self.host == other.host and self.is_wildcard == other.is_wildcard
        if self.port is None:
            has_port = any_port or other.port is None or other.port in USUAL_PORTS
        else:
            has_port = self.port == other.port
        return has_port and (is_below or is_same)


def split_port(text: str) -> tuple[str, int | None]:
    """Split `host:port`, `[address]:port` or a host alone. Raise ValueError for a wrong port."""
    if "//" in text:
        raise ValueError(f"{text}: write only the name of the host, as docs.example.org")
    is_bare_address = text.count(":") > 1 and not text.startswith("[")
    if is_bare_address or text.endswith("]") or ":" not in text:
        return text, None
    host, _, port = text.rpartition(":")
    if not _PORT.fullmatch(port) or int(port) > _MOST_PORT:
        raise ValueError(f"{text}: a port is a number from 1 to {_MOST_PORT}: {host}:8080")
    return host, int(port)


def join_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_host(text: str) -> str:
    """Return the one spelling of a name or an address. Raise ValueError if it is neither."""
    if text.startswith("[") or ":" in text:
        return _parse_ipv6(text)
    if not text.isascii():
        raise ValueError(f"{text}: write the ASCII form of the name{_suggest_ascii(text)}")
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _parse_ipv4(text, name)
    if len(name) > _LONGEST_NAME or not all(map(_LABEL.fullmatch, labels)):
        raise ValueError(f"{text}: not the name of a host; write one as docs.example.org")
    return name


def _parse_ipv6(text: str) -> str:
    inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        # A zone names an interface of the machine, not a host.
        address = IPv6Address("" if "%" in inner else inner)
    except ValueError:
        raise ValueError(f"{text}: not an address; write one as [2001:db8::1]:443") from None
    return str(address.ipv4_mapped or address)


def _parse_ipv4(text: str, name: str) -> str:
    try:
        return str(IPv4Address(name))
    except ValueError:
        # What the C library reads in it: hexadecimal, octal, or fewer than four numbers.
        try:
            meant = f": {socket.inet_ntoa(socket.inet_aton(name))}"
        except OSError:
            meant = ""
        raise ValueError(f"{text}: write an address as four decimal numbers{meant}") from None


def _suggest_ascii(text: str) -> str:
    try:
        return f": {text.encode('idna').decode()}"
    except UnicodeError:
        return ""


def _check_wildcard(text: str, domain: str) -> None:
    labels = domain.split(".")
    if _NUMBER.fullmatch(labels[-1]) or ":" in domain:
        raise ValueError(f"{text}: a wildcard stands for names; write each address")
    is_shared = len(labels) == 2 and len(labels[1]) == _COUNTRY_CHARS
    if len(labels) < 2 or (is_shared and labels[0] in _REGISTRY_LABELS):
        raise ValueError(f"{text}: too wide; name a domain of one owner, as *.example.com")


# The addresses that a name must not lead to.


PRIVATE = "a private address"


def parse_address(host: str) -> IPAddress | None:
    """Return the address that a parsed host is, or None if it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_localhost(host: str) -> bool:
    """Return whether a parsed host is a name that means the machine's own loopback everywhere."""
    return host == _LOCALHOST or host.endswith(f".{_LOCALHOST}")


def is_special(host: str) -> bool:
    """Return whether a parsed host is the machine itself, or an address that is not public."""
    address = parse_address(host)
    return is_localhost(host) or (address is not None and bool(why_unreachable(address)))


def why_unreachable(address: IPAddress | str) -> str:
    """Return what is special about an address that only its own grant reaches; else nothing.

    An address of the public internet returns "". Raise ValueError if it is no address.
    """
    found = _unwrap(ip_address(address) if isinstance(address, str) else address)
    kinds = {
        "an unspecified address": found.is_unspecified,
        "a loopback address": found.is_loopback,
        "a link-local address": found.is_link_local,
        "a multicast address": found.is_multicast,
        "a reserved address": found.is_reserved,
        PRIVATE: not found.is_global or (found.version == 6 and found.is_site_local),
    }
    return next((kind for kind, is_so in kinds.items() if is_so), "")


def _unwrap(address: IPAddress) -> IPAddress:
    """Return the IPv4 address that packets to an IPv6 address end at, if it is such a one."""
    if not isinstance(address, IPv6Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)


# Web addresses: one spelling for each, and nothing in it that two programs could read in two ways.
#
# Rules judge the host of an address, and the same host is then dialled.


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
