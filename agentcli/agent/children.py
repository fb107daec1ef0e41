"""Child agents: the same loop with fewer tools and its own journal; one answer for the parent.

A child's requests count against its parent's budget, and its calls pass the same judge.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Protocol

from agentcli.agent.journal import Journal
from agentcli.agent.loop import Loop
from agentcli.system.process import run_to_completion
from agentcli.types.answers import AnswerParts
from agentcli.types.errors import Ending, RunOutcome, ToolError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    ContextNote,
    Event,
    NoteReason,
    SessionEnded,
    TurnEnded,
)
from agentcli.types.messages import Text, UserMessage
from agentcli.types.spending import NO_SPENDING, compute_spending
from agentcli.types.tools import ChildTurn, ErrorKind, Output, ToolContext

EVERY_TOOL = "*"
"""Stands for all tools of the parent."""
ANSWER_CHARS = 8_000
STATUS_CHARS = 60
MAX_PARALLEL_CHILDREN = 6
"""The number of children that work at the same time; the others wait for a slot."""
CHILD_INSTRUCTIONS = (
    "You are a child agent: another agent gives you a task and sees nothing but your last message. "
    "Find out what is asked, then answer in a few sentences, with the paths and line numbers that "
    "prove it. Say so if you did not find it."
)
WORKER_INSTRUCTIONS = (
    "You are an agent in a git worktree of your own, a copy of the user's files: another agent "
    "gives you a task, and nobody answers questions. Make the change, check it, then say in a few "
    "sentences what you did and what you did not check. Do not commit or push: the user gets your "
    "changes as a patch."
)
INTERRUPTED = TurnEnded(ending=Ending.CANCELLED, message="it was interrupted")


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The instructions and tools of a child, from a Markdown file of the user or the project."""

    name: str = ""
    description: str = ""
    instructions: str = ""
    tools: tuple[str, ...] | None = None
    """The tools that the child may use; None means all tools that only read."""
    without: tuple[str, ...] = ()
    """Tools that the child may not use, whatever `tools` says."""
    left_out: tuple[str, ...] = ()
    """What its file says that has no effect here."""
    model: str = ""
    """The model that it uses; empty for the session's model for child agents."""
    effort: str = ""
    """How much that model thinks; empty for what the model is set to."""
    is_isolated: bool = False
    """True if it works in a git worktree of its own, and its changes become a patch."""
    is_background: bool = False
    """True if it works beside the session, which does not wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    journal: Journal
    """The child's own journal; its first entries are already recorded."""
    loop: Loop
    log_path: Path
    read_log_head: Callable[[], str]
    """Return the hash of the last record of the child's log."""
    close: Callable[[], Coroutine[Any, Any, None]]
    """End its processes and close the log; nothing more is recorded afterwards."""

    def open_turn(self, role: Role, task: str) -> Awaitable[TurnEnded]:
        """Record its instructions and begin its turn."""
        general = WORKER_INSTRUCTIONS if role.is_isolated else CHILD_INSTRUCTIONS
        opening = f"{general}\n\n{role.instructions}".strip()
        self.journal.append(ContextNote(text=opening, why=NoteReason.ROLE))
        return self.loop.run_turn(UserMessage(content=(Text(text=task),)))


class OpenChild(Protocol):
    """Opens a loop for a task, with the role's tools, its own journal and limits."""

    def __call__(
        self, role: Role, task: str, *, listen: Callable[[Event], None], context: ToolContext
    ) -> Child:
        """Open it. `listen` gets its events. `context` is that of the parent's call."""
        ...


class ChildRunner:
    def __init__(self, roles: Iterable[Role], *, open_child: OpenChild) -> None:
        self._roles = {"": Role(), **{role.name: role for role in roles}}
        self._open_child = open_child
        self._slots = asyncio.Semaphore(MAX_PARALLEL_CHILDREN)

    def find_role(self, name: str) -> Role:
        """Return the role; raise ToolError if there is none of that name."""
        if name in self._roles:
            return self._roles[name]
        names = [known for known in self._roles if known]
        near = get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        known = f"The roles are {', '.join(names)}." if names else "Leave role out."
        raise ToolError(f"There is no role {name!r}.{hint} {known}", kind=ErrorKind.INVALID_INPUT)

    async def run(self, task: str, name: str, *, context: ToolContext) -> Output:
        role = self.find_role(name)
        async with self._slots:
            return await self._run(task, role, context=context)

    async def _run(self, task: str, role: Role, *, context: ToolContext) -> Output:
        watch = ChildProgress(context.progress)
        child = self._open_child(role, task, listen=watch, context=context)
        try:
            ended = await child.open_turn(role, task)
            return watch.build_output(role, ended, child=child)
        except asyncio.CancelledError:
            # The cancellation carries the output, for the record of the call.
            raise asyncio.CancelledError(
                watch.build_output(role, INTERRUPTED, child=child)
            ) from None
        finally:
            await run_to_completion(child.close())


class ChildProgress:
    """The progress of a child, reported to the user, and the totals for its result."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._calls = 0
        self.spending = NO_SPENDING
        self.doing = ""
        """Its latest call, in a few words."""
        self._said = AnswerParts()
        self._origin = ""

    def __call__(self, event: Event) -> None:
        self.spending += compute_spending(event)
        self._said(event)
        match event:
            case CallJudged(call=call):
                self._calls += 1
                target = next(iter(call.input.values()), "") if isinstance(call.input, dict) else ""
                self.doing = " ".join(f"{call.name} {target}".split())[:STATUS_CHARS]
                self._progress(f"call {self._calls}: {self.doing}\n")
            case CallFinished(result=result):
                self._origin = self._origin or result.origin
            case _:
                pass

    def build_output(self, role: Role, ended: TurnEnded, *, child: Child) -> Output:
        """Build one clear result, however the child ended; record the same ending in its log."""
        outcome = RunOutcome(ending=ended.ending, message=ended.message, hint=ended.hint)
        child.journal.append(
            SessionEnded(
                exit_code=outcome.exit_code,
                ending=outcome.ending,
                message=outcome.message,
                hint=outcome.hint,
            )
        )
        text = self._said.last_said.strip()
        error = _classify_error(ended, text)
        answer = _truncate_answer(text, child.log_path)
        return Output(
            content=(Text(text=answer if error is None else _describe_failure(ended, answer)),),
            details=self._build_details(role.name, ended, child=child),
            error=error,
            truncated=answer != text,
            origin=self._origin,
        )

    def _build_details(self, role: str, ended: TurnEnded, *, child: Child) -> ChildTurn:
        return ChildTurn(
            role=role,
            ending=ended.ending,
            calls=self._calls,
            usage=self.spending.usage,
            cost_usd=self.spending.cost_usd,
            log_path=str(child.log_path),
            log_head=child.read_log_head(),
        )


def _classify_error(ended: TurnEnded, answer: str) -> ErrorKind | None:
    if ended.ending is Ending.CANCELLED:
        return ErrorKind.CANCELLED
    return None if ended.ending is Ending.DONE and answer else ErrorKind.FAILED


def _truncate_answer(answer: str, log: Path) -> str:
    if len(answer) <= ANSWER_CHARS:
        return answer
    return f"{answer[:ANSWER_CHARS]}… [{len(answer)} characters; all of it is in {log}]"


def _describe_failure(ended: TurnEnded, answer: str) -> str:
    if ended.ending is Ending.DONE:
        return "The child agent ended without an answer."
    why = ended.message or ended.ending.value.replace("_", " ")
    last = f" Its last message: {answer}" if answer else ""
    return f"The child agent did not finish: {why}.{last}"
