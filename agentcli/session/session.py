"""A running session: what a face can ask of it, whatever it is made of."""

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
    from agentcli.permissions.suggest import RuleSuggestion
    from agentcli.system.process_table import StartedCommand


# What the person says while a turn is running: told to the model before its next reply.


@dataclass(slots=True, kw_only=True)
class SteeringMessage:
    """A message that waits to be told."""

    text: str
    attachments: Content | None = None
    """What goes with it; None: that is still being read, and the message waits for it."""


class Steering:
    def __init__(self, collect_notes: CollectNotes) -> None:
        """`notices`: what the model has to be told besides."""
        self._collect_notes = collect_notes
        self._waiting: list[SteeringMessage] = []

    def add(self, text: str) -> SteeringMessage:
        """To be told as soon as somebody says what is attached to it."""
        steered = SteeringMessage(text=text)
        self._waiting.append(steered)
        return steered

    @property
    def waiting(self) -> list[str]:
        """What the model has not been told yet."""
        return [steered.text for steered in self._waiting]

    def take_unsent(self) -> list[str]:
        """What the turn ended too early to be told."""
        waiting, self._waiting = self._waiting, []
        return [steered.text for steered in waiting]

    def collect_notes(self) -> Sequence[ContextNote | Warned]:
        """In the order in which it was said."""
        ready = [*takewhile(lambda one: one.attachments is not None, self._waiting)]
        self._waiting = self._waiting[len(ready) :]
        said = [
            ContextNote(text=one.text, why=NoteReason.USER, attached=one.attachments or ())
            for one in ready
        ]
        return [*self._collect_notes(), *said]


class Session:
    """One conversation: its loop, its log, and whatever it started."""

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
        """None: nobody has written any server down."""
        servers = self._catalogue.servers
        return servers.menu if servers else None

    def runs_prompt(self, message: str) -> bool:
        """Whether it is /SERVER:PROMPT with what that needs, and not a command."""
        servers = self._catalogue.servers
        return servers is not None and servers.library.runs_prompt(message)

    async def run_turn(self, prompt: str, *, attachments: Sequence[str | Image] = ()) -> TurnEnded:
        """`attached`: what goes with the prompt, such as files that are mentioned in it. What it
        wants of servers is fetched: resources that it mentions, or the prompt that it runs.

        Raises UsageError where a server has no such prompt, or it lacks something."""
        if refused := await self._prepare_turn(prompt):
            return refused
        servers = self._catalogue.servers
        fetched = await servers.library.fetch(prompt) if servers else ()
        return await self._run_loop(prompt, (*attachments, *fetched))

    async def repeat_turn(self, prompt: str, *, attachments: Sequence[str | Image]) -> TurnEnded:
        """A turn that was asked for before, with all that went with it then."""
        return await self._prepare_turn(prompt) or await self._run_loop(prompt, attachments)

    async def _prepare_turn(self, prompt: str) -> TurnEnded | None:
        """None: it may begin, and everything is ready."""
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
        """All that goes with a message to the turn that is running, which can be told now."""
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
        """Gives the last prompt back to the person if it could not be answered; whether it did.

        `gave_up`: the person did not want to wait for another attempt."""
        endings = (*UNANSWERED, Ending.CANCELLED) if gave_up else UNANSWERED
        is_theirs = is_unanswered(self._journal.facts, endings)
        if is_theirs:
            self._journal.append(TurnWithdrawn())
        return is_theirs

    async def continue_turn(self) -> TurnEnded:
        """Finishes the turn that a fork was cut in."""
        await self._catalogue.prepare()
        try:
            return await self._loop.continue_turn()
        finally:
            self._builtin_tools.stop_idle_shells()

    def clean(self, text: str) -> str:
        """Without secrets: for what is kept elsewhere."""
        return self._gate.secret_masking.clean(text)

    @property
    def facts(self) -> Sequence[Fact]:
        """All that happened, in a resumed session from its very beginning."""
        return self._journal.facts

    def add_note(self, text: str, *, reason: NoteReason) -> None:
        """Something the model will read before the next prompt."""
        self._journal.append(ContextNote(text=text, why=reason))

    def rename(self, name: str) -> None:
        self._journal.append(SessionNamed(name=name))

    @property
    def mode(self) -> Mode:
        return self._gate.mode

    def set_mode(self, mode: Mode) -> None:
        """For every call that is judged from now on."""
        self._gate.mode = mode
        self._journal.append(ModeChanged(mode=mode))

    def accept_plan(self, plan: str, *, mode: Mode) -> None:
        """The person agrees to it, and says what needs no question from now on."""
        if mode != self.mode:
            self.set_mode(mode)
        self._journal.append(self.plan_tracker.build_accepted_note(plan))

    async def use_model(self, name: str) -> None:
        """Raises SettingsError where it cannot be asked; then the model stays as it was."""
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
        """Goes on with the person's second choice where the model in use does not answer."""
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
        """Tells the conversation until here by a summary; False when there is none to be had."""
        return await self._model_client.compact()

    def restore(self) -> bool:
        """Tells everything in full again; False when nothing was shortened."""
        shortening = (ResultsTrimmed, Compacted, Restored)
        latest = next((one for one in reversed(self.facts) if isinstance(one, shortening)), None)
        if latest is None or isinstance(latest, Restored):
            return False
        self._journal.append(Restored())
        return True

    def suggest(self, call: ToolCall) -> "RuleSuggestion":
        """The rules that would allow such calls, exactly as they would be stored."""
        return self._gate.suggest(call)

    def normalise_input(self, call: ToolCall) -> Json:
        """Under the names that the tool itself has for it, whichever the model used."""
        return normalise_names(self._catalogue.toolset.resolve, call.name, call.input)

    @property
    def agreed_rules(self) -> "Sequence[PermissionRule]":
        """What the person has agreed to for this session alone."""
        return self._gate.agreed_rules

    def store_rule(self, rule: str) -> None:
        """Raises SettingsError where the person's rules cannot be written."""
        self._gate.store_rule(rule)

    def hurry(self) -> None:
        """Ends the wait before the next attempt of a request, if there is one."""
        self.model.hurry()

    def kill_awaited(self) -> None:
        """Kills the commands that calls are waiting for, without giving them time."""
        self._builtin_tools.kill_awaited()

    @property
    def catalogue(self) -> ToolCatalog:
        """The tools there are, and the servers some of them come from."""
        return self._catalogue

    def get_window(self) -> int | None:
        """Of the model in use, as far as it may be filled; None: nobody knows it."""
        return self._builtin_tools.get_window()

    def move_to_background(self) -> int:
        """The commands that calls are waiting for: they go on, and so does the turn; how many."""
        return self._builtin_tools.move_to_background()

    def stop_command(self, pid: int) -> bool:
        """Asks a command to end; whether it is one of this session, and running."""
        return self._builtin_tools.stop_command(pid)

    def list_background(self) -> "Sequence[StartedCommand]":
        """Commands that go on without anybody waiting for them."""
        return self._builtin_tools.list_background()

    def build_undo(self) -> "UndoManager":
        """What the calls changed, to be taken back or put back. Not while a turn is running."""
        from agentcli.features.undo.session_undo import UndoManager

        return UndoManager(self._journal.facts, emit=self._journal.append, paths=self.paths)

    def kill_commands(self) -> None:
        """For a person who does not want to wait: whatever runs is ended at once."""
        self._builtin_tools.kill_commands()

    async def close(self, exit_code: int, *, outcome: RunOutcome | None = None) -> None:
        """Nothing the session started is left running, and its log is closed.

        `outcome`: of a run without a person, whose exit code it explains."""
        async with AsyncExitStack() as last_first:  # each of them, whatever becomes of the others
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
