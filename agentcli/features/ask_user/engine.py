"""Questions of the model to the user: a tool of sessions that have one."""

from collections.abc import Iterator

from agentcli.agent.toolset import Load
from agentcli.session.features import SessionFeature
from agentcli.session.parts import SessionParts
from agentcli.tools.contracts import load_spec
from agentcli.types.tools import Tool, ToolSpec


def build_session_feature(parts: SessionParts) -> "QuestionsToUser":
    return QuestionsToUser(parts)


class QuestionsToUser(SessionFeature):
    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts

    def iter_offers(self) -> Iterator[tuple[ToolSpec, Load]]:
        """Yield the tool where a user can be asked; elsewhere its name alone explains why not."""
        if self._parts.gate.can_ask:
            yield load_spec("ask_user"), self._build_tool

    def _build_tool(self) -> Tool:
        from agentcli.features.ask_user.ask_user import AskUserTool

        return AskUserTool(self._parts.gate.ask)
