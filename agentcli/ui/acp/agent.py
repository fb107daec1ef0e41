"""The agent's side of the Agent Client Protocol: what an editor can ask for, method by method.

Terminals of the editor are not used: a command runs in the sandbox, which an editor does not have.
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError
from acp.helpers import ContentBlock
from acp.interfaces import Client
from acp.schema import (
    AgentCapabilities,
    CloseSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionMode,
    SessionModeState,
    SessionResumeCapabilities,
)

from agentcli import __version__
from agentcli.record.place import SessionPlace
from agentcli.record.sessions import Summary, list_sessions, session_with_id
from agentcli.settings import Settings
from agentcli.types.errors import AgentError, UsageError
from agentcli.types.verdicts import MODES, Mode
from agentcli.ui.acp.conversation import Conversation
from agentcli.ui.acp.refusals import failure, wrong
from agentcli.ui.acp.servers import servers_file

MODE_WORDS: dict[Mode, tuple[str, str]] = {
    "plan": ("Plan", "Only reads"),
    "ask": ("Ask", "Asks before it changes or runs anything"),
    "auto-edit": ("Edit", "Edits files in the workspace without asking"),
    "auto": ("Auto", "Edits, and runs commands in the sandbox, without asking"),
}
LISTED = 100

SettingsOf = Callable[[Path], Settings]


class EditorAgent:
    def __init__(self, settings_of: SettingsOf) -> None:
        """`settings_of`: of a workspace; raises AgentError."""
        self._settings_of = settings_of
        self._client: Client | None = None
        self._open: dict[str, Conversation] = {}

    def on_connect(self, conn: Client) -> None:
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> InitializeResponse:
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
                ),
            ),
        )

    async def new_session(
        self, cwd: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> NewSessionResponse:
        conversation = self._opened(self._settings(cwd), mcp_servers)
        return NewSessionResponse(session_id=conversation.id, modes=_modes(conversation))

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> LoadSessionResponse:
        conversation = await self._taken_up(cwd, session_id, mcp_servers)
        await conversation.tell_past()
        return LoadSessionResponse(modes=_modes(conversation))

    async def resume_session(
        self, cwd: str, session_id: str, mcp_servers: list[Any] | None = None, **_: Any
    ) -> ResumeSessionResponse:
        """For an editor that still has what was said."""
        conversation = await self._taken_up(cwd, session_id, mcp_servers)
        return ResumeSessionResponse(modes=_modes(conversation))

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse:
        """Whoever else wants to can go on with it."""
        conversation = self._conversation(session_id)
        del self._open[session_id]
        await conversation.close()
        return CloseSessionResponse()

    async def list_sessions(self, cwd: str | None = None, **_: Any) -> ListSessionsResponse:
        found = await asyncio.to_thread(_kept, cwd)
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
        mode = next((mode for mode in MODES if mode == mode_id), None)
        if mode is None:
            raise wrong(f"there is no mode {mode_id}; there are {', '.join(MODES)}")
        self._conversation(session_id).session.set_mode(mode)

    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: Any) -> PromptResponse:
        return await self._conversation(session_id).prompt(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        self._conversation(session_id).cancel()

    async def close(self) -> None:
        """Nothing a session has started is left running."""
        while self._open:
            _, conversation = self._open.popitem()
            await conversation.close()

    async def _taken_up(
        self, cwd: str, session_id: str, mcp_servers: list[Any] | None
    ) -> Conversation:
        place = session_with_id(session_id)
        if place is None:
            raise _no_session(session_id)
        settings = self._settings(cwd)
        if session_id in self._open:
            await self._open.pop(session_id).close()
        return self._opened(settings, mcp_servers, resume=place)

    def _opened(
        self,
        settings: Settings,
        mcp_servers: list[Any] | None,
        *,
        resume: SessionPlace | None = None,
    ) -> Conversation:
        assert self._client is not None
        try:
            with servers_file(mcp_servers or ()) as path:
                conversation = Conversation(
                    self._client, replace(settings, mcp_config=path), resume=resume
                )
        except AgentError as error:
            raise failure(error) from error
        self._open[conversation.id] = conversation
        return conversation

    def _settings(self, cwd: str) -> Settings:
        try:
            return self._settings_of(_absolute(cwd))
        except UsageError as error:
            raise wrong(str(error)) from error  # its hint is for people at a command line
        except AgentError as error:
            raise failure(error) from error

    def _conversation(self, session_id: str) -> Conversation:
        if session_id not in self._open:
            raise _no_session(session_id)
        return self._open[session_id]


def _absolute(cwd: str) -> Path:
    """Raises RequestError for what no directory can be named."""
    try:
        is_name = b"\0" not in os.fsencode(cwd)
    except UnicodeEncodeError:
        is_name = False
    if not is_name or not Path(cwd).is_absolute():
        raise wrong(f"cwd must be the absolute path of a directory, not {cwd!a}")
    return Path(cwd)


def _no_session(session_id: str) -> RequestError:
    return wrong(f"there is no session {session_id!a}")


def _kept(cwd: str | None) -> list[Summary]:
    found = list_sessions(workspace=_absolute(cwd).resolve() if cwd else None)
    return [one for one in found if one.turns][:LISTED]


def _modes(conversation: Conversation) -> SessionModeState:
    return SessionModeState(
        current_mode_id=conversation.session.mode,
        available_modes=[
            SessionMode(id=mode, name=name, description=description)
            for mode, (name, description) in MODE_WORDS.items()
        ],
    )
