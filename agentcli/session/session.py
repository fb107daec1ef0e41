"""A running session: the parts that agents and features build on, and what front ends use."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from agentcli.agent.completion import Goal
from agentcli.agent.journal import Journal, Listener
from agentcli.agent.loop import CollectNotes, Loop
from agentcli.agent.model_client import ModelClient
from agentcli.agent.toolset import Toolset
from agentcli.log.paths import SessionPaths
from agentcli.log.writer import LogWriter
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.checkpoints import Checkpoints
from agentcli.session.configuration import Configuration
from agentcli.session.context_sources import ContextSources
from agentcli.session.directories import Directories
from agentcli.session.features import SessionFeature
from agentcli.session.hooks import SessionHooks
from agentcli.session.model import ModelInUse, SessionModel
from agentcli.session.permission_gate import PermissionGate
from agentcli.session.preparation import Preparation
from agentcli.session.start import SessionStart, end_open_turn, is_unanswered
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.system.lazy import Lazy
from agentcli.types.errors import UNANSWERED, Ending, RunOutcome
from agentcli.types.events import (
    Compacted,
    ContextNote,
    Fact,
    ModeChanged,
    NoteReason,
    Restored,
    ResultsTrimmed,
    Rewound,
    SessionEnded,
    TurnEnded,
    TurnWithdrawn,
    Warned,
    list_effective_facts,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Attachment, Content, Image, Text, UserMessage
from agentcli.types.settings import Settings
from agentcli.types.verdicts import Mode

if TYPE_CHECKING:
    from agentcli.session.edit_checks import EditChecks

BuildChildListener: TypeAlias = Callable[[str, str], Listener]
"""Takes the role of a child and the id of the call that opens it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionParts:
    configuration: Configuration
    settings: Settings
    """Those of the configuration."""
    paths: SessionPaths
    journal: Journal
    toolset: Toolset
    catalog: ToolCatalog
    model: SessionModel
    hooks: SessionHooks | None
    """None if no hooks file has any."""
    gate: PermissionGate
    builtin_tools: BuiltinTools
    checkpoints: Checkpoints
    edit_checks: "Lazy[EditChecks]"
    directories: Directories
    child_listeners: list[BuildChildListener]
    """What features add to hear the events of each child agent."""
    start_notes: list[CollectNotes]
    """What features add to be asked for notes once, when all tools are known."""
    step_notes: list[CollectNotes]
    """What parts and features add to be asked for notes before each request."""


# Steering: messages of the user while a turn is running, sent before the model's next reply.


@dataclass(slots=True, kw_only=True)
class SteeringMessage:
    """A message that waits to be sent."""

    text: str
    attachments: Content | None = None
    """Its attachments, or None while they are still being read; the message waits for them."""


class Steering:
    def __init__(self, sources: Sequence[CollectNotes]) -> None:
        """`sources` return the other context notes for the model."""
        self._sources = sources
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
        notes = [
            ContextNote(text=one.text, why=NoteReason.USER, attached=one.attachments or ())
            for one in ready
        ]
        return [*(note for collect in self._sources for note in collect()), *notes]


class Session:
    """One conversation: its loop, its log, and everything it started."""

    def __init__(
        self,
        parts: SessionParts,
        *,
        start: SessionStart,
        log: LogWriter,
        loop: Loop,
        model_client: ModelClient,
        steering: Steering,
        goal: Goal,
        prompt_notes: Sequence[str],
        context_sources: ContextSources,
        features: Mapping[str, SessionFeature],
        preparation: Preparation,
    ) -> None:
        """`prompt_notes` go with each prompt. `features` maps names to what each feature adds."""
        self.settings = parts.settings
        self.paths = parts.paths
        self.journal = parts.journal
        self.gate = parts.gate
        self.catalog = parts.catalog
        self.builtin_tools = parts.builtin_tools
        self.model_switch = parts.model
        self.model_client = model_client
        self.steering = steering
        self.goal = goal
        self._prompt_notes = prompt_notes
        self.plan_tracker = context_sources.plan_tracker
        self._context_sources = context_sources
        self.features = features
        self._hooks = parts.hooks
        self.checkpoints = parts.checkpoints
        self.directories = parts.directories
        self._environment = context_sources.environment
        self._loop = loop
        self._log = log
        self._lock = start.lock
        self._preparation = preparation

    @property
    def model(self) -> ModelInUse:
        """The model in use."""
        return self.model_switch.current

    @property
    def facts(self) -> Sequence[Fact]:
        """All facts; in a resumed session from its very beginning."""
        return self.journal.facts

    @property
    def is_ready(self) -> bool:
        """False if the next turn has to wait for a server that was never asked for its tools."""
        return all(feature.is_ready for feature in self.features.values())

    def runs_prompt(self, message: str) -> bool:
        """Return whether it is /SERVER:PROMPT with the arguments that needs, and not a command."""
        return any(feature.runs_prompt(message) for feature in self.features.values())

    async def run_turn(self, prompt: str, *, attachments: Sequence[Attachment] = ()) -> TurnEnded:
        """Run a turn. `attachments` go with the prompt, such as files that it mentions.

        Fetch from servers the resources that the prompt mentions, or the prompt that it runs.
        Raise UsageError if a server has no such prompt, or if an argument is missing."""
        if refused := await self._prepare_turn(prompt):
            return refused
        named = [one for one in self.features.values() if one.menu is not None]
        fetched = [part for feature in named for part in await feature.fetch(prompt)]
        message = self._build_message(prompt, (*attachments, *fetched, *self._prompt_notes))
        return await self._finish(self._loop.run_turn(message))

    async def repeat_turn(self, prompt: str, *, attachments: Sequence[Attachment]) -> TurnEnded:
        """Run a turn again with the attachments it had."""
        if refused := await self._prepare_turn(prompt):
            return refused
        return await self._finish(self._loop.run_turn(self._build_message(prompt, attachments)))

    async def continue_turn(self) -> TurnEnded:
        """Finish the turn that a fork was cut in."""
        await self._prepare_features()
        return await self._finish(self._loop.run_turn(None))

    async def _prepare_turn(self, prompt: str) -> TurnEnded | None:
        """Prepare a turn. Return its end if a hook refuses it, or None if it may begin."""
        if self._hooks and (refused := await self._hooks.run_before_turn(prompt)):
            self.journal.append(refused)
            return refused
        if self.journal.is_in_turn:
            end_open_turn(self.journal)
        await self._prepare_features()
        return None

    async def _prepare_features(self) -> None:
        for feature in self.features.values():
            if not feature.is_ready:
                await feature.prepare()

    def _build_message(self, prompt: str, attachments: Sequence[Attachment]) -> UserMessage:
        return UserMessage(content=(Text(text=prompt), *self._build_attachments(attachments)))

    async def _finish(self, turn: Awaitable[TurnEnded]) -> TurnEnded:
        """Run a turn, and give up what was kept for it alone, however it ended."""
        try:
            ended = await turn
        finally:
            self.gate.end_turn()
            self.builtin_tools.stop_idle_shells()
        for feature in self.features.values():
            await feature.finish_turn()
        return ended

    def add_attachments(self, message: SteeringMessage, attachments: Sequence[Attachment]) -> None:
        """Set the attachments of a message to the running turn, so that it can be sent."""
        message.attachments = self._build_attachments(attachments)

    def _build_attachments(self, parts: Sequence[Attachment]) -> Content:
        if not self.model.images and any(isinstance(part, Image) for part in parts):
            blind = f"{self.model.name} cannot see images; it gets a note instead"
            self.journal.append(Warned(code="model.images", message=blind))
        return tuple(
            Text(text=self.clean(part)) if isinstance(part, str) else part for part in parts
        )

    def clean(self, text: str) -> str:
        """Return the text without secrets, for storing elsewhere."""
        return self.gate.redactor.mask(text)

    def withdraw_prompt(self, *, gave_up: bool = False) -> bool:
        """Withdraw the last prompt if it could not be answered. Return whether it was withdrawn.

        `gave_up` is true if the user did not want to wait for another attempt."""
        endings = UNANSWERED | {Ending.CANCELLED} if gave_up else UNANSWERED
        is_theirs = is_unanswered(self.facts, endings)
        if is_theirs:
            self.journal.append(TurnWithdrawn())
        return is_theirs

    def add_note(self, text: str, *, reason: NoteReason) -> None:
        """Append a context note that the model reads before the next prompt."""
        self.journal.append(ContextNote(text=text, why=reason))

    def set_mode(self, mode: Mode) -> None:
        """Set the mode for every call that is judged from now on."""
        permitted = self.gate.limit_mode(mode)
        if permitted != mode:
            message = f"the policy of this machine permits no wider mode than {permitted}"
            self.journal.append(Warned(code="mode.limited", message=message))
        self.gate.set_mode(permitted)
        self.journal.append(ModeChanged(mode=permitted))

    def accept_plan(self, plan: str, *, mode: Mode) -> None:
        """Record that the user accepts the plan, and switch to the mode they chose."""
        if mode != self.gate.mode:
            self.set_mode(mode)
        self.journal.append(self.plan_tracker.build_accepted_note(plan))

    def rewind(self, turn: int, *, undo: str = "") -> None:
        """Continue the conversation from before a turn. `undo` is what restored its files.

        Do not use it while a turn is running."""
        self._append_rewind(action="rewind", turn=turn, undo=undo)

    def redo_rewind(self, rewound: Rewound) -> None:
        """Continue the conversation from before a rewind. Nothing may have been said since."""
        self._append_rewind(action="redo", turn=rewound.turn, of=rewound.id)

    def _append_rewind(self, **fields: Any) -> None:
        number = 1 + sum(isinstance(fact, Rewound) for fact in self.facts)
        self.journal.append(Rewound(id=f"rewind-{number}", **fields))
        self._context_sources.rewind(list_effective_facts(self.facts))

    def restore(self) -> bool:
        """Show the conversation in full again. Return False if nothing was shortened."""
        shortening = (ResultsTrimmed, Compacted, Restored)
        latest = next((one for one in reversed(self.facts) if isinstance(one, shortening)), None)
        if latest is None or isinstance(latest, Restored):
            return False
        self.journal.append(Restored())
        return True

    async def close(self, exit_code: int, *, outcome: RunOutcome | None = None) -> None:
        """Stop everything the session started, and close its log.

        `outcome` explains the exit code of a run without a user."""
        async with AsyncExitStack() as last_first:  # each runs, even if others fail
            last_first.callback(self._lock.release)
            last_first.callback(self._log.close)
            last_first.callback(self.journal.append, _build_session_ended(exit_code, outcome))
            last_first.push_async_callback(self.model_switch.close)
            last_first.callback(self.gate.close)
            for feature in reversed(tuple(self.features.values())):
                last_first.push_async_callback(feature.close)
            last_first.callback(self.checkpoints.close)
            last_first.push_async_callback(self.builtin_tools.close)
            last_first.callback(self._environment.close)
            last_first.callback(self._preparation.close)
            if self._hooks is not None:
                last_first.push_async_callback(self._hooks.run_session_end, exit_code)


class InterruptibleTurn:
    """Runs turns that can be stopped without cancelling the one who waits for them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._running: asyncio.Task[TurnEnded] | None = None
        self._is_interrupted = False

    @property
    def is_running(self) -> bool:
        return self._running is not None

    async def run(self, prompt: str, *, attachments: Sequence[Attachment] = ()) -> TurnEnded:
        """Run a turn and return its end, also after an interrupt. When cancelled, stop it."""
        self._is_interrupted = False
        turn = self._session.run_turn(prompt, attachments=attachments)
        running = self._running = asyncio.ensure_future(turn)
        try:
            await asyncio.wait([running])
        finally:
            self._running = None
            running.cancel()
            await asyncio.wait([running])
        if running.cancelled() and self._is_interrupted:
            return TurnEnded(ending=Ending.CANCELLED, message="interrupted")
        return running.result()

    def interrupt(self) -> bool:
        """Stop the running turn. Return False if there is none.

        The second time, do not wait any longer for commands that do not end."""
        if self._running is None:
            return False
        if self._is_interrupted:
            self._session.builtin_tools.kill_commands()
        self._is_interrupted = True
        self._running.cancel()
        return True


def _build_session_ended(exit_code: int, outcome: RunOutcome | None) -> SessionEnded:
    if outcome is None:
        return SessionEnded(exit_code=exit_code)
    return SessionEnded(
        exit_code=exit_code, ending=outcome.ending, message=outcome.message, hint=outcome.hint
    )
