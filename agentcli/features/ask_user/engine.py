"""Questions of the model to the user: a tool of sessions that have one."""

from agentcli.session.features import SessionFeature
from agentcli.session.session import SessionParts
from agentcli.tools.contracts import load_spec
from agentcli.types.tools import Tool


def build_session_feature(parts: SessionParts) -> "QuestionsToUser":
    """Return the tool. Where nobody can be asked, its name alone explains why not."""
    return QuestionsToUser(parts)


class QuestionsToUser(SessionFeature):
    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self.offers = ((load_spec("ask_user"), self._build_tool),)

    def _build_tool(self) -> Tool:
        from agentcli.features.ask_user.ask_user import AskUserTool

        return AskUserTool(self._parts.gate.ask)
