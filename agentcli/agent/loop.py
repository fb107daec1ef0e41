"""One turn: ask the model, run its calls, until there is nothing left to run.

Every way out is a `TurnEnded` with its ending. Limits are checked before each request, so that what
they forbid is never sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

from agentcli.agent.asking import Asking
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.finish import DONE, Finish
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, Limits
from agentcli.agent.outcome import denied_for_good
from agentcli.agent.schedule import run_batch
from agentcli.types.errors import RecordError, SettingsError, WireError
from agentcli.types.events import Ending, Told, TurnEnded, TurnStarted, Warned, Why
from agentcli.types.messages import AssistantMessage, ToolCall, UserMessage
from agentcli.types.words import counted

STUMBLES_MAX = 3
"""Replies in a row that were cut off or malformed before the turn is given up."""

CUT_OFF = "Your reply was cut off at the output limit. Continue exactly where it stopped."
CUT_OFF_CALL = (
    "Not run: your reply was cut off at the output limit. Make the call again, with less in it."
)
CUT_OFF_IN_CALL = (
    "Your reply was cut off at the output limit, in the middle of a call of {tools}. That call was "
    "not run. Make it again with less in it, such as a part of the text at a time."
)
SAID_NOTHING = (
    "Your reply was empty. If something is left to do, do it. If not, say what you did or found."
)
NOT_COMPLETE = "Not run: your reply did not end as it should."
WRAP_UP = (
    "The limit of this run is reached. Without calling any tool, say in a few sentences what is "
    "done, what is not, and what you would do next."
)

Notices: TypeAlias = Callable[[], Sequence[Told | Warned]]
Unfinished: TypeAlias = Callable[[], Awaitable[Sequence[Told]]]
OnDeny: TypeAlias = Literal["fail", "continue", "ignore"]
"""When nobody can be asked: end the turn, go on and fail at its end, or only record it."""

_WRAPPED_UP = (Ending.STEP_LIMIT, Ending.COST_LIMIT, Ending.TOKEN_LIMIT, Ending.REPEATED)


async def _nothing() -> Sequence[Told]:
    return ()


class Loop:
    def __init__(
        self,
        *,
        asking: Asking,
        journal: Journal,
        dispatcher: Dispatcher,
        breaker: Breaker,
        limits: Limits,
        parallel: bool = True,
        notices: Notices = tuple,
        unfinished: Unfinished = _nothing,
        finish: Finish | None = None,
        on_deny: OnDeny = "continue",
        wraps_up: bool = False,
    ) -> None:
        """`notices`: what the model has to be told before its next reply.
        `finish`: what else must be true before a turn is done.
        `unfinished`: what the model is sent back to when it is.
        `wraps_up`: at a limit the model may say a last word, without tools."""
        self._asking = asking
        self._journal = journal
        self._dispatcher = dispatcher
        self._breaker = breaker
        self._limits = limits
        self._parallel = parallel
        self._notices = notices
        self._unfinished = unfinished
        self._finish = finish
        self._on_deny = on_deny
        self._wraps_up = wraps_up
        self._steps_made = 0
        self._stumbles = 0
        self._is_silent = False
        """The last reply said nothing, and the model knows."""

    @property
    def steps_left(self) -> int | None:
        """Of the turn that is running; None: without end."""
        return None if self._limits.steps is None else self._limits.steps - self._steps_made

    async def turn(self, message: UserMessage) -> TurnEnded:
        self._journal.tell(TurnStarted(message=message))
        return await self._turn(())

    async def go_on(self) -> TurnEnded:
        """Finishes a turn that was cut off: its unanswered calls first."""
        return await self._turn(self._journal.open_calls())

    async def _turn(self, left_over: Sequence[ToolCall]) -> TurnEnded:
        first_fact = len(self._journal.facts)
        self._breaker.begin_turn()
        self._asking.begin_turn()
        self._steps_made = 0
        self._stumbles = 0
        self._is_silent = False
        try:
            async with asyncio.timeout(self._limits.wall_s):
                ended = await self._run(left_over) if left_over else None
                ended = ended or await self._steps()
                if self._wraps_up and ended.ending in _WRAPPED_UP:
                    await self._wrap_up()
        except TimeoutError:
            ended = TurnEnded(
                ending=Ending.TIME_LIMIT,
                message=f"the time limit of {self._limits.wall_s:g} s is reached",
                hint="raise --timeout",
            )
        except asyncio.CancelledError:
            self._journal.tell(TurnEnded(ending=Ending.CANCELLED, message="interrupted"))
            raise
        except RecordError:
            raise
        except SettingsError as error:
            for call in self._journal.open_calls():
                self._dispatcher.refuse(call, str(error))
            ended = TurnEnded(ending=error.ending, message=str(error), hint=error.hint)
        except Exception as bug:
            said = f"internal error: {type(bug).__name__}"
            self._journal.tell(TurnEnded(ending=Ending.INTERNAL, message=said))
            raise
        ended = self._settled(ended, first_fact)
        self._journal.tell(ended)
        return ended

    def _settled(self, ended: TurnEnded, first_fact: int) -> TurnEnded:
        """What the ending amounts to, given all that happened in the turn."""
        if ended.ending is Ending.DONE and self._on_deny != "ignore":
            return denied_for_good(self._journal.facts[first_fact:]) or ended
        return self._finish.at_limit(ended) if self._finish else ended

    async def _steps(self) -> TurnEnded:
        while True:
            over = self._over()
            if over is not None:
                return over
            self._steps_made += 1
            for told in self._notices():
                self._journal.tell(told)
            try:
                reply = await self._asking.ask()
            except WireError as error:
                if await self._asking.is_worth_repeating(error):
                    continue
                return TurnEnded(ending=error.ending, message=str(error), hint=error.hint)
            ended = await self._act_on(reply)
            if ended is not None and not await self._is_sent_back(ended):
                return ended

    async def _is_sent_back(self, ended: TurnEnded) -> bool:
        """Whether there is more to do, though the model and all checks say that it is done."""
        told = await self._unfinished() if ended.ending is Ending.DONE else ()
        for one in told:
            self._journal.tell(one)
        return bool(told)

    async def _wrap_up(self) -> None:
        self._journal.tell(Told(text=WRAP_UP, why=Why.WRAP_UP))
        # Without a last word the turn has ended all the same; why there was none is recorded.
        with suppress(WireError):
            self._refuse_calls(await self._asking.ask(tool_choice="none"), NOT_COMPLETE)

    async def _act_on(self, reply: AssistantMessage) -> TurnEnded | None:
        """The stop reason decides. None: ask again."""
        match reply.stop:
            case "end" | "tool_calls" if reply.tool_calls:
                return await self._run(reply.tool_calls)
            case "end" | "tool_calls":
                return await self._answered()
            case "paused":
                return None
            case "length":
                tools = " and ".join(reply.cut_off)
                told = CUT_OFF_IN_CALL.format(tools=tools) if tools else CUT_OFF
                return self._stumbled(reply, Ending.LENGTH, told, CUT_OFF_CALL)
            case "error":
                told = f"Your reply could not be used ({reply.stop_detail}). Try again."
                return self._stumbled(reply, Ending.PROVIDER_FAILED, told, NOT_COMPLETE)
            case "overflow" | "refusal" | "cancelled":
                self._refuse_calls(reply, NOT_COMPLETE)
                return await self._gave_up(reply)

    async def _answered(self) -> TurnEnded | None:
        has_form = self._finish is not None and self._finish.has_form
        if not self._journal.answer().strip() and not has_form:
            return self._said_nothing()
        return await self._finish.after_reply() if self._finish else DONE

    async def _gave_up(self, reply: AssistantMessage) -> TurnEnded | None:
        if reply.stop == "refusal":
            why = f": {reply.stop_detail}" if reply.stop_detail else ""
            return TurnEnded(ending=Ending.REFUSED, message=f"the model refused{why}")
        if reply.stop == "cancelled":
            return TurnEnded(ending=Ending.CANCELLED, message="interrupted")
        if await self._asking.made_room():
            return None
        return TurnEnded(
            ending=Ending.OVERFLOW, message="the conversation no longer fits the model"
        )

    async def _run(self, calls: Sequence[ToolCall]) -> TurnEnded | None:
        self._stumbles = 0
        self._is_silent = False
        self._breaker.begin_step()
        first_fact = len(self._journal.facts)
        await run_batch(
            calls,
            is_read=self._dispatcher.is_read if self._parallel else lambda call: False,
            run=self._dispatcher.dispatch,
        )
        if self._breaker.tripped is not None:
            return TurnEnded(
                ending=Ending.REPEATED,
                message=self._breaker.tripped,
                hint="see what led there: agentcli triage",
            )
        if self._on_deny == "fail":
            denied = denied_for_good(self._journal.facts[first_fact:])
            if denied is not None:
                return denied
        return await self._finish.after_calls() if self._finish else None

    def _stumbled(
        self, reply: AssistantMessage, ending: Ending, told: str, told_of_calls: str
    ) -> TurnEnded | None:
        self._stumbles += 1
        self._refuse_calls(reply, told_of_calls)
        if self._stumbles > STUMBLES_MAX:
            return TurnEnded(
                ending=ending, message=f"{self._stumbles} replies in a row ended with {reply.stop}"
            )
        if not reply.tool_calls or reply.cut_off:
            self._journal.tell(Told(text=told, why=Why(reply.stop)))
        return None

    def _said_nothing(self) -> TurnEnded | None:
        """Asked again once: an empty answer is no success."""
        if self._is_silent:
            return TurnEnded(
                ending=Ending.PROVIDER_FAILED,
                message="the model replied with nothing, twice in a row",
                hint="try again, or another model: --model",
            )
        self._is_silent = True
        self._journal.tell(Told(text=SAID_NOTHING, why=Why.EMPTY))
        return None

    def _refuse_calls(self, reply: AssistantMessage, why: str) -> None:
        for call in reply.tool_calls:
            self._dispatcher.refuse(call, why)

    def _over(self) -> TurnEnded | None:
        steps = self._limits.steps
        if steps is None or self._steps_made < steps:
            return None
        return TurnEnded(
            ending=Ending.STEP_LIMIT,
            message=f"the limit of {counted(steps, 'request')} is reached",
            hint="raise --max-turns",
        )
