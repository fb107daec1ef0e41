"""The agent's side of the Agent Client Protocol: the methods that an editor can call."""

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from acp import PROTOCOL_VERSION, RequestError
from acp.helpers import ContentBlock
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    AuthMethodAgent,
    ClientCapabilities,
    CloseSessionResponse,
    ForkSessionResponse,
    HttpMcpServer,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    McpServerStdio,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionForkCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
)

from agentcli import __version__
from agentcli.features.acp.conversation import Conversation
from agentcli.features.acp.options import (
    build_config_options,
    build_modes,
    parse_mode,
    set_config_option,
)
from agentcli.features.acp.updates import build_failure, build_invalid_params
from agentcli.log.paths import SessionPaths
from agentcli.log.reader import read_valid_part
from agentcli.log.sessions import SessionSummary, copy_session, find_session_by_id, list_sessions
from agentcli.session.model import open_model
from agentcli.types.errors import AgentError, UsageError
from agentcli.types.settings import Settings

# The MCP servers an editor brings along, written to a file like the user's own


NAME_CHARS = 32


@contextmanager
def write_servers_file(servers: Sequence[Any]) -> Iterator[Path | None]:
    """Write the servers to a file for as long as a session needs to read it.

    It is temporary because it may contain keys. Raise RequestError for a kind of server that we did
    not offer to take."""
    if not servers:
        yield None
        return
    table = {_clean_name(server.name): _build_entry(server) for server in servers}
    with TemporaryDirectory(prefix="agentcli-acp-") as directory:
        path = Path(directory, "mcp.json")
        path.write_text(json.dumps({"mcpServers": table}), encoding="utf-8")
        yield path


def _build_entry(server: Any) -> dict[str, Any]:
    match server:
        case McpServerStdio():
            env = {variable.name: variable.value for variable in server.env}
            return {"command": server.command, "args": server.args, "env": env}
        case HttpMcpServer():
            headers = {header.name: header.value for header in server.headers}
            return {"type": "http", "url": server.url, "headers": headers}
        case _:
            raise build_invalid_params(
                f"the MCP server {server.name} speaks neither stdio nor HTTP"
            )


def _clean_name(text: str) -> str:
    """Return a valid server name: an editor's may be anything, and tools are called by it."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:NAME_CHARS].rstrip("-") or "server"


LISTED = 100

LoadSettings = Callable[[Path], Settings]


class EditorAgent:
    def __init__(self, load_settings: LoadSettings) -> None:
        """`load_settings` returns the settings of a workspace, or raises AgentError."""
        self._load_settings = load_settings
        self._client: Client | None = None
        self._capabilities: ClientCapabilities | None = None
        self._open: dict[str, Conversation] = {}

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        **_: Any,
    ) -> InitializeResponse:
        self._capabilities = client_capabilities
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name="agentcli", title="agentcli", version=__version__),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                mcp_capabilities=McpCapabilities(http=True),
                prompt_capabilities=PromptCapabilities(embedded_context=True, image=True),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(),
                    resume=SessionResumeCapabilities(),
                    close=SessionCloseCapabilities(),
                    fork=SessionForkCapabilities(),
                ),
            ),
            auth_methods=[
                AuthMethodAgent(
                    id="environment",
                    name="API key",
                    description="Run agentcli login in a terminal, or give your editor a key such "
                    "as ANTHROPIC_API_KEY and restart it.",
                )
            ],
        )

    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse:
        """Succeed if there is a key now. Raise RequestError if there is none."""
        try:
            open_model(self._load_settings(Path()))
        except AgentError as error:
            raise build_failure(error) from error
        return AuthenticateResponse()

    async def new_session(
        self, cwd: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> NewSessionResponse:
        conversation = self._open_session(self._load_workspace_settings(cwd), mcp_servers)
        return NewSessionResponse(session_id=conversation.id, **_build_state(conversation))

    async def load_session(
        self, cwd: str, session_id: str, *, mcp_servers: list[Any] | None = None, **_: Any
    ) -> LoadSessionResponse:
        conversation = await self._reopen_session(cwd, session_id, mcp_servers=mcp_servers)
        await conversation.send_past()
        return LoadSessionResponse(**_build_state(conversation))

    async def resume_session(
        self, cwd: str, session_id: str, *, mcp_servers: list[Any] | None = None, **_: Any
    ) -> ResumeSessionResponse:
        """Resume a session for an editor that still has the conversation."""
        conversation = await self._reopen_session(cwd, session_id, mcp_servers=mcp_servers)
        return ResumeSessionResponse(**_build_state(conversation))

    async def fork_session(
        self, cwd: str, session_id: str, *, mcp_servers: list[Any] | None = None, **_: Any
    ) -> ForkSessionResponse:
        """Open a new session that begins as another one, with the same files."""
        origin = find_session_by_id(session_id)
        if origin is None:
            raise _build_not_found_error(session_id)
        settings = self._load_workspace_settings(cwd)
        try:
            entries = await asyncio.to_thread(lambda: read_valid_part(origin.log).entries)
            copy = await asyncio.to_thread(copy_session, origin, entries, len(entries))
        except AgentError as error:
            raise build_failure(error) from error
        conversation = self._open_session(settings, mcp_servers, resume=copy)
        return ForkSessionResponse(session_id=conversation.id, **_build_state(conversation))

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        """Close a session, so that another program can continue it."""
        conversation = self._find_conversation(session_id)
        del self._open[session_id]
        await conversation.close()
        return CloseSessionResponse()

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> ListSessionsResponse:
        found = await asyncio.to_thread(_list_stored_sessions, cwd)
        return ListSessionsResponse(
            sessions=[
                SessionInfo(
                    session_id=one.id,
                    cwd=one.workspace,
                    title=one.title or None,
                    updated_at=one.last or None,
                )
                for one in found
            ]
        )

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> None:
        self._find_conversation(session_id).session.set_mode(parse_mode(mode_id))

    async def set_config_option(
        self, config_id: str, session_id: str, *, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse:
        """Choose the model of a session, or how much it thinks."""
        session = self._find_conversation(session_id).session
        try:
            await set_config_option(session, config_id, value=value)
        except AgentError as error:
            raise build_failure(error) from error
        return SetSessionConfigOptionResponse(config_options=build_config_options(session))

    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: Any) -> PromptResponse:
        return await self._find_conversation(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._find_conversation(session_id).cancel()

    async def close(self) -> None:
        """Close all sessions, so that nothing they have started is left running."""
        while self._open:
            _, conversation = self._open.popitem()
            await conversation.close()

    async def _reopen_session(
        self, cwd: str, session_id: str, *, mcp_servers: list[Any] | None
    ) -> Conversation:
        paths = find_session_by_id(session_id)
        if paths is None:
            raise _build_not_found_error(session_id)
        settings = self._load_workspace_settings(cwd)
        if session_id in self._open:
            await self._open.pop(session_id).close()
        return self._open_session(settings, mcp_servers, resume=paths)

    def _open_session(
        self,
        settings: Settings,
        mcp_servers: list[Any] | None,
        *,
        resume: SessionPaths | None = None,
    ) -> Conversation:
        assert self._client is not None
        try:
            with write_servers_file(mcp_servers or ()) as path:
                conversation = Conversation(
                    self._client,
                    replace(settings, mcp_config=path),
                    capabilities=self._capabilities,
                    resume=resume,
                )
        except AgentError as error:
            raise build_failure(error) from error
        self._open[conversation.id] = conversation
        return conversation

    def _load_workspace_settings(self, cwd: str) -> Settings:
        try:
            return self._load_settings(_parse_cwd(cwd))
        except UsageError as error:
            raise build_invalid_params(
                str(error)
            ) from error  # its hint is for users of the command line
        except AgentError as error:
            raise build_failure(error) from error

    def _find_conversation(self, session_id: str) -> Conversation:
        if session_id not in self._open:
            raise _build_not_found_error(session_id)
        return self._open[session_id]


def _parse_cwd(cwd: str) -> Path:
    """Return the directory. Raise RequestError if this cannot be the path of one."""
    try:
        is_name = b"\0" not in os.fsencode(cwd)
    except UnicodeEncodeError:
        is_name = False
    if not is_name or not Path(cwd).is_absolute():
        raise build_invalid_params(f"cwd must be the absolute path of a directory, not {cwd!a}")
    return Path(cwd)


def _build_not_found_error(session_id: str) -> RequestError:
    return build_invalid_params(f"no session {session_id!a}")


def _list_stored_sessions(cwd: str | None) -> list[SessionSummary]:
    found = list_sessions(workspace=Path(os.path.realpath(_parse_cwd(cwd))) if cwd else None)
    return [one for one in found if one.turns][:LISTED]


def _build_state(conversation: Conversation) -> dict[str, Any]:
    """Return the modes and options of an opened session, and let its commands follow."""
    conversation.announce_commands()
    session = conversation.session
    return {"modes": build_modes(session), "config_options": build_config_options(session)}
