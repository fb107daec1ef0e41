"""A check that facts can have happened in the order in which they are recorded.

A turn begins before anything happens in it. A reply's calls are judged before they run and are
answered once, before the next reply. Nothing happens in a session that has ended.
"""

from collections.abc import Sequence

from agentcli.log.reader import LogFault
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Checkpointed,
    ContextNote,
    Entry,
    Fact,
    ModelFailed,
    ModelReplied,
    SessionEnded,
    SessionForked,
    SessionNamed,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Undone,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import ToolCall
from agentcli.types.tools import ErrorKind, ToolResult
from agentcli.types.verdicts import Verdict

LEAVE_CALLS_OPEN = {Ending.CANCELLED, Ending.TIME_LIMIT, Ending.INTERNAL}
"""Endings that can come before a reply's later calls were handled."""


@dataclass(slots=True)
class _Asked:
    call: ToolCall
    verdict: Verdict | None = None
    answered: bool = False


class ImpossibleOrder(Exception):
    """The fact cannot follow those before it; the message says why."""


def check_order(entries: Sequence[Entry]) -> tuple[list[LogFault], tuple[str, ...]]:
    """Return what is impossible, and the ids of calls that an interrupted turn left open."""
    order, faults = OrderCheck(), []
    for entry in entries:
        try:
            order.follow(entry.fact)
        except ImpossibleOrder as impossible:
            faults.append(LogFault(line=entry.seq, reason=str(impossible)))
    return faults, tuple(order.left_open)


def is_closed(facts: Sequence[Fact]) -> bool:
    """Return whether its process has ended it.

    The user may name it, undo things and merge its worktree afterwards."""
    afterwards = (SessionNamed, Undone, ContextNote, Checkpointed)
    last = next((fact for fact in reversed(facts) if not isinstance(fact, afterwards)), None)
    return isinstance(last, SessionEnded)


class OrderCheck:
    def __init__(self) -> None:
        self._began = False
        self._ended = False
        self._in_turn = False
        self._forked = False
        self._goes_on = False
        self._asked: list[_Asked] = []
        self.left_open: list[str] = []
        """The ids of calls without a result in turns that have ended."""

    def follow(self, fact: Fact) -> None:
        """Check the next fact. Raise ImpossibleOrder, and go on as if the fact had happened."""
        began, self._began = self._began, True
        if began == isinstance(fact, SessionStarted):
            raise ImpossibleOrder("a session starts once, with its first record")
        match fact:
            case SessionEnded():
                self._end(fact)
            case SessionForked():
                self._forked = True
            case SessionResumed():
                self._resume()
            case TurnStarted():
                self._start_turn()
            case ModelReplied() | ModelFailed() | CallJudged() | CallFinished():
                self._check_fact(fact)
            case TurnEnded():
                self._end_turn(fact)
            case _:
                pass

    def _end(self, fact: SessionEnded) -> None:
        """End the session. If the end of its turn could not be recorded, it must have failed."""
        self._ended = True
        if self._in_turn and not self._goes_on and fact.exit_code == 0:
            raise ImpossibleOrder("the session ends without an error within a turn")

    def _resume(self) -> None:
        self._goes_on, self._forked, self._ended = self._forked, False, False
        if self._goes_on:
            return  # a fork may be cut in the middle of a turn
        was_in_turn, self._in_turn = self._in_turn, False
        if was_in_turn:
            raise ImpossibleOrder("resumed, but the turn before had not ended")

    def _start_turn(self) -> None:
        was_in_turn, self._in_turn = self._in_turn, True
        self._asked = []
        if was_in_turn:
            raise ImpossibleOrder("a turn starts within a turn")
        if self._ended:
            raise ImpossibleOrder("a turn starts in a session that has ended")

    def _check_fact(self, fact: Fact) -> None:
        match fact:
            case ModelReplied(message=message):
                unanswered = self._list_unanswered()
                self._asked = [_Asked(call) for call in message.tool_calls]
                if unanswered:
                    raise ImpossibleOrder(
                        f"a reply before {_describe_calls(unanswered)} got a result"
                    )
            case CallJudged(call=call, verdict=verdict):
                self._judge(call, verdict)
            case CallFinished(result=result):
                self._finish(result)
            case _:
                pass
        if not self._in_turn:
            raise ImpossibleOrder(f"{fact.type} outside of a turn")

    def _judge(self, call: ToolCall, verdict: Verdict) -> None:
        asked = self._open(call.id)
        if asked is None and call.caller is not None:
            asked = _Asked(call)  # made by a program that the model wrote
            self._asked.append(asked)
        if asked is None:
            raise ImpossibleOrder(f"a verdict on {call.id}, which is not an open call")
        if asked.verdict is not None:
            raise ImpossibleOrder(f"a second verdict on {call.id}")
        asked.verdict = verdict

    def _finish(self, result: ToolResult) -> None:
        asked = self._open(result.call_id)
        if asked is None:
            raise ImpossibleOrder(f"a result for {result.call_id}, which is not an open call")
        asked.answered = True
        if asked.call.name != result.name:
            raise ImpossibleOrder(f"{result.call_id} was a call of {asked.call.name}")
        if not _was_executed(result):
            return
        if asked.verdict is None:
            raise ImpossibleOrder(f"{result.call_id} ({result.name}) ran without a verdict")
        if asked.verdict.decision not in ("allow", "modify"):
            raise ImpossibleOrder(f"{result.call_id} ({result.name}) ran, but it was denied")

    def _end_turn(self, ended: TurnEnded) -> None:
        was_in_turn, self._in_turn = self._in_turn, False
        unanswered, self._asked = self._list_unanswered(), []
        self.left_open += [asked.call.id for asked in unanswered]
        if not was_in_turn and ended.ending is not Ending.DENIED:  # a prompt can be refused
            raise ImpossibleOrder("a turn ends that did not start")
        if unanswered and ended.ending not in LEAVE_CALLS_OPEN:
            raise ImpossibleOrder(
                f"the turn ends before {_describe_calls(unanswered)} got a result"
            )

    def _open(self, call_id: str) -> _Asked | None:
        for asked in self._asked:
            if asked.call.id == call_id and not asked.answered:
                return asked
        return None

    def _list_unanswered(self) -> list[_Asked]:
        return [asked for asked in self._asked if not asked.answered]


def _was_executed(result: ToolResult) -> bool:
    """Return whether the call ran. Errors without details can precede the verdict.

    Those are unknown tools, bad input and limits.
    """
    return result.status == "ok" or result.error is ErrorKind.TIMEOUT or result.details is not None


def _describe_calls(asked: list[_Asked]) -> str:
    return ", ".join(one.call.id for one in asked)
