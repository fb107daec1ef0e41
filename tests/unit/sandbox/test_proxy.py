import asyncio
import resource
import shutil
import socketserver
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from agentcli.sandbox.proxy_route import FindUpstream, UpstreamProxy
from agentcli.types.grants import Grants
from agentcli.types.verdicts import Verdict
from tests.support.internet import (
    DOCS,
    DOCS_AT,
    OTHER,
    OTHER_AT,
    PRIVATE_AT,
    Trial,
    ask,
    greet_tls,
    name_socks,
    try_proxy,
)
from tests.support.proxy import Proxy
from tests.support.serving import serve

MayReach = Callable[[str, int], Awaitable[bool]]


def test_granted_host_is_reached_by_plain_http() -> None:
    async def scenario(trial: Trial) -> None:
        server = await trial.serve("docs", DOCS_AT)
        token = trial.lease(DOCS)
        answer = await trial.get(
            f"http://{DOCS}/a?b#c", token, "X-Own: 1", "Connection: keep-alive"
        )
        assert answer.endswith("hello from docs")
        assert "\r\nConnection: close\r\n" in answer and "keep-alive" not in answer
        lines = server.received.decode().split("\r\n")
        assert lines[:2] == ["GET /a?b HTTP/1.1", f"Host: {DOCS}"]
        assert "X-Own: 1" in lines
        assert lines[-3:] == ["Connection: close", "", ""]
        assert not any(token in line or "Proxy-" in line for line in lines)
        assert trial.judged == [(DOCS, 80, "allow")]
        assert trial.proxy.end(token) == ()

    try_proxy(scenario)


def test_granted_host_is_reached_by_connect_and_by_socks() -> None:
    async def scenario(trial: Trial) -> None:
        await trial.serve("docs", DOCS_AT, 443)
        token = trial.lease(DOCS)
        head, streams = await trial.tunnel(f"{DOCS}:443", token)
        assert head.startswith("HTTP/1.1 200 ")
        assert (await ask(streams, DOCS)).endswith("hello from docs")
        code, streams = await trial.socks(name_socks(DOCS), 443, token)
        assert code == 0
        assert (await ask(streams, DOCS)).endswith("hello from docs")
        assert trial.judged == [(DOCS, 443, "allow")]

    try_proxy(scenario)


ATTEMPTS = {
    "another name for the same address": "alias.example.org:443",
    "the address of the granted host": f"{DOCS_AT}:443",
    "the address as one number": "1572395790:443",
    "the address in hexadecimal": "0x5db8d70e:443",
    "the address in octal": "0135.0270.0327.016:443",
    "the address as IPv6": f"[::ffff:{DOCS_AT}]:443",
    "another host": f"{OTHER}:443",
    "a host below the granted one": f"a.{DOCS}:443",
    "a port that was not granted": f"{DOCS}:8443",
    "a name with an encoded dot": "docs%2eexample.org:443",
    "a name with a user": f"{DOCS}@{OTHER}:443",
    "a name with a zero byte": f"{DOCS}\0.{OTHER}:443",
    "loopback of the machine": "127.0.0.1:443",
    "loopback by name": "localhost:443",
    "all addresses": "0.0.0.0:443",
    "no port": DOCS,
    "port zero": f"{DOCS}:0",
    "a port that is too large": f"{DOCS}:65979",
}


@pytest.mark.parametrize("target", ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_nothing_else_is_reached_by_connect(target: str) -> None:
    async def scenario(trial: Trial) -> None:
        trial.internet.names |= {"alias.example.org": [DOCS_AT], f"a.{DOCS}": [DOCS_AT]}
        await trial.serve("other", OTHER_AT, 443)
        await trial.serve("docs", DOCS_AT, 443)
        head, _ = await trial.tunnel(target, trial.lease(DOCS))
        assert head.startswith(("HTTP/1.1 403 ", "HTTP/1.1 400 "))
        assert trial.internet.dialed == []
        assert trial.internet.resolved == []

    try_proxy(scenario)


@pytest.mark.parametrize(
    "target",
    [
        *(name_socks(name) for name in (OTHER, DOCS_AT, "127.1", "2130706433", "localhost", "")),
        b"\x01" + bytes((127, 0, 0, 1)),
        b"\x01" + bytes(map(int, DOCS_AT.split("."))),
        b"\x04" + bytes(15) + b"\x01",
        b"\x04" + bytes(10) + b"\xff\xff" + bytes(map(int, DOCS_AT.split("."))),
    ],
    ids=repr,
)
def test_nothing_else_is_reached_by_socks(target: bytes) -> None:
    async def scenario(trial: Trial) -> None:
        code, _ = await trial.socks(target, 443, trial.lease(DOCS))
        assert code != 0
        assert trial.internet.dialed == []

    try_proxy(scenario)


@pytest.mark.parametrize(
    "url",
    [
        f"http://{OTHER}/",
        f"http://{DOCS}@{OTHER}/",
        f"http://{OTHER}#@{DOCS}/",
        f"http://{OTHER}?@{DOCS}/",
        f"http://{OTHER}\\@{DOCS}/",
        f"http://{DOCS_AT}/",
        f"https://{DOCS}/",
        f"ftp://{DOCS}/",
        f"//{DOCS}/",
        "/",
        "*",
        "http:///",
    ],
)
def test_nothing_else_is_reached_by_plain_http(url: str) -> None:
    async def scenario(trial: Trial) -> None:
        await trial.serve("other", OTHER_AT)
        answer = await trial.get(url, trial.lease(DOCS))
        assert answer.startswith(("HTTP/1.1 403 ", "HTTP/1.1 400 "))
        assert trial.internet.dialed == []

    try_proxy(scenario)


@pytest.mark.parametrize(
    "line",
    ["X: a\nHost: other.example.net", "X: a\rHost: b", " Host: b", "no field", "X : a", "X: a\0"],
)
def test_header_that_another_server_could_read_differently_is_refused(line: str) -> None:
    async def scenario(trial: Trial) -> None:
        answer = await trial.get(f"http://{DOCS}/", trial.lease(DOCS), line)
        assert answer.startswith("HTTP/1.1 400 ")
        assert trial.internet.dialed == []

    try_proxy(scenario)


def test_redirect_to_another_host_is_not_followed_there() -> None:
    async def scenario(trial: Trial) -> None:
        await trial.serve("docs", DOCS_AT, to=f"http://{OTHER}/")
        other = await trial.serve("other", OTHER_AT)
        token = trial.lease(DOCS)
        answer = await trial.get(f"http://{DOCS}/", token)
        assert f"Location: http://{OTHER}/" in answer
        assert "403 Forbidden" in await trial.get(f"http://{OTHER}/", token)
        assert other.received == b""

    try_proxy(scenario)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("fe80::1%eth0", "not resolved"),
        ("0.0.0.0", "unspecified"),
        (PRIVATE_AT, "private"),
        ("fec0::2", "private"),
        ("64:ff9b::a00:5", "private"),
    ],
)
def test_granted_name_does_not_lead_into_the_private_network(address: str, kind: str) -> None:
    async def scenario(trial: Trial) -> None:
        trial.internet.names[DOCS] = [address]
        token = trial.lease(DOCS)
        answer = await trial.get(f"http://{DOCS}/", token)
        assert answer.startswith(("HTTP/1.1 403 ", "HTTP/1.1 502 "))
        assert trial.internet.dialed == []
        (told,) = trial.proxy.end(token)
        assert kind in told

    try_proxy(scenario)


def test_name_that_changes_its_address_is_checked_each_time_and_resolved_once() -> None:
    async def scenario(trial: Trial) -> None:
        await trial.serve("docs", DOCS_AT)
        token = trial.lease(DOCS)
        assert "hello" in await trial.get(f"http://{DOCS}/", token)
        assert trial.internet.resolved == [DOCS]
        trial.internet.names[DOCS] = ["127.0.0.1"]
        assert "403" in await trial.get(f"http://{DOCS}/", token)
        trial.internet.names[DOCS] = ["127.0.0.1", DOCS_AT]
        assert "hello" in await trial.get(f"http://{DOCS}/", token)
        assert trial.internet.dialed == [(DOCS_AT, 80)] * 2

    try_proxy(scenario)


OWN_ADDRESS = f"""
import asyncio
from agentcli.sandbox.proxy_route import dial_directly

async def look(address):
    server = await asyncio.start_server(lambda _, writer: writer.close(), address, 8080)
    try:
        _, writer = await dial_directly(address, 8080)
        print("reached", address)
        writer.close()
    except OSError as error:
        print(error.strerror)
    server.close()

asyncio.run(look("{DOCS_AT}"))
asyncio.run(look("127.0.0.1"))
"""


def test_name_does_not_lead_to_a_public_address_of_this_machine() -> None:
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        pytest.skip("not installed: ip, unshare")
    steps = f'ip link set lo up && ip addr add {DOCS_AT}/32 dev lo && exec "$@"'
    argv = ["unshare", "-rn", "sh", "-c", steps, "sh", sys.executable, "-c", OWN_ADDRESS]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    if "unshare failed" in ran.stderr or "RTNETLINK" in ran.stderr:
        pytest.skip("no network of our own can be made here")
    assert ran.stdout.splitlines() == [
        f"{DOCS_AT} is this machine; grant localhost:8080 instead",
        "reached 127.0.0.1",
    ], ran.stderr


def test_private_address_is_reached_if_it_is_granted_too() -> None:
    async def scenario(trial: Trial) -> None:
        trial.internet.names["git.example.com"] = [PRIVATE_AT]
        await trial.serve("inside", PRIVATE_AT)
        token = trial.lease("git.example.com")
        assert "403" in await trial.get("http://git.example.com/", token)
        assert trial.proxy.end(token) == (
            f"network: git.example.com:80 was refused: it is at {PRIVATE_AT}, a private address;"
            f" ask with needs network:{PRIVATE_AT}",
        )
        token = trial.lease("git.example.com", PRIVATE_AT)
        assert "hello from inside" in await trial.get("http://git.example.com/", token)

    try_proxy(scenario)


def test_loopback_is_reached_by_its_own_name_on_the_granted_port() -> None:
    async def scenario(trial: Trial) -> None:
        await trial.serve("mine", "127.0.0.1", 8080)
        token = trial.lease("localhost:8080")
        assert "hello from mine" in await trial.get("http://localhost:8080/", token)
        assert "403" in await trial.get("http://localhost:8081/", token)
        assert "403" in await trial.get("http://127.0.0.1:8080/", token)
        assert trial.internet.resolved == []

    try_proxy(scenario)


def test_host_without_ipv4_and_host_whose_first_address_is_dead_are_reached() -> None:
    async def scenario(trial: Trial) -> None:
        six = "2606:4700:4700::1111"
        await trial.serve("docs", six)
        trial.internet.names[DOCS] = [six]
        token = trial.lease(DOCS)
        assert "hello" in await trial.get(f"http://{DOCS}/", token)
        trial.internet.names[DOCS] = [DOCS_AT, six]
        assert "hello" in await trial.get(f"http://{DOCS}/", token)

    try_proxy(scenario)


async def _send_hello(trial: Trial, name: str | None, *, host: str = DOCS) -> tuple[bytes, bytes]:
    """Return what the server got, and what the client got."""
    server = await trial.serve("docs", DOCS_AT, 443)
    head, (reader, writer) = await trial.tunnel(f"{host}:443", trial.lease(host))
    assert head.startswith("HTTP/1.1 200 ")
    hello = greet_tls(name)
    for start in range(0, len(hello), 100):  # in pieces, as a network would deliver it
        writer.write(hello[start : start + 100])
        await writer.drain()
    writer.write_eof()
    got = await reader.read()
    writer.close()
    return bytes(server.received), got


def test_tls_for_the_granted_host_passes_unchanged() -> None:
    async def scenario(trial: Trial) -> None:
        sent, _ = await _send_hello(trial, DOCS)
        assert DOCS.encode() in sent
        sent, _ = await _send_hello(trial, DOCS.upper())
        assert sent

    try_proxy(scenario)


@pytest.mark.parametrize("name", [OTHER, f"a.{DOCS}", "example.org", None])
def test_tls_for_another_server_name_reaches_nothing(name: str | None) -> None:
    async def scenario(trial: Trial) -> None:
        sent, got = await _send_hello(trial, name)
        assert sent == b""
        assert got.startswith(b"\x15\x03")  # an alert

    try_proxy(scenario)


def test_tls_to_a_granted_address_may_name_any_server() -> None:
    async def scenario(trial: Trial) -> None:
        sent, _ = await _send_hello(trial, OTHER, host=DOCS_AT)
        assert sent

    try_proxy(scenario)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
        b"\x16\x03\x01\x00\x06\x01\x00\x00\x02\x03\x03",
        b"\x16\x03\x01\x00\x02\x01\x00\x17\x03\x01",
        b"\x16" * 200_000,
        b"\x16\x03\x01",
    ],
    ids=["another message", "too long", "too short", "another record", "flood", "unfinished"],
)
def test_broken_tls_reaches_nothing(data: bytes) -> None:
    async def scenario(trial: Trial) -> None:
        server = await trial.serve("docs", DOCS_AT, 443)
        _, (reader, writer) = await trial.tunnel(f"{DOCS}:443", trial.lease(DOCS))
        writer.write(data)
        writer.write_eof()
        await reader.read()
        assert server.received == b""

    try_proxy(scenario)


def test_server_that_speaks_first_is_heard() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-x\r\n")
        writer.write(await reader.read(100))
        writer.close()

    async def scenario(trial: Trial) -> None:
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        trial.internet.servers[DOCS_AT, 22] = server.sockets[0].getsockname()[1]
        _, (reader, writer) = await trial.tunnel(f"{DOCS}:22", trial.lease(DOCS))
        assert await reader.readline() == b"SSH-2.0-x\r\n"
        writer.write(b"client\r\n")
        assert await reader.read() == b"client\r\n"
        writer.close()

    try_proxy(scenario)


async def _send_in_tunnel(
    trial: Trial, data: bytes, *, piece: int = 0, host: str = DOCS
) -> tuple[bytes, bytes]:
    """Return what the server got, and what the client got."""
    server = await trial.serve("docs", DOCS_AT)
    _, (reader, writer) = await trial.tunnel(f"{host}:80", trial.lease(host))
    with suppress(ConnectionError):  # it may be closed before all is sent
        for start in range(0, len(data), piece or len(data)):
            writer.write(data[start : start + (piece or len(data))])
            await writer.drain()
            await asyncio.sleep(0)
        writer.write_eof()
    got = b""
    with suppress(ConnectionError):
        while more := await reader.read(65536):
            got += more
    writer.close()
    return bytes(server.received), got


def _request(*fields: str, line: str = "GET /a HTTP/1.1") -> bytes:
    return "\r\n".join((line, *fields, "", "")).encode()


@pytest.mark.parametrize("piece", [0, 1])
def test_http_in_a_tunnel_reaches_the_granted_site_once(piece: int) -> None:
    async def scenario(trial: Trial) -> None:
        second = b"" if piece else _request(f"Host: {OTHER}", line="GET /second HTTP/1.1")
        fields = (f"Host: {DOCS.upper()}:80", "Connection: keep-alive", "X-A: b")
        sent, got = await _send_in_tunnel(trial, _request(*fields) + second, piece=piece)
        head, _, rest = sent.partition(b"\r\n\r\n")
        assert head.split(b"\r\n") == [
            *(b"GET /a HTTP/1.1", b"Host: " + DOCS.encode(), b"X-A: b", b"Connection: close"),
        ]
        assert second.startswith(rest)  # a server closes before that
        assert b"hello from docs" in got
        assert b"\r\nConnection: close\r\n" in got and b"keep-alive" not in got

    try_proxy(scenario)


@pytest.mark.parametrize(
    "data",
    [
        _request(f"Host: {OTHER}"),
        _request(f"host:{OTHER}"),
        _request(f"Host: {DOCS}", f"Host: {OTHER}"),
        _request(f"Host: {DOCS}", line=f"GET http://{OTHER}/ HTTP/1.1"),
        _request(f"Host: {DOCS}", line=f"CONNECT {OTHER}:443 HTTP/1.1"),
        b"\r\n\n\r\n" + _request(f"Host: {OTHER}"),
        _request(f"Host: {OTHER}", line="brew /a http/1.1"),
        _request(f"Host: {OTHER}", line="GET\t/a\tHTTP/1.1"),
        _request(f"Host: {OTHER}").replace(b"\r\n", b"\n"),
        _request(f"Host: {OTHER}").removesuffix(b"\r\n"),
        _request(f"Host: {OTHER}", line=" \tGET /a HTTP/1.1"),
        _request(f"Host: {OTHER}", line="a!b.c /a HTTP/1.1"),
        _request(f"Host: {OTHER}", line="7 /a HTTP/1.1"),
        _request(f"Host: {DOCS}", f" {OTHER}"),
        _request(f"Host: {DOCS}\0{OTHER}"),
        _request(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /" + b"a" * 200_000,
    ],
    ids=[
        *("another", "small letters", "two", "whole address", "proxy inside", "empty lines first"),
        *("unknown method", "tabs", "bare lines", "cut off", "blanks first", "odd method"),
        *("number as method", "folded", "nul", "none", "version 2", "flood"),
    ],
)
@pytest.mark.parametrize("piece", [0, 7], ids=["at once", "in pieces"])
def test_http_in_a_tunnel_for_another_site_reaches_nothing(data: bytes, piece: int) -> None:
    async def scenario(trial: Trial) -> None:
        sent, got = await _send_in_tunnel(trial, data, piece=piece if len(data) < 1000 else 0)
        assert sent == b""
        assert b"hello from docs" not in got

    try_proxy(scenario)


def test_refusal_in_a_tunnel_is_told_in_http_and_to_the_model() -> None:
    async def scenario(trial: Trial) -> None:
        token = trial.lease(DOCS)
        await trial.serve("docs", DOCS_AT)
        _, (reader, writer) = await trial.tunnel(f"{DOCS}:80", token)
        writer.write(_request(f"Host: {OTHER}"))
        got = await reader.read()
        assert got.startswith(b"HTTP/1.1 403 ")
        sentence = f"network: {DOCS}:80 was refused: HTTP named {OTHER} instead of {DOCS}"
        assert sentence.encode() in got
        assert trial.proxy.end(token) == (sentence,)
        writer.close()

    try_proxy(scenario)


def test_websocket_in_a_tunnel_keeps_its_upgrade_and_others_do_not() -> None:
    async def scenario(trial: Trial) -> None:
        for kind, is_kept in (("websocket", True), ("h2c", False)):
            fields = (f"Host: {DOCS}", "Connection: Upgrade", f"Upgrade: {kind}")
            sent, _ = await _send_in_tunnel(trial, _request(*fields))
            assert (b"Upgrade: websocket\r\nConnection: Upgrade, close" in sent) is is_kept
            assert (b"Upgrade" in sent) is is_kept

    try_proxy(scenario)


@pytest.mark.parametrize(
    "data",
    [
        *(b"SSH-2.0-x", b"SSH-2.0-x y\r\n", b"0032git-upload-pack /a\0", b"\0\0\0\x08"),
        *(b"EHLO a\n", b"*1\r\n$4\r\nPING\r\n", b"\r\n"),
    ],
)
def test_other_protocols_pass_a_tunnel_unchanged(data: bytes) -> None:
    async def scenario(trial: Trial) -> None:
        assert (await _send_in_tunnel(trial, data))[0] == data

    try_proxy(scenario)


def test_http_in_a_tunnel_to_a_granted_address_may_name_any_site() -> None:
    async def scenario(trial: Trial) -> None:
        data = _request(f"Host: {OTHER}")
        assert (await _send_in_tunnel(trial, data, host=DOCS_AT))[0] == data

    try_proxy(scenario)


@pytest.mark.parametrize("token", [None, "", "0" * 32])
def test_without_the_token_of_a_running_command_nothing_is_reached(token: str | None) -> None:
    async def scenario(trial: Trial) -> None:
        trial.lease(DOCS)
        answer = await trial.get(f"http://{DOCS}/", token)
        assert answer.startswith("HTTP/1.1 407 ")
        assert "Proxy-Authenticate: Basic" in answer
        head, _ = await trial.tunnel(f"{DOCS}:443", token)
        assert head.startswith("HTTP/1.1 407 ")
        code, _ = await trial.socks(name_socks(DOCS), 443, token or "")
        assert code == 2
        assert (trial.internet.dialed, trial.judged) == ([], [])

    try_proxy(scenario)


def test_socks_without_a_password_is_refused() -> None:
    async def scenario(trial: Trial) -> None:
        reader, writer = await trial.connect()
        writer.write(b"\x05\x01\x00")
        assert await reader.read() == b"\x05\xff"
        writer.close()

    try_proxy(scenario)


def test_token_ends_with_its_command_and_its_connections_are_cut() -> None:
    async def scenario(trial: Trial) -> None:
        await trial.serve("docs", DOCS_AT, 443)
        token, other = trial.lease(DOCS), trial.lease(DOCS)
        _, (reader, writer) = await trial.tunnel(f"{DOCS}:443", token)
        _, kept = await trial.tunnel(f"{DOCS}:443", other)
        trial.proxy.end(token)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        head, _ = await trial.tunnel(f"{DOCS}:443", token)
        assert head.startswith("HTTP/1.1 407 ")
        assert "hello" in await ask(kept, DOCS)

    try_proxy(scenario)


def test_command_that_ends_while_a_host_is_judged_reaches_nothing() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def judge(call_id: str, host: str, port: int, grants: Grants) -> Verdict:
        asked.set()
        await answer.wait()
        return Verdict(decision="allow", by="user", reason="")

    async def scenario(trial: Trial) -> None:
        token = trial.lease()
        waiting = asyncio.create_task(trial.tunnel(f"{DOCS}:443", token))
        await asked.wait()
        trial.proxy.end(token)
        answer.set()
        with pytest.raises((OSError, EOFError)):
            await waiting
        assert (trial.internet.dialed, trial.judged) == ([], [])

    try_proxy(scenario, judge_host=judge)


def test_each_host_is_judged_once_for_a_command_and_recorded_once() -> None:
    calls: list[tuple[str, str, int]] = []

    async def judge(call_id: str, host: str, port: int, grants: Grants) -> Verdict:
        calls.append((call_id, host, port))
        await asyncio.sleep(0)
        return Verdict(decision="allow", by="user", reason="")

    async def scenario(trial: Trial) -> None:
        await trial.serve("docs", DOCS_AT)
        token = trial.lease()
        answers = await asyncio.gather(
            *(trial.get(f"http://{DOCS}/", token) for _ in range(5)),
        )
        assert all("hello" in one for one in answers)
        assert calls == [("c1", DOCS, 80)]
        assert trial.judged == [(DOCS, 80, "allow")]
        await trial.get(f"http://{DOCS}/", trial.lease())
        assert len(calls) == 2

    try_proxy(scenario, judge_host=judge)


def test_refusal_says_what_was_refused_and_how_to_ask() -> None:
    async def scenario(trial: Trial) -> None:
        token = trial.lease(DOCS)
        answer = await trial.get(f"http://{OTHER}:8080/", token)
        sentence = (
            f"network: {OTHER}:8080 was refused: not granted; ask with needs network:{OTHER}:8080"
        )
        assert answer.startswith("HTTP/1.1 403 ")
        assert answer.endswith(f"agentcli: {sentence}\n")
        await trial.get("http://gone.example/", token)
        assert trial.judged == [(OTHER, 8080, "deny"), ("gone.example", 80, "deny")]
        assert trial.proxy.end(token)[0] == sentence

    try_proxy(scenario)


def test_many_refusals_are_told_in_few_words_and_bounded() -> None:
    async def scenario(trial: Trial) -> None:
        token = trial.lease()
        for number in range(210):
            await trial.get(f"http://h{number}.example/", token)
        told = trial.proxy.end(token)
        assert len(told) == 6
        assert len(trial.judged) == 200

    try_proxy(scenario)


def test_host_that_is_not_there_is_told() -> None:
    async def scenario(trial: Trial) -> None:
        token = trial.lease(DOCS, "gone.example")
        assert "502" in await trial.get(f"http://{DOCS}/", token)
        assert "502" in await trial.get("http://gone.example/", token)
        assert trial.proxy.end(token) == (
            f"network: {DOCS}:80 was not reached: {DOCS}:80 cannot be reached (Connection refused)",
            "network: gone.example:80 was not reached: the name gone.example was not resolved",
        )

    try_proxy(scenario)


def test_head_that_is_too_long_is_refused() -> None:
    async def scenario(trial: Trial) -> None:
        answer = await trial.get(f"http://{DOCS}/", trial.lease(DOCS), f"X: {'x' * 200_000}")
        assert answer.startswith("HTTP/1.1 400 ")

    try_proxy(scenario)


def test_strangers_do_not_use_up_the_proxy() -> None:
    async def scenario(trial: Trial) -> None:
        await trial.serve("docs", DOCS_AT)
        silent = [await trial.connect() for _ in range(300)]
        for reader, _ in silent[256:]:
            assert await reader.read() == b""
        for _, writer in silent:
            writer.close()
        token = trial.lease(DOCS)

        async def try_once() -> bool:
            try:
                return "hello" in await trial.get(f"http://{DOCS}/", token)
            except OSError:
                return False

        assert any([await try_once() for _ in range(100)])

    try_proxy(scenario)


def test_hundred_connections_at_once_are_served() -> None:
    async def scenario(trial: Trial) -> None:
        await trial.serve("docs", DOCS_AT, 443)
        token = trial.lease(DOCS)
        opened = await asyncio.gather(*(trial.tunnel(f"{DOCS}:443", token) for _ in range(100)))
        answers = await asyncio.gather(*(ask(streams, DOCS) for _, streams in opened))
        assert all("hello from docs" in one for one in answers)

    try_proxy(scenario)


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """As many open files as this machine lets a process have: users may have only 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_descriptors")
def test_one_command_has_a_bounded_number_of_connections() -> None:
    async def scenario(trial: Trial) -> None:
        await trial.serve("docs", DOCS_AT, 443)
        token = trial.lease(DOCS)
        kept = [await trial.tunnel(f"{DOCS}:443", token) for _ in range(256)]
        assert all(head.startswith("HTTP/1.1 200 ") for head, _ in kept)
        head, _ = await trial.tunnel(f"{DOCS}:443", token)
        assert head.startswith("HTTP/1.1 503 ")

    try_proxy(scenario)


def test_open_proxy_in_the_network_is_not_reached() -> None:
    async def scenario(trial: Trial) -> None:
        await trial.serve("open proxy", PRIVATE_AT, 3128)
        token = trial.lease(DOCS)
        head, _ = await trial.tunnel(f"{PRIVATE_AT}:3128", token)
        assert head.startswith("HTTP/1.1 403 ")
        assert trial.internet.dialed == []

    try_proxy(scenario)


def test_command_with_the_whole_network_gets_no_lease() -> None:
    async def scenario(trial: Trial) -> None:
        token, grants = trial.proxy.create_token(), Grants(network=True)
        trial.proxy.begin(token, call_id="c1", grants=grants)
        assert trial.proxy.open(token, grants).variables == {}
        assert "407" in await trial.get(f"http://{DOCS}/", token)

    try_proxy(scenario)


# The user's own proxy


def _use_proxy(address: str, login: str = "") -> FindUpstream:
    host, _, port = address.rpartition(":")
    upstream = UpstreamProxy(host=host, port=int(port), login=login)
    return lambda host, port, is_plain: upstream


@pytest.fixture
def web() -> Iterator[int]:
    """The port of a server that answers anything."""
    with serve(socketserver.TCPServer(("127.0.0.1", 0), _Answer)) as server:
        yield server.server_address[1]


class _Answer(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nthrough the proxy")


def test_granted_host_is_reached_through_the_users_own_proxy(web: int) -> None:
    async def scenario(trial: Trial) -> None:
        token = trial.lease(DOCS)
        assert "through the proxy" in await trial.get(f"http://{DOCS}/a", token)
        _, streams = await trial.tunnel(f"{DOCS}:443", token)
        assert "through the proxy" in await ask(streams, DOCS)
        assert "403" in await trial.get(f"http://{OTHER}/", token)
        assert trial.internet.dialed == []
        assert not any(token in head for head in theirs.heads)

    with Proxy(web) as theirs:
        try_proxy(scenario, find_upstream=_use_proxy(theirs.address, "Basic eDp5"))
    plain, tunnel = theirs.heads
    assert plain.startswith(f"GET http://{DOCS}:80/a HTTP/1.1\r\nHost: {DOCS}:80\r\n")
    assert tunnel.startswith(f"CONNECT {DOCS}:443 HTTP/1.1\r\n")
    assert all("Proxy-Authorization: Basic eDp5" in head for head in theirs.heads)


def test_users_own_proxy_resolves_names_that_the_machine_does_not_know(web: int) -> None:
    async def scenario(trial: Trial) -> None:
        token = trial.lease("far.example.org", "near.example.org")
        assert "through the proxy" in await trial.get("http://far.example.org/", token)
        trial.internet.names["near.example.org"] = ["127.0.0.1"]
        assert "403" in await trial.get("http://near.example.org/", token)

    with Proxy(web) as theirs:
        try_proxy(scenario, find_upstream=_use_proxy(theirs.address))
    assert len(theirs.heads) == 1


def test_tls_name_is_checked_before_the_users_own_proxy_too(web: int) -> None:
    async def scenario(trial: Trial) -> None:
        _, (reader, writer) = await trial.tunnel(f"{DOCS}:443", trial.lease(DOCS))
        writer.write(greet_tls(OTHER))
        assert (await reader.read()).startswith(b"\x15\x03")
        writer.close()

    with Proxy(web) as theirs:
        try_proxy(scenario, find_upstream=_use_proxy(theirs.address))


def test_users_own_proxy_that_refuses_or_is_gone_is_told(web: int) -> None:
    async def scenario(trial: Trial) -> None:
        token = trial.lease(DOCS)
        head, _ = await trial.tunnel(f"{DOCS}:443", token)
        assert head.startswith("HTTP/1.1 502 ")
        (told,) = trial.proxy.end(token)
        assert "your" in told

    with Proxy(web, refuses_with=403) as theirs:
        try_proxy(scenario, find_upstream=_use_proxy(theirs.address))
        address = theirs.address
    try_proxy(scenario, find_upstream=_use_proxy(address))


async def _answer_git(call_id: str, asked: str, may_reach: MayReach) -> str:
    return f"{asked}={[await may_reach(host, 443) for host in (DOCS, OTHER)]}\n"


async def _ask_for_credentials(trial: Trial, grants: Grants, *, size: str = "3") -> str:
    token = trial.proxy.create_token()
    trial.proxy.begin(token, call_id="c1", grants=grants)
    return await trial.get(
        "http://credentials.agentcli/", token, f"Content-Length: {size}", body="abc"
    )


def test_credentials_are_answered_for_commands_with_that_grant_alone() -> None:
    async def scenario(trial: Trial) -> None:
        granted = Grants(hosts=(DOCS,), credentials=("git",))
        answer = await _ask_for_credentials(trial, granted)
        assert answer.startswith("HTTP/1.1 200 ")
        assert answer.endswith("abc=[True, False]\n")
        everywhere = Grants(network=True, credentials=("git",))
        assert (await _ask_for_credentials(trial, everywhere)).endswith("abc=[True, True]\n")
        for grants in (Grants(hosts=(DOCS,)), Grants(hosts=(DOCS,), credentials=("gh", "npm"))):
            assert (await _ask_for_credentials(trial, grants)).startswith("HTTP/1.1 403 ")

    try_proxy(scenario, answer_git=_answer_git)


@pytest.mark.parametrize("size", ["99999", "-1", "3, 3", "x", "9999999999"])
def test_request_for_credentials_of_unclear_size_is_refused(size: str) -> None:
    async def scenario(trial: Trial) -> None:
        answer = await _ask_for_credentials(trial, Grants(credentials=("git",)), size=size)
        assert answer.startswith("HTTP/1.1 400 ")

    try_proxy(scenario, answer_git=_answer_git)


def test_tunnel_to_the_name_for_credentials_is_refused() -> None:
    async def scenario(trial: Trial) -> None:
        token = trial.proxy.create_token()
        trial.proxy.begin(token, call_id="c1", grants=Grants(credentials=("git",)))
        head, _ = await trial.tunnel("credentials.agentcli:80", token)
        assert head.startswith("HTTP/1.1 400 ")

    try_proxy(scenario, answer_git=_answer_git)
