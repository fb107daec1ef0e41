"""Programs that a model writes, where the person has switched them on: `programs = true`."""

from collections.abc import Iterator

from agentcli.agent.answer import ANSWER_TOOL
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.toolset import Load, Toolset
from agentcli.app.boundary import Boundary
from agentcli.app.workshop import Workshop
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.tools.contracts import contract
from agentcli.types.errors import ToolError
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Tool, ToolResult, ToolSpec

NOT_CALLED = frozenset(["run_program", "search_tools", "delegate", ANSWER_TOOL])
"""By a program: they are about the conversation, not about the work."""


class Programs:
    def __init__(
        self,
        settings: Settings,
        place: SessionPlace,
        *,
        boundary: Boundary,
        workshop: Workshop,
    ) -> None:
        self._settings = settings
        self._place = place
        self._boundary = boundary
        self._workshop = workshop
        self._toolset: Toolset | None = None
        self._dispatcher: Dispatcher | None = None

    def offers(self) -> Iterator[tuple[ToolSpec, Load]]:
        if self._settings.programs:
            yield contract("run_program"), self._tool

    def connect(self, toolset: Toolset, dispatcher: Dispatcher) -> None:
        """What their calls go through, which is made after the tools are known."""
        self._toolset, self._dispatcher = toolset, dispatcher

    def _tool(self) -> Tool:
        from agentcli.tools.run_program import Ground, RunProgram

        if self._workshop.lacks_sandbox:
            raise ToolError(
                "run_program needs a sandbox, and none works here. Call the tools one by one."
            )
        ground = Ground(
            workspace=self._settings.workspace,
            out_dir=self._place.out.resolve(),
            sandbox=self._boundary.sandbox,
            confinement=self._boundary.confinement_of,
            environ=self._boundary.environ(),
            ledger=self._workshop.ledger,
            clean=self._boundary.secrecy.clean_output,
        )
        return RunProgram(ground, dispatch=self._dispatch, functions=self._functions)

    async def _dispatch(self, call: ToolCall) -> ToolResult:
        assert self._dispatcher is not None
        return await self._dispatcher.dispatch(call)

    def _functions(self) -> dict[str, ToolSpec]:
        assert self._toolset is not None
        specs = self._toolset.specs
        return {spec.name: spec for spec in specs if spec.name not in NOT_CALLED}
