"""The user's ssh agent, for commands that may ask it for signatures.

Each such command has its own socket, which only it can see, from its start to its end. Two kinds of
requests pass: to list the public keys, and to sign. Nothing can be added, removed or locked. Each
signature is judged by what it is for. A login names its server, which the agent has verified.
"""

import asyncio
import hmac
import socket
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import field
from functools import partial
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

from agentcli.sandbox.environment import build_agent_variables
from agentcli.system.byte_fields import ByteFields
from agentcli.system.plain_text import show_controls
from agentcli.system.temporary import ShortDirectory, create_short_directory
from agentcli.types.events import Emit, SignatureJudged
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.sandbox import CommandChannels
from agentcli.types.verdicts import JudgeSignature, SignatureRequest, Verdict

_MOST_BYTES = 256 * 1024
"""The largest message that OpenSSH accepts."""
_MOST_CONNECTIONS = 16
"""At the same time, for each command."""
_MOST_SERVERS = 32
_MOST_COMMENT_CHARS = 80
_FINGERPRINT_CHARS = 43
_LIST_KEYS, _KEYS, _SIGN, _EXTENSION = 11, 12, 13, 27
_FAILURE, _SUCCESS = bytes((5,)), 6
_BIND = b"session-bind@openssh.com"
_LOGIN = 50
_PUBLIC_KEY = (b"publickey", b"publickey-hostbound-v00@openssh.com")
_SIGNED_DATA = b"SSHSIG"

NO_SOCKETS = (
    "credentials: the ssh agent cannot be reached in this sandbox; that needs bubblewrap,"
    " or outside"
)
NO_AGENT = "credentials: there is no ssh agent of the user (SSH_AUTH_SOCK names none)"

FindReached = Callable[[], Iterable[tuple[str, int]] | None]
"""Returns the hosts and ports that a command was let through to; None if it reaches all."""


@dataclass(frozen=True, slots=True)
class SshAgent:
    socket: Path
    known_hosts: str
    """The text of the user's known_hosts; empty if there is none."""


class AgentBrokers:
    """The sockets of all commands. Everything is called in the thread of the event loop."""

    def __init__(
        self,
        *,
        find_agent: Callable[[], SshAgent | None],
        judge: JudgeSignature,
        emit: Emit,
        workspace: Path,
        can_connect: bool,
    ) -> None:
        """`can_connect` is false in a sandbox whose commands reach no socket of ours."""
        self._find_agent = find_agent
        self._judge = judge
        self._emit = emit
        self._workspace = workspace
        self._can_connect = can_connect
        self._directory: ShortDirectory | None = None
        self._brokers: dict[str, _AgentBroker] = {}
        self._obstacles: dict[str, str] = {}

    def open(self, token: str, grants: Grants) -> CommandChannels:
        """Return what a command that may use the agent needs to find its socket."""
        agent = self._find_agent() if self._can_connect else None
        if agent is None:
            self._obstacles[token] = NO_AGENT if self._can_connect else NO_SOCKETS
            return CommandChannels()
        self._directory = self._directory or create_short_directory(workspace=self._workspace)
        if self._directory is None:
            self._obstacles[token] = NO_SOCKETS
            return CommandChannels()
        directory = self._directory.path / token[:8]
        directory.mkdir(mode=0o700)
        known = directory / "known_hosts"
        known.write_text(agent.known_hosts, encoding="utf-8")
        self._brokers[token] = broker = _AgentBroker(agent, directory)
        return CommandChannels(
            variables=build_agent_variables(
                broker.path, known_hosts=known, is_proxied=not grants.network
            ),
            readable=(broker.path, known),
        )

    def begin(self, token: str, *, call_id: str, find_reached: FindReached) -> None:
        if broker := self._brokers.get(token):
            broker.begin(partial(self._judge_once, call_id), find_reached)

    def end(self, token: str) -> tuple[str, ...]:
        """Close the socket of a command. Return sentences for the model on what was refused."""
        if obstacle := self._obstacles.pop(token, ""):
            return (obstacle,)
        broker = self._brokers.pop(token, None)
        return broker.close() if broker else ()

    def close(self) -> None:
        for token in tuple(self._brokers):
            self.end(token)
        if self._directory is not None:
            self._directory.close()
            self._directory = None

    async def _judge_once(self, call_id: str, request: SignatureRequest) -> Verdict:
        verdict = await self._judge(call_id, request)
        self._emit(
            SignatureJudged(
                call_id=call_id, key=request.key, purpose=request.purpose, verdict=verdict
            )
        )
        return verdict


class _AgentBroker:
    """The socket of one command."""

    def __init__(self, agent: SshAgent, directory: Path) -> None:
        self.path = directory / "agent"
        self._agent = agent
        self._directory = directory
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._serving: asyncio.Task[None] | None = None
        self._server: asyncio.AbstractServer | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._refused: dict[str, str] = {}

    def begin(
        self, judge: Callable[[SignatureRequest], Awaitable[Verdict]], find_reached: FindReached
    ) -> None:
        serve = self._serve(judge, find_reached)
        self._serving = asyncio.get_running_loop().create_task(serve)

    def close(self) -> tuple[str, ...]:
        if self._serving:
            self._serving.cancel()
        if self._server:
            self._server.close()
        else:
            self._listener.close()
        for task, writer in self._connections.items():
            writer.transport.abort()
            task.cancel()
        rmtree(self._directory, ignore_errors=True)
        return tuple(self._refused.values())

    async def _serve(
        self, judge: Callable[[SignatureRequest], Awaitable[Verdict]], find_reached: FindReached
    ) -> None:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if len(self._connections) >= _MOST_CONNECTIONS:
                writer.close()
                return
            talk = self._talk(reader, writer, judge=judge, find_reached=find_reached)
            task = asyncio.get_running_loop().create_task(talk)
            self._connections[task] = writer
            task.add_done_callback(self._connections.pop)

        self._server = await asyncio.start_unix_server(
            accept, sock=self._listener, start_serving=False
        )
        await self._server.serve_forever()

    async def _talk(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        judge: Callable[[SignatureRequest], Awaitable[Verdict]],
        find_reached: FindReached,
    ) -> None:
        with closing(writer), suppress(OSError, EOFError, ValueError):
            # It ends if the program leaves, or does not speak the protocol of agents.
            streams = await asyncio.open_unix_connection(str(self._agent.socket))
            talk = _Conversation(self._agent, streams, judge, find_reached, self._refused)
            with closing(streams[1]):
                while True:
                    writer.write(_frame(await talk.answer(await _read_message(reader))))
                    await writer.drain()


@dataclass(slots=True)
class _Conversation:
    """One connection of a program, with its own connection to the agent behind it."""

    agent: SshAgent
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    judge: Callable[[SignatureRequest], Awaitable[Verdict]]
    find_reached: FindReached
    refused: dict[str, str]
    comments: dict[bytes, str] = field(default_factory=dict)
    servers: dict[bytes, bytes] = field(default_factory=dict)
    """The key of the server of each session, as the agent has verified it."""

    async def answer(self, message: bytes) -> bytes:
        kind, fields = message[0], ByteFields(message[1:])
        if kind == _LIST_KEYS:
            return await self._list_keys(message)
        if kind == _SIGN:
            return await self._sign(message, fields)
        if kind == _EXTENSION and fields.take_string() == _BIND:
            return await self._bind(message, fields)
        return _FAILURE

    async def _list_keys(self, message: bytes) -> bytes:
        answer = await self._ask_agent(message)
        fields = ByteFields(answer[1:])
        if answer[0] == _KEYS:
            for _ in range(fields.take_number(4)):
                blob = fields.take_string()
                self.comments[blob] = fields.take_string().decode("utf-8", "replace")
        return answer

    async def _bind(self, message: bytes, fields: ByteFields) -> bytes:
        server, session = fields.take_string(), fields.take_string()
        fields.take_string()  # the server's signature, which the agent verifies
        is_forwarding = fields.take(1) != b"\0"
        if is_forwarding or len(self.servers) >= _MOST_SERVERS:
            return _FAILURE
        answer = await self._ask_agent(message)
        if answer[0] == _SUCCESS:
            self.servers[session] = server
        return answer

    async def _sign(self, message: bytes, fields: ByteFields) -> bytes:
        blob, data = fields.take_string(), fields.take_string()
        purpose, is_expected = self._describe(blob, data)
        request = SignatureRequest(
            key=self._describe_key(blob), purpose=purpose, is_expected=is_expected
        )
        verdict = await self.judge(request)
        if verdict.decision == "allow":
            return await self._ask_agent(message)
        said = f"credentials: the ssh agent did not {purpose}: {verdict.reason}"
        self.refused.setdefault(purpose, said)
        return _FAILURE

    def _describe_key(self, blob: bytes) -> str:
        kind = ByteFields(blob).take_string().decode("ascii", "replace")
        comment = show_controls(self.comments.get(blob, ""))[:_MOST_COMMENT_CHARS]
        return f"{show_controls(kind)} {compute_fingerprint(blob)}{f' ({comment})' * bool(comment)}"

    def _describe(self, blob: bytes, data: bytes) -> tuple[str, bool]:
        """Return what a signature is for, and whether that is a login that the grant is meant for.

        That is one at a server that the command was let through to, as far as anybody can know."""
        if data.startswith(_SIGNED_DATA):
            name = ByteFields(data[len(_SIGNED_DATA) :]).take_string().decode("utf-8", "replace")
            return f"sign data for {show_controls(name)}", False
        login = _parse_login(blob, data)
        if login is None:
            return "sign data of an unknown kind", False
        user = show_controls(login.user)
        server = self.servers.get(login.session)
        if server is None or login.server not in (b"", server):
            return f"log in as {user} at a server that ssh did not prove", False
        names = KnownHosts(self.agent.known_hosts).find_names(server)
        reached = self.find_reached()
        if names is None:
            return f"log in as {user} at an unknown server ({compute_fingerprint(server)})", True
        at = [one for one in reached or () if any(name.matches(*one) for name in names)]
        shown = at[0][0] if at else " or ".join(map(str, names[:3]))
        return f"log in as {user} at {shown}", reached is None or bool(at)

    async def _ask_agent(self, message: bytes) -> bytes:
        reader, writer = self.streams
        writer.write(_frame(message))
        return await _read_message(reader)


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    """Raise ValueError if it is too long, EOFError if it does not come."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    if not 0 < size <= _MOST_BYTES:
        raise ValueError("not a message of an ssh agent")
    return await reader.readexactly(size)


def _frame(message: bytes) -> bytes:
    return len(message).to_bytes(4, "big") + message


def compute_fingerprint(blob: bytes) -> str:
    shown = b64encode(sha256(blob).digest()).decode()[:_FINGERPRINT_CHARS]
    return f"SHA256:{shown}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Login:
    """What is signed to log in (RFC 4252, section 7)."""

    session: bytes
    user: str
    server: bytes
    """The key of the server, if the client names it."""


def _parse_login(blob: bytes, data: bytes) -> _Login | None:
    fields = ByteFields(data)
    with suppress(ValueError):
        session = fields.take_string()
        is_login = fields.take(1)[0] == _LOGIN
        user, service, method = (fields.take_string() for _ in range(3))
        has_key = fields.take(1) == b"\1"
        fields.take_string()  # the algorithm
        is_same_key = fields.take_string() == blob
        server = fields.take_string() if method == _PUBLIC_KEY[1] else b""
        is_known = service == b"ssh-connection" and method in _PUBLIC_KEY and not fields
        if is_login and has_key and is_same_key and is_known:
            return _Login(session=session, user=user.decode("utf-8", "replace"), server=server)
    return None


# The user's known_hosts: which names a server's key belongs to


_SSH_PORT = 22
_HASHED = "|1|"


@dataclass(frozen=True, slots=True)
class KnownName:
    """A name in known_hosts, as written: plain, or as a hash."""

    written: str

    def matches(self, host: str, port: int) -> bool:
        shown = host if port == _SSH_PORT else f"[{host}]:{port}"
        if not self.written.startswith(_HASHED):
            return self.written.lower() == shown
        salt, _, expected = self.written.removeprefix(_HASHED).partition("|")
        with suppress(ValueError):
            found = hmac.digest(b64decode(salt), shown.encode(), "sha1")
            return hmac.compare_digest(found, b64decode(expected))
        return False

    def __str__(self) -> str:
        is_hashed = self.written.startswith(_HASHED)
        return "another server of your known_hosts" if is_hashed else show_controls(self.written)


class KnownHosts:
    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()

    def find_names(self, server: bytes) -> list[KnownName] | None:
        """Return the names of the server with this key, or None if the key is in no line."""
        key = b64encode(server).decode()
        names = [name for names, found in self._iter_keys() if found == key for name in names]
        return names or None

    def _iter_keys(self) -> Iterator[tuple[list[KnownName], str]]:
        """Yield the names and the key of each line; not those of revoked keys and authorities."""
        for line in self._lines:
            words = line.split()
            if len(words) >= 3 and not words[0].startswith(("#", "@")):
                yield [KnownName(name) for name in words[0].split(",")], words[2]
