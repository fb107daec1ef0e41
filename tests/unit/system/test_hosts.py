from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.system.hosts import HostPattern, parse_host, why_unreachable
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("text", "host", "port", "is_wildcard"),
    [
        ("docs.example.org", "docs.example.org", None, False),
        ("*.example.com", "example.com", None, True),
        ("*.example.com:8443", "example.com", 8443, True),
        ("localhost:8080", "localhost", 8080, False),
        ("[::1]:80", "::1", 80, False),
        ("[::1]", "::1", None, False),
        ("::1", "::1", None, False),
        ("10.0.0.5:5000", "10.0.0.5", 5000, False),
        ("xn--mnchen-3ya.example", "xn--mnchen-3ya.example", None, False),
    ],
)
def test_pattern_is_parsed(text: str, host: str, port: int | None, is_wildcard: bool) -> None:
    expected = HostPattern(host=host, port=port, is_wildcard=is_wildcard)
    assert HostPattern.parse(text) == expected


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Docs.Example.ORG", "docs.example.org"),
        ("docs.example.org.", "docs.example.org"),
        ("127.0.0.1.", "127.0.0.1"),
        ("*.Example.com.", "*.example.com"),
        ("[::ffff:127.0.0.1]:80", "127.0.0.1:80"),
        ("[::FFFF:7f00:1]", "127.0.0.1"),
        ("[0:0:0:0:0:0:0:1]:443", "[::1]:443"),
    ],
)
def test_pattern_has_one_spelling(text: str, canonical: str) -> None:
    assert str(HostPattern.parse(text)) == canonical
    assert str(HostPattern.parse(canonical)) == canonical


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("*", "*.example.com"),
        ("**.example.com", "*.example.com"),
        ("*example.com", "*.example.com"),
        ("*.*.com", "*.example.com"),
        ("*.com", "too wide"),
        ("*.localhost", "too wide"),
        ("*.co.uk", "too wide"),
        ("*.com.au", "too wide"),
        ("*.", "docs.example.org"),
        ("*.0.0.1", "decimal"),
        ("*.10.0.0.1", "write each address"),
        ("0.0.0.0:8080", "localhost:8080"),
        ("::ffff:0.0.0.0", "localhost:8080"),
        ("::", "localhost:8080"),
        ("a.*.example.com", "docs.example.org"),
        ("2130706433", "127.0.0.1"),
        ("0x7f000001", "127.0.0.1"),
        ("0x7F.1", "127.0.0.1"),
        ("0177.0.0.1", "127.0.0.1"),
        ("127.1", "127.0.0.1"),
        ("1.2.3.4.5", "four decimal numbers"),
        ("256.1.1.1", "four decimal numbers"),
        ("example.0x", "four decimal numbers"),
        ("[::1", "[2001:db8::1]:443"),
        ("[fe80::1%25eth0]", "[2001:db8::1]:443"),
        ("%31%32%37.0.0.1", "four decimal numbers"),
        ("docs%2eexample.org", "docs.example.org"),
        ("１２７.0.0.1", "127.0.0.1"),
        ("münchen.example", "xn--mnchen-3ya.example"),
        ("\u0430pple.example", "xn--"),
        ("https://docs.example.org/x", "name of the host"),
        ("user@docs.example.org", "docs.example.org"),
        ("docs.example.org/x", "docs.example.org"),
        ("docs.example.org:", "number from 1"),
        ("docs.example.org:0", "number from 1"),
        ("docs.example.org:65536", "number from 1"),
        ("docs.example.org:+80", "number from 1"),
        ("docs.example.org:https", "number from 1"),
        ("docs..example.org", "docs.example.org"),
        ("-a.example.org", "docs.example.org"),
        ("a b.example.org", "docs.example.org"),
        ("docs.example.org\n", "docs.example.org"),
        ("docs.example.org..", "docs.example.org"),
        ("", "docs.example.org"),
        (".", "docs.example.org"),
        ("a" * 64 + ".org", "docs.example.org"),
        (".".join(["abcdefghi"] * 26), "docs.example.org"),
    ],
)
def test_wrong_pattern_is_refused_with_what_to_write(text: str, instead: str) -> None:
    with pytest.raises(ValueError) as refused:
        HostPattern.parse(text)
    assert instead in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "is_matched"),
    [
        ("docs.example.org", "docs.example.org", 443, True),
        ("docs.example.org", "DOCS.example.org.", 80, True),
        ("docs.example.org", "docs.example.org", 22, True),
        ("docs.example.org", "docs.example.org", 8443, False),
        ("docs.example.org:8443", "docs.example.org", 8443, True),
        ("docs.example.org:8443", "docs.example.org", 443, False),
        ("docs.example.org", "a.docs.example.org", 443, False),
        ("docs.example.org", "example.org", 443, False),
        ("docs.example.org", "docs.example.org.evil.test", 443, False),
        ("*.example.com", "a.example.com", 443, True),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "badexample.com", 443, False),
        ("*.example.com", ".example.com", 443, False),
        ("127.0.0.1:80", "::ffff:127.0.0.1", 80, True),
        ("127.0.0.1:80", "2130706433", 80, False),
        ("localhost:80", "127.0.0.1", 80, False),
    ],
)
def test_pattern_matches_its_hosts_and_ports(
    pattern: str, host: str, port: int, is_matched: bool
) -> None:
    assert HostPattern.parse(pattern).matches(host, port) is is_matched


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.9.9.9", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("2002:7f00:1::", "loopback"),
        ("10.0.0.1", "private"),
        ("172.16.0.1", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("fd00::1", "private"),
        ("64:ff9b::a00:1", "private"),
        ("169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("::ffff:169.254.169.254", "link-local"),
        ("0.0.0.0", "unspecified"),
        ("::", "unspecified"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "reserved"),
        ("93.184.215.14", ""),
        ("2606:4700:4700::1111", ""),
        ("64:ff9b::5db8:d70e", ""),
    ],
)
def test_address_is_public_or_has_a_reason(address: str, kind: str) -> None:
    reason = why_unreachable(address)
    assert kind in reason
    assert bool(reason) is bool(kind)


@given(st.text(max_size=80))
@examples(200)
def test_any_text_is_canonical_or_refused(text: str) -> None:
    try:
        host = parse_host(text)
    except ValueError:
        return
    assert parse_host(host) == host
    assert HostPattern.parse(host).matches(text, 443)


@given(st.ip_addresses(v=6).map(IPv6Address.__str__))
@examples(100)
def test_address_has_one_spelling(address: str) -> None:
    host = parse_host(address)
    assert parse_host(f"[{IPv6Address(address).exploded.upper()}]") == host
