"""A running session: what a face can ask of it, whatever it is made of."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.asking import Asking
from agentcli.agent.journal import Journal
from agentcli.agent.loop import Loop
from agentcli.app.boundary import Boundary
from agentcli.app.catalogue import Catalogue
from agentcli.app.hooks import SessionHooks
from agentcli.app.knowledge import Knowledge
from agentcli.app.model import ModelInUse, open_model
from agentcli.app.resume import Taken, end_open_turn, is_unanswered
from agentcli.app.spending import within
from agentcli.app.steering import Steering
from agentcli.app.telemetry import Telemetry
from agentcli.app.tooling import Tooling
from agentcli.app.workshop import Workshop
from agentcli.record.log import Log
from agentcli.settings import Settings
from agentcli.types.errors import Outcome, SettingsError
from agentcli.types.events import (
    Compacted,
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
)
from agentcli.types.messages import Image, Text, ToolCall, UserMessage
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

    async def fetched(self, message: str) -> tuple[str | Image, ...]:
        """What a message wants of servers: resources that it mentions, or the prompt that it runs.

        Raises UsageError where there is no such prompt, or it lacks something."""
        servers = self._catalogue.servers
        return await servers.library.fetched(message) if servers else ()

    async def turn(self, prompt: str, *, attached: Sequence[str | Image] = ()) -> TurnEnded:
        """`attached`: what goes with the prompt, such as files that are mentioned in it."""
        if refused := await self._hooks.before_turn(prompt):
            self._journal.tell(refused)
            return refused
        end_open_turn(self._journal)
        await self._catalogue.get_ready()
        content = (Text(text=prompt), *map(self._attached, attached))
        if not self.model.images and any(isinstance(part, Image) for part in content):
            blind = f"{self.model.name} takes no images: it is told that there is one"
            self._journal.tell(Warned(code="model.images", message=blind))
        try:
            return await self._loop.turn(UserMessage(content=content))
        finally:
            self._workshop.rest()

    def _attached(self, part: str | Image) -> Text | Image:
        return part if isinstance(part, Image) else Text(text=self._boundary.clean(part))

    def withdraw(self) -> bool:
        """Gives the last prompt back to the person if it could not be answered; whether it did."""
        is_theirs = is_unanswered(self._journal.facts)
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
        return self._boundary.clean(text)

    @property
    def facts(self) -> Sequence[Fact]:
        """All that happened, in a resumed session from its very beginning."""
        return self._journal.facts

    def tell(self, text: str, *, why: str) -> None:
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
        model = within(self._budget, open_model(replace(self.settings, model=name)), self.settings)
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

    def kill_calls(self, call_ids: Collection[str]) -> None:
        """Kills the commands of these calls, without giving them time."""
        self._workshop.kill_calls(call_ids)

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

    def running(self) -> "Sequence[Started]":
        """Commands that are running, in the background or not."""
        return self._workshop.running()

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
        await self._hooks.at_the_end(exit_code)
        self._surroundings.close()
        await self._catalogue.close()
        await self._workshop.close()
        self._checkpoints.close()
        self._telemetry.close(self._journal.tell)
        self._boundary.close()
        if self._boundary.opinion is not None:
            await self._boundary.opinion.close()
        await self.model.wire.close()
        self._journal.tell(_ended(exit_code, outcome))
        self._log.close()
        self._lock.release()


def _ended(exit_code: int, outcome: Outcome | None) -> SessionEnded:
    if outcome is None:
        return SessionEnded(exit_code=exit_code)
    return SessionEnded(
        exit_code=exit_code, ending=outcome.ending, message=outcome.message, hint=outcome.hint
    )
