import pytest

from agentcli.providers.http.route import Endpoint, Proxy, check_proxies, find_proxy, parse_endpoint
from agentcli.types.errors import SettingsError

API = parse_endpoint("https://api.example.com/v1")
PLAIN = parse_endpoint("http://api.example.com")


def proxy(environ: dict[str, str], place: Endpoint = API) -> str | None:
    found = find_proxy(place, environ)
    return str(found.endpoint) if found else None


def test_place_has_the_usual_port() -> None:
    assert parse_endpoint("https://a.example") == Endpoint(host="a.example", port=443, tls=True)
    assert parse_endpoint("http://a.example:81/x") == Endpoint(host="a.example", port=81, tls=False)


@pytest.mark.parametrize(
    ("host", "is_numeric"),
    [("127.0.0.1", True), ("[::1]", True), ("127.1", False), ("localhost", False)],
)
def test_address_needs_no_lookup(host: str, is_numeric: bool) -> None:
    assert parse_endpoint(f"http://{host}:81").is_numeric is is_numeric


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://a.example", "a.example"),
        ("https://a.example:8443", "a.example:8443"),
        ("http://[::1]:80", "[::1]"),
        ("http://[::1]:81", "[::1]:81"),
    ],
)
def test_authority_leaves_out_the_usual_port(url: str, authority: str) -> None:
    assert parse_endpoint(url).authority == authority


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"HTTPS_PROXY": "http://p:1"}, "p:1"),
        ({"https_proxy": "http://low:1", "HTTPS_PROXY": "http://up:1"}, "low:1"),
        ({"ALL_PROXY": "p:8080"}, "p:8080"),
        ({"HTTPS_PROXY": "http://p:1", "ALL_PROXY": "http://q:1"}, "p:1"),
        ({"HTTP_PROXY": "http://p:1"}, None),
        ({"HTTPS_PROXY": " "}, None),
        ({"HTTPS_PROXY": "https://p"}, "p:443"),
    ],
)
def test_proxy_comes_from_the_environment(environ: dict[str, str], expected: str | None) -> None:
    assert proxy(environ) == expected


@pytest.mark.parametrize(
    ("exceptions", "is_exempt"),
    [
        ("*", True),
        ("example.com", True),
        (".example.com", True),
        ("*.example.com", True),
        ("API.example.com", True),
        ("other.com, api.example.com:443", True),
        ("api.example.com:80", False),
        ("ple.com", False),
        ("api.example.com.evil", False),
        ("10.0.0.0/8", False),
        ("", False),
    ],
)
def test_exceptions_are_reached_straight(exceptions: str, is_exempt: bool) -> None:
    environ = {"ALL_PROXY": "http://p:1", "NO_PROXY": exceptions}
    assert (proxy(environ) is None) is is_exempt


@pytest.mark.parametrize(
    ("url", "is_exempt"),
    [
        ("http://10.1.2.3", True),
        ("http://11.1.2.3", False),
        ("http://[fd00::1]", True),
        ("http://[fe80::2]:81", True),
        ("http://[fe80::2]:82", False),
    ],
)
def test_exceptions_may_be_networks_and_addresses(url: str, is_exempt: bool) -> None:
    environ = {"ALL_PROXY": "http://p:1", "no_proxy": "10.0.0.0/8,fd00::/8,[fe80::2]:81"}
    assert (proxy(environ, parse_endpoint(url)) is None) is is_exempt


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "[::1]"])
def test_loopback_is_always_reached_straight(host: str) -> None:
    assert proxy({"ALL_PROXY": "http://p:1"}, parse_endpoint(f"http://{host}:5")) is None


def test_proxy_password_is_never_shown() -> None:
    found = find_proxy(PLAIN, {"http_proxy": "http://me:hush@p:1"})
    assert found == Proxy(
        endpoint=Endpoint(host="p", port=1, tls=False),
        credentials="Basic bWU6aHVzaA==",
        source="http_proxy",
    )
    assert "hush" not in repr(found)
    assert "bWU6" not in repr(found)


@pytest.mark.parametrize(
    "value",
    ["socks5://p:1", "http://", "://", "http://[", "http://[::1", "http://p:port", "p:99999"],
)
def test_proxy_of_another_kind_is_a_setting_to_fix(value: str) -> None:
    with pytest.raises(SettingsError, match="ALL_PROXY"):
        proxy({"ALL_PROXY": value})
    with pytest.raises(SettingsError, match="all_proxy is not the address of an HTTP proxy"):
        check_proxies({"all_proxy": value})


def test_password_of_a_bad_proxy_is_not_told() -> None:
    with pytest.raises(SettingsError, match="'http://p:port'"):
        proxy({"HTTPS_PROXY": "http://me:secret@p:port"})


def test_password_without_a_port_is_no_port() -> None:
    assert proxy({"HTTPS_PROXY": "http://me:secret@p"}) == "p:80"
