"""A judge with rules, hooks and people to put calls before."""

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.hooks import Hook, HookContext, HookRunner
from agentcli.permissions.judge import Evaluate, PolicyJudge
from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.rules import PermissionRule, RuleDecision, parse_rule
from agentcli.permissions.subject import SubjectFactory
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import (
    Details,
    Effect,
    Output,
    PreparedCall,
    Raw,
    ToolContext,
    ToolSpec,
)
from agentcli.types.verdicts import AskUser, CurrentMode, Judge, Mode, Question, Verdict

EFFECTS = {"bash": Effect.EXECUTE, "read_file": Effect.READ, "edit_file": Effect.WRITE}
ALIASES = {"cmd": "command", "file_path": "path"}


class AnyTool:
    """Takes any mapping, under other names too, as our tools do."""

    def __init__(self, name: str, source: str = "built-in") -> None:
        self.spec = ToolSpec(name=name, description="", schema={}, source=source)

    def parse(self, raw: Json) -> Any:
        if not isinstance(raw, dict) or "bad" in raw:
            raise ToolError("Invalid input: bad is bad.")
        return {ALIASES.get(key, key): value for key, value in raw.items()}

    def effect(self, args: Any) -> Effect:
        return EFFECTS.get(self.spec.name, Effect.EXECUTE)

    async def preview(self, args: Any, context: ToolContext) -> Details | None:
        return None

    async def run(self, args: Any, context: ToolContext) -> Output:
        return Output.of("")


def prepare(name: str = "bash", **given: Json) -> PreparedCall:
    tool = AnyTool(name, "mcp x" if name.startswith("mcp__") else "built-in")
    call = ToolCall(id="c1", name=name, input=given)
    args = tool.parse(given)
    return PreparedCall(call=call, tool=tool, args=args, effect=tool.effect(args))


@dataclass
class Person:
    """Gives the answers one by one, and keeps the questions."""

    answers: list[Verdict]
    questions: list[Question] = field(default_factory=list)

    async def __call__(self, question: Question) -> Verdict:
        self.questions.append(question)
        await asyncio.sleep(0)
        return self.answers.pop(0)


YES = Verdict(decision="allow", by="user", reason="approved by you")
YES_FOR_THE_SESSION = replace(YES, lasts="session")
NO = Verdict(decision="deny", by="user", reason="denied by you")


@dataclass
class Court:
    root: Path
    judge: PolicyJudge
    decider: PolicyDecider

    def hear(self, name: str, **args: Json) -> Verdict:
        return asyncio.run(self.hearing(name, **args))

    async def hearing(self, name: str, **args: Json) -> Verdict:
        judge: Judge = self.judge

        async def preview() -> Details | None:
            if "impossible" in args:
                raise ToolError("it cannot be done")
            return Raw(text="preview")

        return await judge(prepare(name, **args), preview=preview)


def court_of(
    root: Path,
    *,
    mode: Mode = "ask",
    allow: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    judged: tuple[str, ...] = (),
    person: AskUser | None = None,
    hooks: tuple[Hook, ...] = (),
    is_confined: bool = True,
    opinion: Evaluate | None = None,
    has_sandbox: bool = True,
    granting: tuple[PermissionRule, ...] = (),
    own: tuple[Path, ...] = (),
) -> Court:
    decisions: list[tuple[RuleDecision, tuple[str, ...]]] = [
        ("allow", allow),
        ("ask", ask),
        ("deny", deny),
        ("judge", judged),
    ]
    rules = [
        parse_rule(text, decision, source="user", where="rules.toml:3")
        for decision, texts in decisions
        for text in texts
    ]
    prover = ReadProver(
        workspace=root, resolve=lambda name: Path("/usr/bin", name), cwd=lambda: root
    )
    decider = PolicyDecider(
        rules=[*rules, *granting],
        find_conditions=lambda: CommandConditions(
            prover=prover, is_confined=is_confined, has_sandbox=has_sandbox
        ),
        list_own=lambda: own,
    )
    judge = PolicyJudge(
        mode=CurrentMode(value=mode),
        decider=decider,
        subjects=SubjectFactory(workspace=root, cwd=lambda: root),
        ask_user=person,
        hooks=HookRunner(
            hooks, HookContext(session_id="s", cwd=root, env={"PATH": "/usr/bin:/bin"})
        ),
        evaluate=opinion,
    )
    return Court(root, judge, decider)
