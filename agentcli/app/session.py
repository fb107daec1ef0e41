"""A running session: what a face can ask of it, whatever it is made of."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.asking import Asking
from agentcli.agent.journal import Journal
from agentcli.agent.loop import Loop
from agentcli.app.boundary import Boundary
from agentcli.app.catalogue import Catalogue
from agentcli.app.hooks import SessionHooks, own_names
from agentcli.app.knowledge import Knowledge
from agentcli.app.model import ModelInUse
from agentcli.app.resume import UNANSWERED, Taken, end_open_turn, is_unanswered
from agentcli.app.spending import open_priced_model, within
from agentcli.app.steering import Steered, Steering
from agentcli.app.telemetry import Telemetry
from agentcli.app.tooling import Tooling
from agentcli.app.workshop import Workshop
from agentcli.record.log import Log
from agentcli.settings import Settings
from agentcli.types.errors import Outcome, SettingsError
from agentcli.types.events import (
    Compacted,
    Ending,
    Fact,
    ModeChanged,
    ModelChanged,
    Restored,
    ResultsTrimmed,
    SessionEnded,
    SessionNamed,
    Told,
    TurnEnded,
    TurnWithdrawn,
    Warned,
    Why,
)
from agentcli.types.messages import Content, Image, Json, Text, ToolCall, UserMessage
from agentcli.types.verdicts import Mode

if TYPE_CHECKING:
    from agentcli.agent.budget import Budget
    from agentcli.app.server_menu import ServerMenu
    from agentcli.app.undo import Undoing
    from agentcli.guard.rules import Rule
    from agentcli.guard.suggest import Suggestion
    from agentcli.machine.ledger import Started


class Session:
    """One conversation: its loop, its log, and whatever it started."""

    def __init__(
        self,
        *,
        settings: Settings,
        taken: Taken,
        journal: Journal,
        loop: Loop,
        asking: Asking,
        log: Log,
        model: ModelInUse,
        steering: Steering,
        workshop: Workshop,
        tooling: Tooling,
        telemetry: Telemetry,
        boundary: Boundary,
        hooks: SessionHooks,
        knowledge: Knowledge,
        budget: "Budget | None",
    ) -> None:
        self.settings = settings
        self.place = taken.place
        self._lock = taken.lock
        self.model = model
        self.steering = steering
        self._journal = journal
        self._loop = loop
        self._asking = asking
        asking.fall_back = tooling.children.fall_back = self._fall_back
        self._log = log
        self._workshop = workshop
        self._checkpoints = tooling.checkpoints
        self._telemetry = telemetry
        self._boundary = boundary
        self._catalogue = tooling.catalogue
        self._hooks = hooks
        self.planning = knowledge.planning
        self._surroundings = knowledge.surroundings
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

    async def turn(self, prompt: str, *, attached: Sequence[str | Image] = ()) -> TurnEnded:
        """`attached`: what goes with the prompt, such as files that are mentioned in it. What it
        wants of servers is fetched: resources that it mentions, or the prompt that it runs.

        Raises UsageError where a server has no such prompt, or it lacks something."""
        if refused := await self._refused(prompt):
            return refused
        servers = self._catalogue.servers
        fetched = await servers.library.fetch(prompt) if servers else ()
        return await self._ask(prompt, (*attached, *fetched))

    async def repeat(self, prompt: str, *, attached: Sequence[str | Image]) -> TurnEnded:
        """A turn that was asked for before, with all that went with it then."""
        return await self._refused(prompt) or await self._ask(prompt, attached)

    async def _refused(self, prompt: str) -> TurnEnded | None:
        """None: it may begin, and everything is ready."""
        if refused := await self._hooks.before_turn(prompt):
            self._journal.tell(refused)
            return refused
        end_open_turn(self._journal)
        await self._catalogue.get_ready()
        return None

    async def _ask(self, prompt: str, attached: Sequence[str | Image]) -> TurnEnded:
        content = (Text(text=prompt), *self._attached(attached))
        try:
            return await self._loop.turn(UserMessage(content=content))
        finally:
            self._workshop.rest()

    def send_along(self, steered: Steered, attached: Sequence[str | Image]) -> None:
        """All that goes with a message to the turn that is running, which can be told now."""
        steered.attached = self._attached(attached)

    def _attached(self, parts: Sequence[str | Image]) -> Content:
        if not self.model.images and any(isinstance(part, Image) for part in parts):
            blind = f"{self.model.name} takes no images: it is told that there is one"
            self._journal.tell(Warned(code="model.images", message=blind))
        return tuple(
            part if isinstance(part, Image) else Text(text=self._boundary.secrecy.clean(part))
            for part in parts
        )

    def withdraw(self, *, gave_up: bool = False) -> bool:
        """Gives the last prompt back to the person if it could not be answered; whether it did.

        `gave_up`: the person did not want to wait for another attempt."""
        endings = (*UNANSWERED, Ending.CANCELLED) if gave_up else UNANSWERED
        is_theirs = is_unanswered(self._journal.facts, endings)
        if is_theirs:
            self._journal.tell(TurnWithdrawn())
        return is_theirs

    async def go_on(self) -> TurnEnded:
        """Finishes the turn that a fork was cut in."""
        await self._catalogue.get_ready()
        try:
            return await self._loop.go_on()
        finally:
            self._workshop.rest()

    def clean(self, text: str) -> str:
        """Without secrets: for what is kept elsewhere."""
        return self._boundary.secrecy.clean(text)

    @property
    def facts(self) -> Sequence[Fact]:
        """All that happened, in a resumed session from its very beginning."""
        return self._journal.facts

    def tell(self, text: str, *, why: Why) -> None:
        """Something the model will read before the next prompt."""
        self._journal.tell(Told(text=text, why=why))

    def rename(self, name: str) -> None:
        self._journal.tell(SessionNamed(name=name))

    @property
    def mode(self) -> Mode:
        return self._boundary.mode

    def set_mode(self, mode: Mode) -> None:
        """For every call that is judged from now on."""
        self._boundary.mode = mode
        self._journal.tell(ModeChanged(mode=mode))

    def accept_plan(self, plan: str, *, mode: Mode) -> None:
        """The person agrees to it, and says what needs no question from now on."""
        if mode != self.mode:
            self.set_mode(mode)
        self._journal.tell(self.planning.agreed(plan))

    async def use_model(self, name: str) -> None:
        """Raises SettingsError where it cannot be asked; then the model stays as it was."""
        model = within(self._budget, open_priced_model(replace(self.settings, model=name)))
        before, self.model, self._workshop.model = self.model, model, model
        self._asking.use(wire=model.wire, model=model.name, price=model.price)
        if self._boundary.opinion is not None:
            self._boundary.opinion.model = model
        self._journal.tell(ModelChanged(model=model.name))
        if model.warning:
            self._journal.tell(Warned(code="model.unknown", message=model.warning))
        await before.wire.close()

    async def _fall_back(self) -> bool:
        """Goes on with the person's second choice where the model in use does not answer."""
        overloaded, other = self.model.name, self.settings.fallback
        if other is None:
            return False
        try:
            await self.use_model(other)
        except SettingsError as error:
            self._journal.tell(Warned(code="model.fallback", message=str(error)))
            return False
        if self.model.name == overloaded:
            return False
        told = f"{overloaded} does not answer: {self.model.name} goes on"
        self._journal.tell(Warned(code="model.fallback", message=told))
        return True

    async def compact(self) -> bool:
        """Tells the conversation until here by a summary; False when there is none to be had."""
        return await self._asking.compact()

    def restore(self) -> bool:
        """Tells everything in full again; False when nothing was shortened."""
        shortening = (ResultsTrimmed, Compacted, Restored)
        latest = next((one for one in reversed(self.facts) if isinstance(one, shortening)), None)
        if latest is None or isinstance(latest, Restored):
            return False
        self._journal.tell(Restored())
        return True

    def suggest(self, call: ToolCall) -> "Suggestion":
        """The rules that would allow such calls, exactly as they would be stored."""
        return self._boundary.suggest(call)

    def input_of(self, call: ToolCall) -> Json:
        """Under the names that the tool itself has for it, whichever the model used."""
        return own_names(self._catalogue.toolset.resolve, call.name, call.input)

    @property
    def agreed_rules(self) -> "Sequence[Rule]":
        """What the person has agreed to for this session alone."""
        return self._boundary.agreed_rules

    def store_rule(self, rule: str) -> None:
        """Raises SettingsError where the person's rules cannot be written."""
        self._boundary.store_rule(rule)

    def hurry(self) -> None:
        """Ends the wait before the next attempt of a request, if there is one."""
        self.model.hurry()

    def kill_awaited(self) -> None:
        """Kills the commands that calls are waiting for, without giving them time."""
        self._workshop.kill_awaited()

    @property
    def catalogue(self) -> Catalogue:
        """The tools there are, and the servers some of them come from."""
        return self._catalogue

    def window(self) -> int | None:
        """Of the model in use, as far as it may be filled; None: nobody knows it."""
        return self._workshop.window()

    def move_to_background(self) -> int:
        """The commands that calls are waiting for: they go on, and so does the turn; how many."""
        return self._workshop.release()

    def stop_command(self, pid: int) -> bool:
        """Asks a command to end; whether it is one of this session, and running."""
        return self._workshop.stop(pid)

    def in_background(self) -> "Sequence[Started]":
        """Commands that go on without anybody waiting for them."""
        return self._workshop.in_background()

    def undoing(self) -> "Undoing":
        """What the calls changed, to be taken back or put back. Not while a turn is running."""
        from agentcli.app.undo import Undoing

        return Undoing(self._journal.facts, tell=self._journal.tell, place=self.place)

    def kill_commands(self) -> None:
        """For a person who does not want to wait: whatever runs is ended at once."""
        self._workshop.kill()

    async def close(self, exit_code: int, *, outcome: Outcome | None = None) -> None:
        """Nothing the session started is left running, and its log is closed.

        `outcome`: of a run without a person, whose exit code it explains."""
        async with AsyncExitStack() as last_first:  # each of them, whatever becomes of the others
            last_first.callback(self._lock.release)
            last_first.callback(self._log.close)
            last_first.callback(self._journal.tell, _ended(exit_code, outcome))
            last_first.push_async_callback(self.model.wire.close)
            if self._boundary.opinion is not None:
                last_first.push_async_callback(self._boundary.opinion.close)
            last_first.callback(self._boundary.close)
            last_first.callback(self._telemetry.close, self._journal.tell)
            last_first.callback(self._checkpoints.close)
            last_first.push_async_callback(self._workshop.close)
            last_first.push_async_callback(self._catalogue.close)
            last_first.callback(self._surroundings.close)
            last_first.push_async_callback(self._hooks.at_the_end, exit_code)


def _ended(exit_code: int, outcome: Outcome | None) -> SessionEnded:
    if outcome is None:
        return SessionEnded(exit_code=exit_code)
    return SessionEnded(
        exit_code=exit_code, ending=outcome.ending, message=outcome.message, hint=outcome.hint
    )
