"""Programs that a model writes, if the user has enabled them with `programs = true`."""

from collections.abc import Iterator

from agentcli.agent.completion import ANSWER_TOOL
from agentcli.agent.toolset import Load, Toolset
from agentcli.log.paths import SessionPaths
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.permission_gate import PermissionGate
from agentcli.settings import Settings
from agentcli.tools.contracts import load_spec
from agentcli.types.errors import ToolError
from agentcli.types.tools import Tool, ToolSpec

NOT_CALLABLE = frozenset(["run_program", "search_tools", "delegate", ANSWER_TOOL])
"""Tools that a program cannot call: they are about the conversation, not the work."""


class Programs:
    def __init__(
        self,
        settings: Settings,
        paths: SessionPaths,
        *,
        gate: PermissionGate,
        builtin_tools: BuiltinTools,
    ) -> None:
        self._settings = settings
        self._paths = paths
        self._gate = gate
        self._builtin_tools = builtin_tools
        self._toolset: Toolset | None = None

    def iter_offers(self) -> Iterator[tuple[ToolSpec, Load]]:
        if self._settings.programs:
            yield load_spec("run_program"), self._build_tool

    def connect(self, toolset: Toolset) -> None:
        self._toolset = toolset

    def _build_tool(self) -> Tool:
        from agentcli.features.programs.run_program import ProgramHost, RunProgram

        if self._builtin_tools.lacks_sandbox:
            raise ToolError(
                "run_program needs a sandbox, and none works here. Call the tools one by one."
            )
        ground = ProgramHost(
            workspace=self._settings.workspace,
            out_dir=self._paths.out.resolve(),
            sandbox=self._gate.sandbox,
            environ=self._gate.build_environ(),
            processes=self._builtin_tools.process_table,
            clean=self._gate.secret_masking.build_output_filter,
        )
        return RunProgram(ground, functions=self._list_functions)

    def _list_functions(self) -> dict[str, ToolSpec]:
        assert self._toolset is not None
        specs = self._toolset.specs
        return {spec.name: spec for spec in specs if spec.name not in NOT_CALLABLE}
