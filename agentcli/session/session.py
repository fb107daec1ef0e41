"""A running session: the interface that front ends use, independent of how it is built."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from agentcli.agent.journal import Journal
from agentcli.agent.loop import CollectNotes, Loop
from agentcli.agent.model_client import ModelClient
from agentcli.log.writer import LogWriter
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.context_sources import ContextSources
from agentcli.session.hooks import SessionHooks, normalise_names
from agentcli.session.model import ModelInUse, apply_budget, open_priced_model
from agentcli.session.permission_gate import PermissionGate
from agentcli.session.start import UNANSWERED, SessionStart, end_open_turn, is_unanswered
from agentcli.session.telemetry import Telemetry
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.session.tools import SessionTools
from agentcli.settings import Settings
from agentcli.types.errors import RunOutcome, SettingsError
from agentcli.types.events import (
    Compacted,
    ContextNote,
    Ending,
    Fact,
    ModeChanged,
    ModelChanged,
    NoteReason,
    Restored,
    ResultsTrimmed,
    SessionEnded,
    SessionNamed,
    TurnEnded,
    TurnWithdrawn,
    Warned,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Content, Image, Json, Text, ToolCall, UserMessage
from agentcli.types.verdicts import Mode

if TYPE_CHECKING:
    from agentcli.agent.budget import Budget
    from agentcli.features.mcp.attachments import ServerMenu
    from agentcli.features.undo.session_undo import UndoManager
    from agentcli.permissions.rules import PermissionRule
    from agentcli.system.process_table import StartedCommand


# Steering: messages of the user while a turn is running, sent before the model's next reply.


@dataclass(slots=True, kw_only=True)
class SteeringMessage:
    """A message that waits to be sent."""

    text: str
    attachments: Content | None = None
    """Its attachments, or None while they are still being read; the message waits for them."""


class Steering:
    def __init__(self, collect_notes: CollectNotes) -> None:
        """`collect_notes` returns the other context notes for the model."""
        self._collect_notes = collect_notes
        self._waiting: list[SteeringMessage] = []

    def add(self, text: str) -> SteeringMessage:
        """Add a message, to be sent as soon as its attachments are set."""
        steered = SteeringMessage(text=text)
        self._waiting.append(steered)
        return steered

    @property
    def waiting(self) -> list[str]:
        """The messages that were not sent to the model yet."""
        return [steered.text for steered in self._waiting]

    def take_unsent(self) -> list[str]:
        """Return and remove the messages that were not sent before the turn ended."""
        waiting, self._waiting = self._waiting, []
        return [steered.text for steered in waiting]

    def collect_notes(self) -> Sequence[ContextNote | Warned]:
        """Return the other notes, then the ready messages in the order they were written."""
        ready = [*takewhile(lambda one: one.attachments is not None, self._waiting)]
        self._waiting = self._waiting[len(ready) :]
        said = [
            ContextNote(text=one.text, why=NoteReason.USER, attached=one.attachments or ())
            for one in ready
        ]
        return [*self._collect_notes(), *said]


class Session:
    """One conversation: its loop, its log, and everything it started."""

    def __init__(
        self,
        *,
        settings: Settings,
        start: SessionStart,
        journal: Journal,
        loop: Loop,
        asking: ModelClient,
        log: LogWriter,
        model: ModelInUse,
        steering: Steering,
        builtin_tools: BuiltinTools,
        tooling: SessionTools,
        telemetry: Telemetry,
        gate: PermissionGate,
        hooks: SessionHooks,
        context_sources: ContextSources,
        budget: "Budget | None",
    ) -> None:
        self.settings = settings
        self.paths = start.paths
        self._lock = start.lock
        self.model = model
        self.steering = steering
        self._journal = journal
        self._loop = loop
        self._model_client = asking
        asking.fall_back = tooling.children.fall_back = self._fall_back
        self._log = log
        self._builtin_tools = builtin_tools
        self._checkpoints = tooling.checkpoints
        self._telemetry = telemetry
        self._gate = gate
        self._catalogue = tooling.catalogue
        self._hooks = hooks
        self.plan_tracker = context_sources.plan_tracker
        self._environment = context_sources.environment
        self._budget = budget

    @property
    def server_menu(self) -> "ServerMenu | None":
        """None if no server is configured."""
        servers = self._catalogue.servers
        return servers.menu if servers else None

    def runs_prompt(self, message: str) -> bool:
        """Return whether it is /SERVER:PROMPT with the arguments that needs, and not a command."""
        servers = self._catalogue.servers
        return servers is not None and servers.library.runs_prompt(message)

    async def run_turn(self, prompt: str, *, attachments: Sequence[str | Image] = ()) -> TurnEnded:
        """Run a turn. `attachments` go with the prompt, such as files that it mentions.

        Fetch from servers the resources that the prompt mentions, or the prompt that it runs.
        Raise UsageError if a server has no such prompt, or if an argument is missing."""
        if refused := await self._prepare_turn(prompt):
            return refused
        servers = self._catalogue.servers
        fetched = await servers.library.fetch(prompt) if servers else ()
        return await self._run_loop(prompt, (*attachments, *fetched))

    async def repeat_turn(self, prompt: str, *, attachments: Sequence[str | Image]) -> TurnEnded:
        """Run a turn again with the attachments it had."""
        return await self._prepare_turn(prompt) or await self._run_loop(prompt, attachments)

    async def _prepare_turn(self, prompt: str) -> TurnEnded | None:
        """Prepare a turn. Return its end if a hook refuses it, or None if it may begin."""
        if refused := await self._hooks.run_before_turn(prompt):
            self._journal.append(refused)
            return refused
        end_open_turn(self._journal)
        await self._catalogue.prepare()
        return None

    async def _run_loop(self, prompt: str, attachments: Sequence[str | Image]) -> TurnEnded:
        content = (Text(text=prompt), *self._build_attachments(attachments))
        try:
            return await self._loop.run_turn(UserMessage(content=content))
        finally:
            self._builtin_tools.stop_idle_shells()

    def add_attachments(self, message: SteeringMessage, attachments: Sequence[str | Image]) -> None:
        """Set the attachments of a message to the running turn, so that it can be sent."""
        message.attachments = self._build_attachments(attachments)

    def _build_attachments(self, parts: Sequence[str | Image]) -> Content:
        if not self.model.images and any(isinstance(part, Image) for part in parts):
            blind = f"{self.model.name} takes no images: it is told that there is one"
            self._journal.append(Warned(code="model.images", message=blind))
        return tuple(
            part if isinstance(part, Image) else Text(text=self._gate.secret_masking.clean(part))
            for part in parts
        )

    def withdraw_prompt(self, *, gave_up: bool = False) -> bool:
        """Withdraw the last prompt if it could not be answered. Return whether it was withdrawn.

        `gave_up` is true if the user did not want to wait for another attempt."""
        endings = (*UNANSWERED, Ending.CANCELLED) if gave_up else UNANSWERED
        is_theirs = is_unanswered(self._journal.facts, endings)
        if is_theirs:
            self._journal.append(TurnWithdrawn())
        return is_theirs

    async def continue_turn(self) -> TurnEnded:
        """Finish the turn that a fork was cut in."""
        await self._catalogue.prepare()
        try:
            return await self._loop.continue_turn()
        finally:
            self._builtin_tools.stop_idle_shells()

    def clean(self, text: str) -> str:
        """Return the text without secrets, for storing elsewhere."""
        return self._gate.secret_masking.clean(text)

    @property
    def facts(self) -> Sequence[Fact]:
        """All facts; in a resumed session from its very beginning."""
        return self._journal.facts

    def add_note(self, text: str, *, reason: NoteReason) -> None:
        """Append a context note that the model reads before the next prompt."""
        self._journal.append(ContextNote(text=text, why=reason))

    def rename(self, name: str) -> None:
        self._journal.append(SessionNamed(name=name))

    @property
    def mode(self) -> Mode:
        return self._gate.mode

    def set_mode(self, mode: Mode) -> None:
        """Set the mode for every call that is judged from now on."""
        self._gate.mode = mode
        self._journal.append(ModeChanged(mode=mode))

    def accept_plan(self, plan: str, *, mode: Mode) -> None:
        """Record that the user accepts the plan, and switch to the mode they chose."""
        if mode != self.mode:
            self.set_mode(mode)
        self._journal.append(self.plan_tracker.build_accepted_note(plan))

    async def use_model(self, name: str) -> None:
        """Switch the model. Raise SettingsError if it cannot be opened; the model stays then."""
        model = apply_budget(self._budget, open_priced_model(replace(self.settings, model=name)))
        before, self.model, self._builtin_tools.model = self.model, model, model
        self._model_client.switch_model(
            provider=model.provider, model=model.name, price=model.price
        )
        if self._gate.evaluator is not None:
            self._gate.evaluator.model = model
        self._journal.append(ModelChanged(model=model.name))
        if model.warning:
            self._journal.append(Warned(code="model.unknown", message=model.warning))
        await before.provider.close()

    async def _fall_back(self) -> bool:
        """Switch to the user's fallback model if the model in use does not answer."""
        overloaded, other = self.model.name, self.settings.fallback
        if other is None:
            return False
        try:
            await self.use_model(other)
        except SettingsError as error:
            self._journal.append(Warned(code="model.fallback", message=str(error)))
            return False
        if self.model.name == overloaded:
            return False
        told = f"{overloaded} does not answer: {self.model.name} goes on"
        self._journal.append(Warned(code="model.fallback", message=told))
        return True

    async def compact(self) -> bool:
        """Replace the conversation so far by a summary. Return False if none can be made."""
        return await self._model_client.compact()

    def restore(self) -> bool:
        """Show the conversation in full again. Return False if nothing was shortened."""
        shortening = (ResultsTrimmed, Compacted, Restored)
        latest = next((one for one in reversed(self.facts) if isinstance(one, shortening)), None)
        if latest is None or isinstance(latest, Restored):
            return False
        self._journal.append(Restored())
        return True

    def normalise_input(self, call: ToolCall) -> Json:
        """Return the input under the tool's own names, whichever the model used."""
        return normalise_names(self._catalogue.toolset.resolve, call.name, call.input)

    @property
    def agreed_rules(self) -> "Sequence[PermissionRule]":
        """The rules that the user approved for this session alone."""
        return self._gate.agreed_rules

    def store_rule(self, rule: str) -> None:
        """Store a rule. Raise SettingsError if the user's rules file cannot be written."""
        self._gate.store_rule(rule)

    def hurry(self) -> None:
        """End the wait before the next attempt of a request, if there is one."""
        self.model.hurry()

    def kill_awaited(self) -> None:
        """Kill the commands that calls are waiting for, without a grace period."""
        self._builtin_tools.kill_awaited()

    @property
    def catalogue(self) -> ToolCatalog:
        """The available tools, and the servers some of them come from."""
        return self._catalogue

    def get_window(self) -> int | None:
        """Return the usable window of the model in use in tokens, or None if it is not known."""
        return self._builtin_tools.get_window()

    def move_to_background(self) -> int:
        """Let awaited commands continue in the background, so the turn goes on. Return how many."""
        return self._builtin_tools.move_to_background()

    def stop_command(self, pid: int) -> bool:
        """Ask a command to end. Return whether it was a running command of this session."""
        return self._builtin_tools.stop_command(pid)

    def list_background(self) -> "Sequence[StartedCommand]":
        """Return the commands that run without a call waiting for them."""
        return self._builtin_tools.list_background()

    def build_undo(self) -> "UndoManager":
        """Return the undo and redo of the calls' changes. Do not use it while a turn is running."""
        from agentcli.features.undo.session_undo import UndoManager

        return UndoManager(self._journal.facts, emit=self._journal.append, paths=self.paths)

    def kill_commands(self) -> None:
        """Kill every running command at once, for a user who does not want to wait."""
        self._builtin_tools.kill_commands()

    async def close(self, exit_code: int, *, outcome: RunOutcome | None = None) -> None:
        """Stop everything the session started, and close its log.

        `outcome` explains the exit code of a run without a user."""
        async with AsyncExitStack() as last_first:  # each runs, even if others fail
            last_first.callback(self._lock.release)
            last_first.callback(self._log.close)
            last_first.callback(self._journal.append, _build_session_ended(exit_code, outcome))
            last_first.push_async_callback(self.model.provider.close)
            if self._gate.evaluator is not None:
                last_first.push_async_callback(self._gate.evaluator.close)
            last_first.callback(self._gate.close)
            last_first.callback(self._telemetry.close, self._journal.append)
            last_first.callback(self._checkpoints.close)
            last_first.push_async_callback(self._builtin_tools.close)
            last_first.push_async_callback(self._catalogue.close)
            last_first.callback(self._environment.close)
            last_first.push_async_callback(self._hooks.run_session_end, exit_code)


def _build_session_ended(exit_code: int, outcome: RunOutcome | None) -> SessionEnded:
    if outcome is None:
        return SessionEnded(exit_code=exit_code)
    return SessionEnded(
        exit_code=exit_code, ending=outcome.ending, message=outcome.message, hint=outcome.hint
    )
