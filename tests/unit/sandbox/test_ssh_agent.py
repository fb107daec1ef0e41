import asyncio
import base64
import hmac
import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from agentcli.sandbox.proxy import NetworkProxy
from agentcli.sandbox.proxy_service import ProxyService
from agentcli.sandbox.ssh_agent import (
    NO_SOCKETS,
    AgentBrokers,
    KnownHosts,
    KnownName,
    SshAgent,
)
from agentcli.system.byte_fields import ByteFields
from agentcli.types.events import Event, SignatureJudged
from agentcli.types.grants import Grants
from agentcli.types.verdicts import SignatureRequest, Verdict
from tests.support.ssh import Agent, run_agent

GRANTED = Grants(credentials=("ssh-agent",))
REACHED = [("code.example.org", 22)]
SERVER = b"\0\0\0\x0bssh-ed25519" + b"\0\0\0\x20" + bytes(32)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with run_agent(tmp_path / "agent") as made:
        yield made


def string(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def build_login(blob: bytes, *, session: bytes = b"session", user: str = "git") -> bytes:
    """Return what a client signs to log in."""
    names = (user.encode(), b"ssh-connection", b"publickey")
    head = string(session) + b"\x32" + b"".join(map(string, names)) + b"\1"
    return head + string(b"ssh-ed25519") + string(blob)


async def ask(at: Path, *messages: bytes) -> list[bytes]:
    """Return the answers to messages of one connection; empty bytes where it was closed."""
    reader, writer = await asyncio.open_unix_connection(str(at))
    answers = []
    for message in messages:
        writer.write(string(message))
        try:
            size = int.from_bytes(await reader.readexactly(4), "big")
            answers.append(await reader.readexactly(size))
        except (EOFError, ConnectionError):
            answers.append(b"")
    writer.close()
    return answers


class Trial:
    def __init__(self, agent: Agent, *, allows: bool = True) -> None:
        self.requests: list[SignatureRequest] = []
        self.events: list[Event] = []
        self._allows = allows
        self.brokers = AgentBrokers(
            find_agent=lambda: SshAgent(agent.socket, ""),
            judge=self._judge,
            emit=self.events.append,
            workspace=Path("/nonexistent"),
            can_connect=True,
        )

    async def _judge(self, call_id: str, request: SignatureRequest) -> Verdict:
        self.requests.append(request)
        return Verdict(decision="allow" if self._allows else "deny", by="user", reason="so be it")

    def talk(self, *messages: bytes) -> list[bytes]:
        """Return the answers of the broker to the messages of one command."""

        async def main() -> list[bytes]:
            at = Path(self.brokers.open("0123456789", GRANTED).variables["SSH_AUTH_SOCK"])
            self.brokers.begin("0123456789", call_id="c", find_reached=lambda: REACHED)
            try:
                return await ask(at, *messages)
            finally:
                self.told = self.brokers.end("0123456789")
                self.brokers.close()
                assert not at.parent.parent.exists()

        return asyncio.run(main())


def read_key(agent: Agent) -> bytes:
    return base64.b64decode(agent.key.with_suffix(".pub").read_text().split()[1])


@pytest.mark.parametrize("kind", [1, 9, 10, 14, 17, 18, 19, 20, 21, 22, 23, 25, 26, 99, 255])
def test_everything_but_listing_and_signing_is_refused(kind: int, agent: Agent) -> None:
    trial = Trial(agent)
    assert trial.talk(bytes((kind,)) + string(b"x"), b"\x0b")[0] == b"\5"
    assert agent.run("ssh-add", "-T", agent.key.with_suffix(".pub")) == 0


def test_other_extensions_are_refused(agent: Agent) -> None:
    assert Trial(agent).talk(b"\x1b" + string(b"query"), b"\x1b" + string(b"x")) == [b"\5", b"\5"]


def test_signature_is_judged_by_its_purpose_and_recorded(agent: Agent) -> None:
    blob, trial = read_key(agent), Trial(agent)
    keys, signed = trial.talk(
        b"\x0b", b"\x0d" + string(blob) + string(build_login(blob)) + b"\0\0\0\0"
    )
    assert keys[0] == 12
    assert signed[0] == 14
    (request,) = trial.requests
    assert request.key.startswith("ssh-ed25519 SHA256:")
    assert request.key.endswith("(dev@laptop)")
    assert request.purpose == "log in as git at a server that ssh did not prove"
    assert not request.is_expected
    (fact,) = trial.events
    assert isinstance(fact, SignatureJudged)
    assert (fact.call_id, fact.purpose) == ("c", request.purpose)


def test_denied_signature_is_told_once(agent: Agent) -> None:
    blob, trial = read_key(agent), Trial(agent, allows=False)
    message = b"\x0d" + string(blob) + string(build_login(blob, user="a\x1b[31m")) + b"\0\0\0\0"
    assert trial.talk(message, message) == [b"\5", b"\5"]
    (told,) = trial.told
    assert "\x1b" not in told
    assert told.endswith("so be it")


@pytest.mark.parametrize(
    "data",
    [
        b"anything",
        build_login(b"another key"),
        build_login(b"x" * 10) + b"more",
        b"",
    ],
)
def test_data_that_is_no_login_is_named_as_unknown(data: bytes, agent: Agent) -> None:
    trial = Trial(agent, allows=False)
    trial.talk(b"\x0d" + string(read_key(agent)) + string(data) + b"\0\0\0\0")
    assert trial.requests[0].purpose == "sign data of an unknown kind"


def test_server_that_the_agent_did_not_verify_and_a_forwarded_agent_are_not_bound(
    agent: Agent,
) -> None:
    blob, trial = read_key(agent), Trial(agent, allows=False)
    bind = b"\x1b" + string(b"session-bind@openssh.com") + string(SERVER) + string(b"session")
    sign = b"\x0d" + string(blob) + string(build_login(blob)) + b"\0\0\0\0"
    trial.talk(bind + string(b"no signature") + b"\0", sign, bind + string(b"x") + b"\1", sign)
    assert [one.is_expected for one in trial.requests] == [False, False]


@pytest.mark.parametrize("message", [b"\x0d", b"\x0d\xff\xff\xff\xff", b"\x0d" + string(b"")])
def test_broken_message_ends_the_connection_and_nothing_else(message: bytes, agent: Agent) -> None:
    trial = Trial(agent)
    assert trial.talk(message) == [b""]
    assert trial.requests == []


def test_message_that_is_too_long_is_not_read(agent: Agent) -> None:
    trial = Trial(agent)

    async def main() -> bytes:
        at = trial.brokers.open("t", GRANTED).variables["SSH_AUTH_SOCK"]
        trial.brokers.begin("t", call_id="c", find_reached=lambda: None)
        reader, writer = await asyncio.open_unix_connection(at)
        writer.write(b"\x7f\xff\xff\xff")
        answer = await reader.read()
        writer.close()
        trial.brokers.close()
        return answer

    assert asyncio.run(main()) == b""


def test_command_without_the_grant_and_one_outside_get_nothing(agent: Agent) -> None:
    service = partial(ProxyService, emit=lambda event: None)
    proxy = NetworkProxy(
        lambda: None, build_service=service, build_agents=lambda: Trial(agent).brokers
    )
    for grants in (Grants(network=True, credentials=("git",)), GRANTED | Grants(outside=True)):
        assert proxy.open("t", grants).variables == {}
        assert proxy.end("t") == ()
    assert "SSH_AUTH_SOCK" in proxy.open("t", GRANTED).variables
    proxy.close()


def test_sandbox_without_sockets_says_so() -> None:
    async def refuse(call_id: str, request: SignatureRequest) -> Verdict:
        raise AssertionError

    brokers = AgentBrokers(
        find_agent=lambda: None,
        judge=refuse,
        emit=lambda event: None,
        workspace=Path("/nonexistent"),
        can_connect=False,
    )
    assert brokers.open("t", GRANTED).readable == ()
    assert brokers.end("t") == (NO_SOCKETS,)


def test_socket_of_a_command_is_gone_when_it_has_ended(agent: Agent) -> None:
    trial = Trial(agent)

    async def main() -> None:
        at = trial.brokers.open("t", GRANTED).variables["SSH_AUTH_SOCK"]
        trial.brokers.begin("t", call_id="c", find_reached=lambda: None)
        reader, writer = await asyncio.open_unix_connection(at)
        writer.write(string(b"\x0b"))
        await reader.readexactly(4)
        trial.brokers.end("t")
        with pytest.raises((OSError, EOFError)):
            await reader.readexactly(1 << 20)
        with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as late:
            late.connect(at)
        writer.close()
        trial.brokers.close()

    asyncio.run(main())


def hash_name(name: str) -> str:
    salt = b"0123456789"
    found = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(found).decode()}"


@pytest.mark.parametrize(
    ("written", "host", "port", "is_it"),
    [
        ("code.example.org", "code.example.org", 22, True),
        ("code.example.org", "code.example.org", 2222, False),
        ("[code.example.org]:2222", "code.example.org", 2222, True),
        ("Code.Example.org", "code.example.org", 22, True),
        (hash_name("code.example.org"), "code.example.org", 22, True),
        (hash_name("other.example.org"), "code.example.org", 22, False),
        ("|1|broken", "code.example.org", 22, False),
        ("*.example.org", "code.example.org", 22, False),
    ],
)
def test_name_in_known_hosts(written: str, host: str, port: int, is_it: bool) -> None:
    assert KnownName(written).matches(host, port) is is_it


def test_names_of_a_key_in_known_hosts() -> None:
    key = base64.b64encode(SERVER).decode()
    lines = (
        "# a comment",
        f"a.example,b.example ssh-ed25519 {key} comment",
        f"@revoked c.example ssh-ed25519 {key}",
        "d.example ssh-ed25519 AAAA",
        "broken",
    )
    known = KnownHosts("\n".join(lines))
    assert known.find_names(SERVER) == [KnownName("a.example"), KnownName("b.example")]
    assert known.find_names(b"other") is None
    assert not ByteFields(b"")
