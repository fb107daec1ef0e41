"""Programs that a model writes, if the user has enabled them with `programs = true`."""

import os
from pathlib import Path

from agentcli.agent.completion import ANSWER_TOOL
from agentcli.session.features import SessionFeature
from agentcli.session.session import SessionParts
from agentcli.tools.contracts import load_spec
from agentcli.types.errors import ToolError
from agentcli.types.tools import Tool, ToolSpec

NOT_CALLABLE = frozenset(["run_program", "search_tools", "delegate", "ask_user", ANSWER_TOOL])
"""Tools that a program cannot call: they are about the conversation, not the work."""


def build_session_feature(parts: SessionParts) -> "Programs":
    return Programs(parts)


class Programs(SessionFeature):
    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        offer = (load_spec("run_program"), self._build_tool)
        self.offers = tuple(parts.checkpoints.wrap_offers([offer]))

    def _build_tool(self) -> Tool:
        from agentcli.features.programs.run_program import ProgramHost, RunProgram

        parts, host = self._parts, self._parts.gate.host
        if not host.may_run_commands:
            raise ToolError(
                "run_program needs a sandbox, and none works here. Call the tools one by one."
            )
        ground = ProgramHost(
            workspace=parts.settings.workspace,
            out_dir=Path(os.path.realpath(parts.paths.out)),
            sandbox=host.sandbox,
            environ=host.build_environ(),
            processes=parts.builtin_tools.process_table,
            clean=parts.gate.redactor.open_bytes_stream,
        )
        return RunProgram(ground, functions=self._list_functions)

    def _list_functions(self) -> dict[str, ToolSpec]:
        specs = self._parts.toolset.specs
        return {spec.name: spec for spec in specs if spec.name not in NOT_CALLABLE}
