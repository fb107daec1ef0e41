"""The hooks of a session: those of the user and of a trusted project, and their effects.

If there are none, nothing is imported and nothing is started.
"""

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentcli.agent.dispatch import Clean
from agentcli.log.paths import SessionPaths
from agentcli.permissions.hook_events import SUBJECTS
from agentcli.session.configuration import Configuration
from agentcli.session.plugins import is_plugin_unchanged
from agentcli.system.files import exists
from agentcli.types.errors import Ending, ToolError
from agentcli.types.events import (
    Checkpointed,
    ContextNote,
    Emit,
    Event,
    HookRan,
    NoteReason,
    TurnEnded,
    Warned,
)
from agentcli.types.messages import Json
from agentcli.types.tools import PreparedCall, rename_aliases
from agentcli.types.verdicts import CurrentMode, Delegation, Question

if TYPE_CHECKING:
    import asyncio

    from agentcli.permissions.hook_answer import HookDecision, HookResult
    from agentcli.permissions.hook_events import HookEvent
    from agentcli.permissions.hook_names import OwnCall, TouchedFile
    from agentcli.permissions.hooks import Hook, HookContext
    from agentcli.tools.apply_patch import Patch

STOPS_MAX = 5
"""The number of times in a row that hooks may send the model back to work."""

PLUGIN_CHANGED = "its plugin changed since you agreed to it; review it: agentcli plugins list"
CHANGED = "the project's files changed since you trusted them; review them: agentcli trust --show"

_DECISIONS: "dict[HookDecision, Literal['observed', 'allowed', 'asked', 'rejected', 'failed']]" = {
    "none": "observed",
    "allow": "allowed",
    "ask": "asked",
    "deny": "rejected",
    "failed": "failed",
}

FILES_MAX = 50
"""The number of files of one call that FileChanged hooks run for."""


class SessionHooks:
    def __init__(
        self,
        hooks: "Sequence[Hook]",
        context: "HookContext",
        *,
        source: Literal["startup", "resume"],
        emit: Emit,
    ) -> None:
        """`source` says how the session began."""
        from agentcli.permissions.hooks import HookRunner

        self.engine = HookRunner(hooks, context, emit=self._handle_result)
        self._emit = emit
        self._source = source
        self._has_begun = False
        self._pending_notes: list[ContextNote] = []
        self._stops = 0
        self._workspace = context.cwd
        self._running: set[asyncio.Future[Sequence[HookResult]]] = set()
        """Hooks that nobody waits for until the session ends."""

    def collect_notes(self) -> Sequence[ContextNote]:
        """Return the context that hooks have added for the model's next reply."""
        waiting, self._pending_notes = self._pending_notes, []
        return waiting

    async def run_before_turn(self, prompt: str) -> TurnEnded | None:
        """Run the hooks of a prompt. Return the end of the turn if one refuses it, else None."""
        self._stops = 0
        if not self._has_begun:
            self._has_begun = True
            await self.engine.run_event("SessionStart", self._source, source=self._source)
        for result in await self.engine.run_event("UserPromptSubmit", prompt=prompt):
            if result.decision == "deny" or result.is_broken:
                message = f"the prompt was rejected by hook {result.hook}: {result.reason}"
                return TurnEnded(ending=Ending.DENIED, message=message)
        return None

    async def run_session_end(self, exit_code: int) -> None:
        if self._running:
            import asyncio

            await asyncio.gather(*self._running, return_exceptions=True)
        if self._has_begun:
            reason = "other" if exit_code else "exit"
            await self.engine.run_event("SessionEnd", reason, reason=reason, exit_code=exit_code)

    async def find_unfinished(self) -> Sequence[ContextNote]:
        """Run the Stop hooks. Return their reasons to continue when the model thinks it is done."""
        results = await self.engine.run_event("Stop", stop_hook_active=self._stops > 0)
        notes = self._collect_reasons(results, stops=self._stops)
        self._stops += bool(notes)
        return notes

    def build_child_check(
        self, child: Delegation
    ) -> Callable[[], Awaitable[Sequence[ContextNote]]]:
        """Return what runs the SubagentStop hooks when a child thinks that it is done."""
        stops = 0

        async def find_unfinished() -> Sequence[ContextNote]:
            nonlocal stops
            results = await self.engine.run_event(
                "SubagentStop",
                child.role,
                stop_hook_active=stops > 0,
                agent_id=child.child_id,
                agent_type=child.role,
                agent_task=child.task,
            )
            notes = self._collect_reasons(results, stops=stops)
            stops += bool(notes)
            return notes

        return find_unfinished

    def _collect_reasons(
        self, results: "Sequence[HookResult]", *, stops: int
    ) -> Sequence[ContextNote]:
        """Return the reasons to continue, unless the model was sent back too often."""
        asked = [one for one in results if one.decision == "deny"]
        if asked and stops >= STOPS_MAX:
            reason = f"hooks sent the model back {stops} times; ending the turn"
            self._emit(Warned(code="hook.stop", message=reason))
            return ()
        return [ContextNote(text=one.reason, why=NoteReason.HOOK) for one in asked]

    async def run_before_compaction(self, trigger: str) -> str:
        """Run the PreCompact hooks. Return why one refuses, or an empty string."""
        results = await self.engine.run_event("PreCompact", trigger, trigger=trigger)
        refused = [one for one in results if one.decision == "deny"]
        return f"hook {refused[0].hook}: {refused[0].reason}" if refused else ""

    def notify(self, question: Question) -> None:
        """Run the Notification hooks for a question to the user, without waiting for them."""
        message = f"agentcli needs your permission to use {question.call.name}"
        kind = "permission_prompt"
        self._start_event("Notification", kind, message=message, notification_type=kind)

    def __call__(self, event: Event) -> None:
        """Run the FileChanged hooks for files that a call changed, without waiting for them."""
        if isinstance(event, Checkpointed) and self.engine.has_hooks("FileChanged"):
            for path in event.paths[:FILES_MAX]:
                place = Path(event.root or self._workspace, path)
                change = "change" if exists(place) else "unlink"
                self._start_event("FileChanged", place.name, file_path=str(place), change=change)

    def _start_event(self, event: "HookEvent", subject: str, **details: Json) -> None:
        if not self.engine.has_hooks(event):
            return
        import asyncio

        task = asyncio.ensure_future(self.engine.run_event(event, subject, **details))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _handle_result(self, result: "HookResult") -> None:
        """Publish the result of a hook as facts."""
        if not result.event.startswith("PostToolUse"):  # dispatch records those, with their effect
            decision = _DECISIONS[result.decision]
            self._emit(
                HookRan(
                    hook=result.hook,
                    event=result.event,
                    call_id=result.call_id,
                    decision="transformed" if result.input is not None else decision,
                    reason=result.reason,
                )
            )
            if result.context:
                self._pending_notes.append(ContextNote(text=result.context, why=NoteReason.HOOK))
        if result.decision == "failed":
            message = f"{result.event} hook {result.hook}: {result.reason}"
            self._emit(Warned(code="hook.failed", message=message))
        if result.message:
            self._emit(Warned(code="hook.message", message=f"{result.hook}: {result.message}"))


def build_hooks(
    configuration: Configuration,
    paths: SessionPaths,
    *,
    emit: Emit,
    clean: Clean,
    mode: CurrentMode,
    is_resumed: bool,
) -> SessionHooks:
    return SessionHooks(
        configuration.hooks,
        _build_context(configuration, paths, clean=clean, mode=mode),
        source="resume" if is_resumed else "startup",
        emit=emit,
    )


def _build_context(
    configuration: Configuration, paths: SessionPaths, *, clean: Clean, mode: CurrentMode
) -> "HookContext":
    from agentcli.permissions.hook_process import build_hook_environment
    from agentcli.permissions.hooks import HookContext

    settings, project = configuration.settings, configuration.project

    def explain_skip(hook: "Hook") -> str:
        if hook.plugin and not is_plugin_unchanged(hook.plugin):
            return PLUGIN_CHANGED
        stale = hook.project is not None and project is not None and not project.is_unchanged()
        return CHANGED if stale else ""

    return HookContext(
        session_id=paths.id,
        cwd=settings.workspace,
        env=build_hook_environment(
            os.environ,
            pass_env=settings.pass_env,
            secret=(*(own.key_env for own in settings.providers), *settings.mask),
            project=project.root if project else settings.workspace,
        ),
        transcript=paths.log,
        mode=lambda: mode.value,
        clean=clean,
        own_call=read_call,
        why_not=explain_skip,
        fits_condition=partial(_fits_condition, settings.workspace),
    )


def _fits_condition(workspace: Path, written: str, prepared: PreparedCall) -> bool:
    """Return whether a call may match a condition. If that is not clear, the hook runs."""
    from agentcli.permissions.claude_settings import parse_claude_rule
    from agentcli.permissions.command_patterns import MatchResult
    from agentcli.permissions.subject import SubjectFactory

    subjects = SubjectFactory(workspace=workspace, cwd=lambda: workspace)
    spec = prepared.tool.spec
    subject = subjects.build(spec.name, prepared.args, effect=prepared.effect, source=spec.source)
    rules = parse_claude_rule(written, workspace)
    return any(rule.match_broadly(subject) is not MatchResult.NO for rule in rules)


def warn_of_hooks(configuration: Configuration, tools: Sequence[str]) -> Iterator[Warned]:
    """Yield warnings about entries that have no effect in a session with these tools."""
    for problem in configuration.hook_problems:
        yield Warned(code="hook.unknown", message=problem)
    from agentcli.permissions.hook_events import ABOUT_TOOLS
    from agentcli.permissions.hook_names import fits_some_tool, fits_subject

    for hook in configuration.hooks:
        subjects = SUBJECTS.get(hook.event, ())
        is_idle = subjects and not any(fits_subject(hook.matcher, one) for one in subjects)
        if hook.event in ABOUT_TOOLS:
            is_idle = not fits_some_tool(hook.matcher, tools)
        if is_idle:
            message = (
                f"{hook.where}: the matcher {hook.matcher!r} of {hook.event} matches nothing, "
                "so the hook never runs"
            )
            yield Warned(code="hook.idle", message=message)


def read_call(prepared: PreparedCall, given: Json) -> "OwnCall":
    """Return a call as its tool understands it. `given` is its input, or what hooks made of it."""
    from agentcli.permissions.hook_names import OwnCall
    from agentcli.permissions.subject import find_server_name, find_server_tool

    name, args = prepared.call.name, prepared.args
    if given is not prepared.call.input:
        try:
            args = prepared.tool.parse(given)
        except ToolError:  # another hook changed it to this: the tool will report it
            return OwnCall(tool=name, input=given)
    if server := find_server_name(prepared.tool.spec.source):
        server_tool = find_server_tool(name, args, server=server)
        return OwnCall(tool=name, input=given, server=server, server_tool=server_tool)
    own_input = rename_aliases(args, given)
    if name == "apply_patch":
        return OwnCall(tool=name, input=own_input, files=tuple(_find_touched_files(args)))
    return OwnCall(tool=name, input=own_input)


def _find_touched_files(patch: "Patch") -> "Iterator[TouchedFile]":
    from agentcli.permissions.hook_names import TouchedFile
    from agentcli.tools.patch.parser import Add, Update

    for change in patch.changes:
        match change:
            case Add(path=path, text=text):
                yield TouchedFile(path=path, new_text=text, is_whole=True)
            case Update(path=path, move_to=move_to, hunks=hunks):
                old = "\n".join(line for hunk in hunks for line in hunk.old)
                new = "\n".join(line for hunk in hunks for line in hunk.new)
                yield TouchedFile(path=path, old_text=old, new_text=new)
                if move_to:
                    yield TouchedFile(path=move_to, new_text=new, is_whole=True)
            case _:
                yield TouchedFile(path=change.path)
