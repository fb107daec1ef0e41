"""Computer use, if the user has turned it on with `computer = true` or `--computer`."""

from typing import TYPE_CHECKING

from agentcli.session.features import SessionFeature
from agentcli.tools.contracts import load_spec
from agentcli.types.computer import COMPUTER
from agentcli.types.events import Warned
from agentcli.types.tools import Tool

if TYPE_CHECKING:
    from agentcli.features.computer.browser import SandboxedBrowser
    from agentcli.session.session import SessionParts


def build_session_feature(parts: "SessionParts") -> "ComputerUse":
    return ComputerUse(parts)


class ComputerUse(SessionFeature):
    def __init__(self, parts: "SessionParts") -> None:
        from agentcli.features.computer.browser import explain_missing

        self._parts = parts
        self._browser: SandboxedBrowser | None = None
        if missing := explain_missing():
            self.warnings = (Warned(code="computer.missing", message=missing),)
        else:
            self.offers = ((load_spec(COMPUTER), self._build_tool),)

    def _build_tool(self) -> Tool:
        from agentcli.features.computer.browser import SandboxedBrowser
        from agentcli.features.computer.computer import Computer

        gate = self._parts.gate
        self._browser = SandboxedBrowser(
            gate.host, judge=gate.judge_page_host, emit=self._parts.journal.append
        )
        return Computer(self._browser)

    async def close(self) -> None:
        if self._browser is not None:
            await self._browser.close()
