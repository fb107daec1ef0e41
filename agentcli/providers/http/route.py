"""The route to a host: direct or through a proxy, and the certificates to trust.

The environment decides, with the variables that other programs use, so what works for them works
here. A loopback address is always reached directly.
"""

import ipaddress
import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, quote, unquote, urlsplit

from agentcli.system.lazy import compile_later
from agentcli.system.strict_json import parse_whole_number
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass

if TYPE_CHECKING:
    from agentcli.providers.catalog import Provider

# The URL of a provider: a base address in any form, and a path below it


_VERSION = compile_later(r"/v\d+[a-z0-9]*(?=/|$)")


def join_url(base_url: str, path: str) -> str:
    """Return the full URL. The base may end in a slash, in a version, or in the path itself.

    Its query, as `?api-version=1`, stays one."""
    parts = urlsplit(base_url.strip())
    route, _, query = path.partition("?")
    query = "&".join(filter(None, (parts.query, query)))
    base = parts._replace(path=parts.path.rstrip("/"), query="", fragment="").geturl()
    unversioned = _VERSION.sub("", route, count=1)
    if not base.endswith(unversioned):
        base += unversioned if _VERSION.search(parts.path.rstrip("/")) else route
    return f"{base}?{query}" if query else base


def find_base_url(provider: "Provider", environ: Mapping[str, str]) -> str:
    """Return the address from the environment, or the provider's own; "" if its SDK knows it."""
    variable = provider.base_url_env
    value = environ.get(variable, "").strip() if variable else ""
    if not value:
        own = provider.base_url
        return (
            own if provider.platform else check_base_url(own, source=f"{provider.name}'s base_url")
        )
    if provider.name == "ollama":
        value = _as_client_address(value)
    return check_base_url(value, source=variable)


def _as_client_address(listening: str) -> str:
    """Return the address to connect to for a value of OLLAMA_HOST.

    The variable says where the server listens: often a bare host, or every interface.
    """
    if "://" in listening:
        return listening
    host, colon, port = listening.rstrip("/").rpartition(":")
    if not colon or parse_whole_number(port) is None:
        host, port = listening.rstrip("/"), "11434"
    return f"http://{'127.0.0.1' if host in ('', '0.0.0.0') else host}:{port}"


def check_base_url(base_url: str, *, source: str) -> str:
    """Return the address. Raise a SettingsError that names `source` if it is not one."""
    if is_address(base_url.strip()):
        return base_url.strip()
    raise SettingsError(
        f"{source} is not an address: {base_url!r}",
        hint=f"{source} must look like https://host or http://127.0.0.1:8080",
    )


def remove_login(base_url: str) -> str:
    """Return the address without its user, its password and its query, which may hold a key."""
    parts = urlsplit(base_url)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host, query="", fragment="").geturl()


def is_address(url: str) -> bool:
    """Return whether this is the HTTP address of a host."""
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
        host = _encode_host(parts.hostname or "")
    except ValueError:  # a bracket without its other half, or a port or host that is none
        return False
    return parts.scheme in ("http", "https") and bool(host) and has_port


def _encode_host(host: str) -> str:
    """Return the host in ASCII. Raise ValueError if no host can be named like that."""
    return host if host.isascii() else host.encode("idna").decode()


CERTIFICATE_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")

_SENT_AS_THEY_ARE = "%/?:@!$&'()*+,;=[]|~"
"""The characters of an address, besides letters and digits, that are not encoded: those with a
meaning in it, and the sign of what is encoded already."""

_PORT_OF_SCHEME = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    host: str
    port: int
    tls: bool
    is_numeric: bool = False
    """True if the host is known to be an address, so that there is nothing to look up."""

    @property
    def authority(self) -> str:
        """The host and port as in a Host header: a default port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    endpoint: Endpoint
    credentials: str | None = field(repr=False)
    """The value of a Proxy-Authorization header."""
    source: str
    """The environment variable that names the proxy."""


def parse_endpoint(url: str) -> Endpoint:
    parts = urlsplit(url)
    host = _encode_host(parts.hostname or "")
    return Endpoint(
        host=host,
        port=parts.port or _PORT_OF_SCHEME[parts.scheme],
        tls=parts.scheme == "https",
        is_numeric=_parse_address(host) is not None,
    )


def find_proxy(endpoint: Endpoint, environ: Mapping[str, str]) -> Proxy | None:
    if is_loopback(endpoint.host) or _is_exempt(endpoint, _read_variable(environ, "no_proxy")[1]):
        return None
    for name in ("https_proxy" if endpoint.tls else "http_proxy", "all_proxy"):
        source, value = _read_variable(environ, name)
        if value:
            return _parse_proxy(value, source)
    return None


class Route:
    """The way to a provider: its address, and the proxy in between if the environment names one."""

    def __init__(self, base_url: str, environ: Mapping[str, str]) -> None:
        self.endpoint = parse_endpoint(base_url)
        self.proxy = find_proxy(self.endpoint, environ)
        self.credentials = _build_basic(urlsplit(base_url.strip()))
        """The value of an Authorization header, if the address names a user."""
        self._base_url = base_url

    def locate(self, path: str) -> tuple[str, str]:
        """Return the target of a request, and the host that its header names.

        A proxy gets the whole address, unless it only passes on what TLS hides."""
        url = urlsplit(join_url(self._base_url, path))
        target = quote(url.path + (f"?{url.query}" if url.query else ""), safe=_SENT_AS_THEY_ARE)
        host = self.endpoint.authority
        return (f"http://{host}{target}" if self.proxy and not self.endpoint.tls else target), host


def check_proxies(environ: Mapping[str, str]) -> None:
    """Raise SettingsError if a proxy variable is invalid.

    For clients that read all of these variables themselves, and fail on a bad one.
    """
    for name in ("https_proxy", "http_proxy", "all_proxy"):
        source, value = _read_variable(environ, name)
        if value:
            _parse_proxy(value, source)


def is_loopback(host: str) -> bool:
    address = _parse_address(host)
    return host == "localhost" if address is None else address.is_loopback


def _read_variable(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the variable's name and value. The lower-case name wins, as in curl."""
    source = name if environ.get(name) else name.upper()
    return source, environ.get(source, "").strip()


def _parse_proxy(value: str, source: str) -> Proxy:
    address = value if "://" in value else f"http://{value}"
    if not is_address(address):
        shown = re.sub(r"(?<=//).*@", "", address)  # without a password
        raise SettingsError(
            f"{source} is not the address of an HTTP proxy: {shown!r}",
            hint=f"export {source}=http://proxy.example:3128, or unset {source}",
        )
    parts = urlsplit(address)
    return Proxy(
        endpoint=parse_endpoint(parts._replace(path="", query="", fragment="").geturl()),
        credentials=_build_basic(parts),
        source=source,
    )


def _build_basic(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"


def _is_exempt(endpoint: Endpoint, exceptions: str) -> bool:
    return any(_covers(entry.strip().lower(), endpoint) for entry in exceptions.split(",") if entry)


def _covers(entry: str, endpoint: Endpoint) -> bool:
    if entry == "*":
        return True
    name, _, port = entry.rpartition(":")
    number = parse_whole_number(port)
    has_port = number is not None and (":" not in name or name.endswith("]"))
    if has_port and number != endpoint.port:
        return False
    entry = (name if has_port else entry).strip("[]").removeprefix("*").removeprefix(".")
    host = endpoint.host.lower()
    return bool(entry) and (
        host == entry or host.endswith(f".{entry}") or _is_in_network(host, entry)
    )


def _is_in_network(host: str, network: str) -> bool:
    address = _parse_address(host)
    try:
        return address is not None and address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def build_tls_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Build the TLS context. It costs tens of milliseconds, so do it once and only for https."""
    variable = next((name for name in CERTIFICATE_VARIABLES if environ.get(name)), None)
    if variable is None:
        context = ssl.create_default_context()
    else:
        context = _load_context(Path(environ[variable]), variable)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load_context(path: Path, variable: str) -> ssl.SSLContext:
    try:
        if path.is_dir():
            return ssl.create_default_context(capath=str(path))
        return ssl.create_default_context(cafile=str(path))
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(
            f"{variable} names no usable certificates: {path} ({error.strerror or error})",
            hint=f"unset {variable}",
        ) from None
