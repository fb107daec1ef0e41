"""The requirements that a turn must meet before it may end."""

import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.completion import ANSWER_TOOL, AnswerForm, CompletionChecks, Goal
from agentcli.agent.journal import Journal
from agentcli.agent.loop import OnDeny
from agentcli.agent.toolset import Offer, Toolset
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.session import SessionParts
from agentcli.types.checks import BaseCheck, Verified, is_file_of_check
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import Checkpointed, Fact, SessionResumed, SessionStarted
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.messages import Json
from agentcli.types.provider import ToolChoice
from agentcli.types.verdicts import Mode

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

    from agentcli.session.checkpoints import Checkpoints

VERIFY_TIMEOUT_S = 600.0
"""Time limit of one `--verify` command, if no other limit is set."""

ANSWER_NOTE = (
    "The final answer must be one JSON object that meets the JSON Schema below. Give it by calling "
    f"the tool {ANSWER_TOOL} where you have it, else as the text of your last reply, with nothing "
    "around it.\n\n"
)

DENIAL_NOTE = (
    "The call was denied, and nobody can approve it in this run: do not repeat it.\n"
    "Without approval you may {permitted}, and whatever else a rule of the user allows. Reach the "
    "goal that way, or go on without the call, and say in your answer what is missing."
)
_EDITS = "read files, and change and create them inside the workspace"
_PERMITTED: dict[Mode, str] = {
    "plan": "read files of the workspace",
    "ask": "read files of the workspace",
    "auto-edit": _EDITS,
    "auto": f"{_EDITS}, and run commands in the sandbox",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequirements:
    checks: tuple[str, ...] = ()
    """Commands that decide whether the task is done."""
    answer_schema: Json = None
    """The JSON schema of the final answer."""
    schema_hint: str = "simplify the schema, explain it in the prompt, or use another model"
    """What the user can do if no answer matches it."""
    on_deny: OnDeny = "continue"
    wraps_up: bool = False
    tool_choice: ToolChoice = "auto"
    """The user's choice of tools: a required call is required once per turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCompletion:
    """What decides whether a turn is done."""

    goal: Goal
    checks: CompletionChecks
    answer_schema: Json
    """The schema that the provider enforces, or None."""
    offers: Sequence[Offer]
    """The tool that takes the answer, if the provider cannot enforce a schema itself."""
    prompt_notes: tuple[str, ...]
    """What is sent with each prompt: not every provider can enforce every schema."""


def build_completion(requirements: RunRequirements | None, parts: SessionParts) -> TurnCompletion:
    """Build it from the user's goal and, in a run without a user, its requirements.

    Raise SettingsError if checks would run the model's code without a sandbox."""
    settings, journal = parts.settings, parts.journal
    hint = "" if requirements else "to drop the goal: /goal off"
    goal = Goal(journal, settings.verify, hint=hint)
    checks = requirements.checks if requirements else ()
    if (checks or goal.commands) and not parts.gate.host.may_run_commands:
        raise SettingsError(
            "a check of the task needs a sandbox, and none works here (see agentcli doctor)",
            hint="run commands without a sandbox: --sandbox off",
        )
    form = _build_answer_form(requirements, parts)
    return TurnCompletion(
        goal=goal,
        checks=_build_checks(requirements, parts, goal=goal, form=form),
        answer_schema=form.schema if form and not form.by_call else None,
        offers=_build_answer_offers(form),
        prompt_notes=(ANSWER_NOTE + json.dumps(form.schema, ensure_ascii=False),) if form else (),
    )


def _build_answer_form(
    requirements: RunRequirements | None, parts: SessionParts
) -> AnswerForm | None:
    """Build the form of the answer, if there is one.

    Unless the provider enforces it, the model gives the answer in a call, if it may make any."""
    if requirements is None or requirements.answer_schema is None:
        return None
    from agentcli.system.jsonschema import build_validator

    is_enforced = parts.model.current.answer_schemas
    return AnswerForm(
        requirements.answer_schema,
        find_problem=build_validator(requirements.answer_schema),
        by_call=not is_enforced and requirements.tool_choice != "none",
        emit=parts.journal.append,
        hint=requirements.schema_hint,
    )


def _build_answer_offers(form: AnswerForm | None) -> Sequence[Offer]:
    if form is None or not form.by_call:
        return ()
    from agentcli.tools.answer import AnswerTool

    tool = AnswerTool(ANSWER_TOOL, form.schema, take=form.check_value)
    return ((tool.spec, lambda: tool),)


def _build_checks(
    requirements: RunRequirements | None,
    parts: SessionParts,
    *,
    goal: Goal,
    form: AnswerForm | None,
) -> CompletionChecks:
    settings, journal = parts.settings, parts.journal
    runner = CheckRunner(
        parts.builtin_tools,
        parts.checkpoints,
        journal=journal,
        workspace=settings.workspace,
        timeout_s=settings.tool_timeout or VERIFY_TIMEOUT_S,
    )
    if requirements is None:
        return CompletionChecks(journal, goal=goal, run_check=runner.run, shows_evidence=False)
    return CompletionChecks(
        journal,
        checks=requirements.checks,
        goal=goal,
        run_check=runner.run_twice,
        form=form,
        denial_note=DENIAL_NOTE.format(permitted=_PERMITTED[settings.mode]),
        tool_choice=requirements.tool_choice,
    )


def apply_tool_choice(choice: str, parts: SessionParts) -> str:
    """Declare the tool that the run must call. Raise UsageError if there is no such tool.

    Return a warning if the model cannot be forced to call one, or ""."""
    if choice != "required":
        _declare_chosen_tool(choice, parts.toolset)
    model = parts.model.current
    if model.forces_calls:
        return ""
    return f"{model.name} cannot be forced to call a tool; it is asked to, if it does not"


def _declare_chosen_tool(name: str, toolset: Toolset) -> None:
    if name not in toolset.names:
        from difflib import get_close_matches

        words = ("auto", "none", "required", *toolset.names)
        near = get_close_matches(name, words, n=1)
        raise UsageError(
            f"--tool-choice: there is no tool {name!r}",
            hint=f"did you mean {near[0]}?" if near else "agentcli tools",
        )
    toolset.declare([name])


class CheckRunner:
    """Runs the checks of a task like bash calls, in the same sandbox and each with its own log."""

    def __init__(
        self,
        builtin_tools: BuiltinTools,
        checkpoints: "Checkpoints",
        *,
        journal: Journal,
        workspace: Path,
        timeout_s: float,
    ) -> None:
        self._builtin_tools = builtin_tools
        self._checkpoints = checkpoints
        self._journal = journal
        self._workspace = workspace
        self._timeout_s = timeout_s

    async def run_twice(self, command: str) -> Verified:
        """Run a check. If it passes though the run changed its files, run it with the old ones."""
        run = await self.run(command)
        return replace(run, base=await self._run_base(command)) if run.passed else run

    async def _run_base(self, command: str) -> BaseCheck | None:
        """Run a check in a copy of the workspace; return None if its files are unchanged."""
        is_wanted = partial(is_file_of_check, command=command)
        changes = _list_changes(self._journal.facts)
        with _open_scratch() as scratch:
            copy = Path(scratch) / (self._workspace.name or "workspace")
            try:
                files = await self._checkpoints.copy_with_old_files(
                    changes, into=copy, is_wanted=is_wanted
                )
            except SettingsError as error:
                named = {path for fact in changes for path in fact.paths if is_wanted(path)}
                return BaseCheck(files=tuple(sorted(named)), not_run=str(error))
            if not files:
                return None
            script = f"cd {shlex.quote(str(copy))} || exit 125\n{command}"
            run = await self.run(script, Grants(writable=(copy,)))
        return BaseCheck(files=files, exit_code=run.exit_code, output=run.output)

    async def run(self, command: str, grants: Grants = NO_GRANTS) -> Verified:
        return await self._builtin_tools.run_command(
            command, timeout_s=self._timeout_s, grants=grants
        )


def _open_scratch() -> "TemporaryDirectory[str]":
    """Return a new directory by its real path, which is what a sandbox permits."""
    from tempfile import TemporaryDirectory, gettempdir

    return TemporaryDirectory(
        prefix="agentcli-check-", dir=os.path.realpath(gettempdir()), ignore_cleanup_errors=True
    )


def _list_changes(facts: Sequence[Fact]) -> list[Checkpointed]:
    """Return the changes of this run: those since the session was started or resumed."""
    changes: list[Checkpointed] = []
    for fact in facts:
        match fact:
            case SessionStarted() | SessionResumed():
                changes.clear()
            case Checkpointed():
                changes.append(fact)
            case _:
                pass
    return changes
