"""delegate: let a child agent find something out, and return only its answer."""

from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import ClassVar, TypeAlias

from agentcli.tools.arguments import BuiltinArguments, TextCheck, declare_argument, parse_arguments
from agentcli.tools.contracts import load_spec
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, Output, ToolContext, ToolSpec

RunChild: TypeAlias = Callable[[str, str, ToolContext], Awaitable[Output]]
"""Takes the task, the name of a role or "", and the context of the call."""
EffectOf: TypeAlias = Callable[[str], Effect]
"""Returns the greatest effect that a child in that role may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateArgs(BuiltinArguments):
    task: str = field(
        metadata=declare_argument(TextCheck(is_filled=True), "e.g. Where are retries decided?")
    )
    role: str = field(default="", metadata=declare_argument(TextCheck(), "One you were told of"))

    aliases: ClassVar[dict[str, str]] = {
        "prompt": "task",
        "question": "task",
        "agent": "role",
        "subagent_type": "role",
    }


class Delegate:
    def __init__(self, *, run_child: RunChild, effect_of: EffectOf) -> None:
        self._run_child = run_child
        self._effect_of = effect_of

    @property
    def spec(self) -> ToolSpec:
        return load_spec("delegate")

    def parse(self, raw: Json) -> DelegateArgs:
        return parse_arguments(DelegateArgs, raw)

    def effect(self, args: DelegateArgs) -> Effect:
        return self._effect_of(args.role)

    async def preview(self, args: DelegateArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: DelegateArgs, context: ToolContext) -> Output:
        return await self._run_child(args.task, args.role, context)
