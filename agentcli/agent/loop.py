"""One turn: send requests to the model and run its calls until there is nothing left to run.

Every exit is a `TurnEnded` with its ending. Limits are checked before each request, so that a
request over a limit is never sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, Literal, TypeAlias

from agentcli.agent.completion import DONE, CompletionChecks, is_call_as_text
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, TurnLimits
from agentcli.agent.model_client import ModelClient
from agentcli.types.agents import PatchDecided
from agentcli.types.errors import (
    LIMIT_ENDINGS,
    Ending,
    ProviderError,
    RecordError,
    SettingsError,
    explain_obstacle,
)
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    ContextNote,
    Fact,
    HostJudged,
    NoteReason,
    SignatureJudged,
    TurnEnded,
    TurnStarted,
    Warned,
)
from agentcli.types.messages import AssistantMessage, ToolCall, UserMessage
from agentcli.types.tools import Command, Effect, ToolResult
from agentcli.types.verdicts import Verdict

# The order of one reply's calls: reads together, everything else alone.


async def run_batch(
    calls: Sequence[ToolCall],
    *,
    dispatcher: Dispatcher,
    in_parallel: bool = True,
    steps_left: int | None = None,
) -> None:
    """Run every call. A call that does more than read never overlaps another one."""
    # Each is prepared when its turn comes: its effect may depend on the calls before it.
    prepared = (dispatcher.prepare(call) for call in calls)
    run = partial(dispatcher.run, steps_left=steps_left)
    for is_read, group in groupby(prepared, key=lambda one: one.effect is Effect.READ):
        if is_read and in_parallel and len(calls) > 1:
            await _run_all(run(one) for one in group)
        else:  # nearly always: no task is needed
            for one in group:
                await run(one)
                # An answer that also stops the turn does so here, before anything else begins.
                await asyncio.sleep(0)


async def _run_all(coroutines: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run all of them like gather, but leave nothing running, whatever happens."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# The outcome of a turn: a denial that nobody could lift is not success.


def find_final_denial(facts: Iterable[Fact]) -> TurnEnded | None:
    """Return the ending of a turn in which something was denied because nobody could be asked.

    That is a call, or a host or signature that a command wanted. The denial does not count if that
    command succeeds, or if a later call reaches the same target: the model found a way that was
    allowed.
    """
    calls: dict[str, tuple[str, Verdict]] = {}
    wants: dict[str, tuple[str, Verdict]] = {}
    """What running commands wanted, by the targets of their calls."""
    targets: dict[str, str] = {}
    for fact in facts:
        if isinstance(fact, CallJudged):
            targets[fact.call.id] = _find_call_target(fact.call)
        if denied := _find_denied(fact):
            call_id, name, verdict = denied
            kept = wants if isinstance(fact, HostJudged | SignatureJudged) else calls
            kept.setdefault(targets.get(call_id, call_id), (name, verdict))
        if isinstance(fact, CallFinished) and fact.result.status == "ok":
            target = targets.get(fact.result.call_id, "")
            calls.pop(target, None)
            if _has_succeeded(fact.result):
                wants.pop(target, None)
    if not (calls or wants):
        return None
    (name, first), *others = (*calls.values(), *wants.values())
    more = f" (and {len(others)} more)" if others else ""
    remedies = dict.fromkeys(verdict.remedy for verdict in (first, *(one for _, one in others)))
    return TurnEnded(
        ending=Ending.DENIED,
        message=f"{name} was denied: {first.reason}{more}",
        hint=" ".join(filter(None, remedies)) or "no command line option allows it",
    )


def _has_succeeded(result: ToolResult) -> bool:
    return not (isinstance(result.details, Command) and result.details.exit_code)


def _find_denied(fact: Fact) -> tuple[str, str, Verdict] | None:
    """Return the call, the name and the verdict of what was denied since nobody could be asked."""
    match fact:
        case CallJudged(call=call, verdict=Verdict(by="nobody") as verdict):
            return call.id, call.name, verdict
        case HostJudged(credential="", server="", verdict=Verdict(by="nobody") as verdict):
            return fact.call_id, f"{fact.host}:{fact.port}", verdict
        case PatchDecided(agent=number, verdict=Verdict(by="nobody") as verdict):
            return f"agent-{number}", f"the patch of agent {number}", verdict
        case SignatureJudged(verdict=Verdict(by="nobody") as verdict):
            return fact.call_id, "ssh-agent", verdict
        case _:
            return None


def _find_call_target(call: ToolCall) -> str:
    """Return the target of a call: the file, or the command line, or else the whole input."""
    if isinstance(call.input, dict):
        for key in ("path", "command"):
            if isinstance(call.input.get(key), str):
                return f"{key}:{call.input[key]}"
    return f"{call.name}:{call.input}"


BAD_REPLIES_MAX = 3
"""The number of bad replies in a row, cut off or malformed, that the turn tolerates."""

CUT_OFF = "Your reply was cut off at the output limit. Continue exactly where it stopped."
CUT_OFF_CALL = (
    "Not run: your reply was cut off at the output limit. Make the call again, with less in it."
)
CUT_OFF_IN_CALL = (
    "Your reply was cut off at the output limit, in the middle of a call of {tools}. That call was "
    "not run. Make it again with less in it, such as a part of the text at a time."
)
EMPTY_REPLY = (
    "Your reply was empty. If something is left to do, do it. If not, say what you did or found."
)
CALL_AS_TEXT = (
    "Your reply is a tool call written as text, so nothing was run. Call the tool itself, as tools "
    "are called here. If nothing is left to do, say what you did or found, in words."
)
NOT_COMPLETE = "Not run: your reply did not end as it should."
WRAP_UP = (
    "The limit of this run is reached. Without calling any tool, say in a few sentences what is "
    "done, what is not, and what you would do next."
)

CollectNotes: TypeAlias = Callable[[], Sequence[ContextNote | Warned]]
FindUnfinished: TypeAlias = Callable[[], Awaitable[Sequence[ContextNote]]]
OnDeny: TypeAlias = Literal["fail", "continue", "ignore"]
"""On a denial when nobody can be asked: end the turn, fail at its end, or only record it."""

_WRAP_UP_ENDINGS = LIMIT_ENDINGS | {Ending.REPEATED}


class Loop:
    def __init__(
        self,
        *,
        model_client: ModelClient,
        journal: Journal,
        dispatcher: Dispatcher,
        breaker: Breaker,
        limits: TurnLimits,
        parallel: bool = True,
        collect_notes: CollectNotes = tuple,
        find_unfinished: FindUnfinished | None = None,
        completion_checks: CompletionChecks | None = None,
        on_deny: OnDeny = "continue",
        wraps_up: bool = False,
    ) -> None:
        """`collect_notes` returns what the model must know before its next reply.
        `completion_checks` are what else must hold before a turn is done.
        `find_unfinished` returns notes on remaining work; with any, a done turn continues.
        `wraps_up` allows one last reply without tools when a limit is reached."""
        self._model_client = model_client
        self._journal = journal
        self._dispatcher = dispatcher
        self._breaker = breaker
        self._limits = limits
        self._parallel = parallel
        self._collect_notes = collect_notes
        self._find_unfinished = find_unfinished
        self._completion_checks = completion_checks
        self._on_deny = on_deny
        self._wraps_up = wraps_up
        self._steps_made = 0
        self._bad_replies = 0
        self._lacks_answer = False
        """True if the last reply was no answer, and the model got a note about it."""
        self._was_done = False
        """True if the turn was done, and the model has not yet replied to the evidence."""

    @property
    def steps_left(self) -> int | None:
        """The steps left in the current turn; None if there is no limit."""
        return None if self._limits.steps is None else self._limits.steps - self._steps_made

    async def run_turn(self, message: UserMessage | None) -> TurnEnded:
        """Run a turn. Without a message, finish an interrupted one, its unanswered calls first."""
        left_over = self._begin_turn(message)
        first_fact = len(self._journal.facts)
        try:
            async with asyncio.timeout(self._limits.wall_s):
                ended = await self._run_calls(left_over) if left_over else None
                ended = ended or await self._run_steps()
                if self._may_wrap_up(ended):
                    await self._wrap_up()
        except TimeoutError:
            ended = self._limits.build_timeout()
        except asyncio.CancelledError:
            self._journal.append(TurnEnded(ending=Ending.CANCELLED, message="interrupted"))
            raise
        except RecordError:
            raise
        except SettingsError as error:
            ended = self._refuse_open_calls(error)
        except Exception as bug:
            obstacle = explain_obstacle(bug)
            if obstacle is None:
                why = f"internal error: {type(bug).__name__}"
                self._journal.append(TurnEnded(ending=Ending.INTERNAL, message=why))
                raise
            ended = self._refuse_open_calls(obstacle)
        ended = self._resolve_ending(ended, first_fact)
        self._journal.append(ended)
        return ended

    def _begin_turn(self, message: UserMessage | None) -> Sequence[ToolCall]:
        """Record the message, and return the calls to run before anything else."""
        left_over: Sequence[ToolCall] = ()
        if message is None:
            left_over = self._journal.history.find_open_calls()
        else:
            self._journal.append(TurnStarted(message=message))
        self._breaker.begin_turn()
        self._steps_made = 0
        self._bad_replies = 0
        self._lacks_answer = False
        self._was_done = False
        return left_over

    def _refuse_open_calls(self, error: SettingsError) -> TurnEnded:
        """Return the end of a turn in which no further call can run."""
        for call in self._journal.history.find_open_calls():
            self._dispatcher.refuse(call, str(error))
        return TurnEnded(ending=error.ending, message=str(error), hint=error.hint)

    def _resolve_ending(self, ended: TurnEnded, first_fact: int) -> TurnEnded:
        """Return the final ending, given everything that happened in the turn."""
        ended = DONE if self._was_done else ended
        if ended.ending is Ending.DONE and self._on_deny != "ignore":
            return find_final_denial(self._journal.facts[first_fact:]) or ended
        return (
            self._completion_checks.convert_limit_ending(ended)
            if self._completion_checks
            else ended
        )

    async def _run_steps(self) -> TurnEnded:
        while True:
            if self.steps_left is not None and self.steps_left <= 0:
                return self._limits.build_step_limit()
            self._steps_made += 1
            is_first, checks = self._steps_made == 1, self._completion_checks
            for note in self._collect_notes():
                self._journal.append(note)
            choice = checks.begin_step(is_first=is_first) if checks else "auto"
            try:
                reply = await self._model_client.send(tool_choice=choice, begins_turn=is_first)
            except ProviderError as error:
                if await self._model_client.try_to_recover(error):
                    continue
                return TurnEnded(ending=error.ending, message=str(error), hint=error.hint)
            self._was_done = False
            ended = await self._handle_reply(reply)
            if ended is not None and not await self._send_back(ended):
                return ended

    async def _send_back(self, ended: TurnEnded) -> bool:
        """Return whether work remains, though the model and all checks say it is done; note it."""
        if ended.ending is not Ending.DONE:
            return False
        notes = await self._find_unfinished() if self._find_unfinished else ()
        if not notes and self._completion_checks is not None and self.steps_left != 0:
            notes = self._completion_checks.collect_evidence()
        # A replay gets the note by the other way.
        self._was_done = any(one.why == NoteReason.EVIDENCE for one in notes)
        for one in notes:
            self._journal.append(one)
        return bool(notes)

    def _may_wrap_up(self, ended: TurnEnded) -> bool:
        return self._wraps_up and not self._was_done and ended.ending in _WRAP_UP_ENDINGS

    async def _wrap_up(self) -> None:
        self._journal.append(ContextNote(text=WRAP_UP, why=NoteReason.WRAP_UP))
        # The turn ends even without a last reply; the reason is recorded.
        with suppress(ProviderError):
            self._refuse_calls(await self._model_client.send(tool_choice="none"), NOT_COMPLETE)

    async def _handle_reply(self, reply: AssistantMessage) -> TurnEnded | None:
        """Act on the stop reason; return None to send another request."""
        match reply.stop:
            case "end" | "tool_calls" if reply.tool_calls:
                return await self._run_calls(reply.tool_calls)
            case "end" | "tool_calls":
                return await self._handle_answer()
            case "paused":
                return None
            case "length":
                tools = " and ".join(reply.cut_off)
                note = CUT_OFF_IN_CALL.format(tools=tools) if tools else CUT_OFF
                return self._handle_bad_reply(reply, Ending.LENGTH, note=note, refusal=CUT_OFF_CALL)
            case "error":
                note = f"Your reply could not be used ({reply.stop_detail}). Try again."
                return self._handle_bad_reply(
                    reply, Ending.PROVIDER_FAILED, note=note, refusal=NOT_COMPLETE
                )
            case "overflow" | "refusal" | "cancelled":
                self._refuse_calls(reply, NOT_COMPLETE)
                return await self._handle_stop(reply)

    async def _handle_answer(self) -> TurnEnded | None:
        has_form = self._completion_checks is not None and self._completion_checks.has_form
        answer = "" if has_form else self._journal.answer().strip()
        if not answer and not has_form:
            return self._ask_again(
                NoteReason.EMPTY, EMPTY_REPLY, fault="sent two empty replies in a row"
            )
        if is_call_as_text(answer):
            return self._ask_again(NoteReason.ERROR, CALL_AS_TEXT, fault="writes its calls as text")
        return await self._completion_checks.check_reply() if self._completion_checks else DONE

    async def _handle_stop(self, reply: AssistantMessage) -> TurnEnded | None:
        if reply.stop == "refusal":
            why = f": {reply.stop_detail}" if reply.stop_detail else ""
            return TurnEnded(ending=Ending.REFUSED, message=f"the model refused{why}")
        if reply.stop == "cancelled":
            return TurnEnded(ending=Ending.CANCELLED, message="interrupted")
        if await self._model_client.shrink_conversation():
            return None
        return TurnEnded(
            ending=Ending.OVERFLOW, message="the conversation no longer fits the model"
        )

    async def _run_calls(self, calls: Sequence[ToolCall]) -> TurnEnded | None:
        self._bad_replies = 0
        self._lacks_answer = False
        self._breaker.begin_step()
        first_fact = len(self._journal.facts)
        await run_batch(
            calls,
            dispatcher=self._dispatcher,
            in_parallel=self._parallel,
            steps_left=self.steps_left,
        )
        if self._breaker.tripped is not None:
            return TurnEnded(
                ending=Ending.REPEATED,
                message=self._breaker.tripped,
                hint="agentcli triage",
            )
        if self._on_deny == "fail":
            denied = find_final_denial(self._journal.facts[first_fact:])
            if denied is not None:
                return denied
        return (
            await self._completion_checks.check_after_calls() if self._completion_checks else None
        )

    def _handle_bad_reply(
        self, reply: AssistantMessage, ending: Ending, *, note: str, refusal: str
    ) -> TurnEnded | None:
        self._bad_replies += 1
        self._refuse_calls(reply, refusal)
        if self._bad_replies > BAD_REPLIES_MAX:
            return TurnEnded(
                ending=ending,
                message=f"{self._bad_replies} replies in a row ended with {reply.stop}",
            )
        if not reply.tool_calls or reply.cut_off:
            self._journal.append(ContextNote(text=note, why=NoteReason(reply.stop)))
        return None

    def _ask_again(self, why: NoteReason, note: str, *, fault: str) -> TurnEnded | None:
        """Ask the model for an answer once more, then fail: no answer is not success."""
        if self._lacks_answer:
            return TurnEnded(
                ending=Ending.PROVIDER_FAILED,
                message=f"the model {fault}",
                hint="try again, or use another model: --model",
            )
        self._lacks_answer = True
        self._journal.append(ContextNote(text=note, why=why))
        return None

    def _refuse_calls(self, reply: AssistantMessage, why: str) -> None:
        for call in reply.tool_calls:
            self._dispatcher.refuse(call, why)
