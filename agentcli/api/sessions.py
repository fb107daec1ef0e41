"""Sessions for programs: the same settings, log, sandbox, rules and costs as on the command line.

`AsyncSession` runs in the event loop of its caller; `blocking` has the same without one.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack

from agentcli.api.tools import FunctionTool, call_program
from agentcli.session.builder import open_session
from agentcli.session.requirements import RunRequirements
from agentcli.session.session import InterruptibleTurn
from agentcli.session.session import Session as RunningSession
from agentcli.settings import load_settings
from agentcli.types.errors import AgentError, Ending, Exit, RunOutcome, UsageError
from agentcli.types.events import Event, Fact, TurnEnded
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json, ToolCall, Usage
from agentcli.types.settings import (
    CacheChoice,
    MemoryChoice,
    SandboxChoice,
    Settings,
    ToolSearch,
    Transport,
)
from agentcli.types.spending import NO_SPENDING, Spending, compute_spending
from agentcli.types.verdicts import ApprovalSpan, Mode, ProgramSpan, Question, Verdict
from agentcli.ui.images import load_named_images
from agentcli.ui.tally import Tally, collect_changes

Answer: TypeAlias = bool | Verdict
Approve: TypeAlias = Callable[[Question], Answer | Awaitable[Answer]]
"""Decides on a call that needs approval: True, False, or a verdict of `allow` or `deny`."""


class SessionOptions(TypedDict, total=False):
    """Settings by their names in docs/reference/settings.md, and the rules of the command line."""

    model: str
    mode: Mode
    max_turns: int
    max_cost: float
    agent_max_cost: float
    agents_max: int
    strict_cost: bool
    max_tokens: int
    timeout: float | str
    tool_timeout: float | str
    command_processes: int
    command_memory: int | str
    command_disk: int | str
    command_output: int | str
    delegate: bool
    programs: bool
    symbols: bool
    memory: MemoryChoice
    web: bool
    search: str
    computer: bool
    hosted: list[str]
    checks: dict[str, str]
    parallel: bool
    calls_per_minute: int
    effort: str
    cache: CacheChoice
    service_tier: str
    small_model: str
    fallback: str
    evaluator: str
    transport: Transport
    tool_search: ToolSearch
    store: bool
    window: int
    max_wait: float | str
    stall_timeout: float | str
    providers: dict[str, dict[str, Any]]
    otel: bool
    otel_content: bool
    sandbox: SandboxChoice
    directories: list[str]
    mcp_config: str
    mcp_wait: float | str
    allow: Sequence[str]
    deny: Sequence[str]
    network: Sequence[str]
    policy: Path
    pass_env: Sequence[str]
    mask: Sequence[str]
    add_dir: Sequence[str]
    trust_project: bool


_LISTS = frozenset({"allow", "deny", "network", "pass_env", "mask", "add_dir", "images", "verify"})


# The answers to a question


def allow(*, lasts: ApprovalSpan = "once", input: Json = None) -> Verdict:
    """Return an approval: of this call, or of calls like it until the turn or the session ends.

    `input` are other arguments to run the call with, of which the model is informed."""
    if lasts == "always":
        raise UsageError(
            "a program cannot approve always", hint='write allow=["RULE"] where the session is made'
        )
    return Verdict(
        decision="allow" if input is None else "modify",
        by="user",
        reason="the program approved it",
        input=input,
        lasts=lasts if input is None else "once",
    )


def deny(reason: str = "the program denied it", *, lasts: ProgramSpan = "once") -> Verdict:
    """Return a denial: of this call, or of calls like it until the turn or the session ends.

    The model reads the reason."""
    return Verdict(
        decision="deny", by="user", reason=reason, lasts=lasts if lasts != "once" else None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """The result of one turn."""

    answer: str
    data: Json
    """The answer as data, if the session has an `answer_schema`; else None."""
    outcome: RunOutcome
    requests: int
    """The requests that the model answered."""
    calls: int
    usage: Usage
    cost_usd: float | None
    """None if the price of a request is not known."""
    duration_s: float
    changed: dict[str, tuple[int, int]]
    """The lines added and removed, by changed file."""
    patch: str
    """What was changed in the workspace, as a patch."""
    denials: tuple[tuple[ToolCall, Verdict], ...]

    @property
    def is_done(self) -> bool:
        return self.outcome.ending is Ending.DONE

    @property
    def exit_code(self) -> Exit:
        """The exit code that `agentcli run` would end with."""
        return self.outcome.exit_code

    def raise_unless_done(self) -> None:
        """Raise AgentError with the reason, unless the turn ended well."""
        if not self.is_done:
            raise AgentError(self.outcome.message or self.outcome.ending, hint=self.outcome.hint)


class AsyncSession:
    def __init__(
        self,
        workspace: str | Path | None = None,
        *,
        tools: Sequence[FunctionTool] = (),
        approve: Approve | None = None,
        resume: str | None = None,
        verify: Sequence[str] = (),
        answer_schema: Json = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        """Describe a session; `async with` opens it.

        `workspace` is the directory to work in; if it is None, the current one, or that of the
        session to continue. `approve` is asked about calls that neither mode nor rules decide; they
        are denied if it is None. `resume` is a session to continue, by id or name. `verify` are
        commands that decide whether a turn is done. `answer_schema` is the JSON Schema of the
        answers."""
        _require_lists(verify=verify, **options)
        for one in tools:
            if not isinstance(one, FunctionTool):
                raise UsageError(f"{one!r:.80} is not a tool", hint="write @tool above it")
        if answer_schema is not None:
            _require_schema(answer_schema)
        self._workspace = None if workspace is None else Path(workspace)
        self._tools = tuple(tools)
        self._approve = approve
        self._resume = resume
        self._options = options
        self._requirements = RunRequirements(checks=tuple(verify), answer_schema=answer_schema)
        self._session: RunningSession | None = None
        self._turn: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._tally = Tally()
        self._interruptible: InterruptibleTurn | None = None
        self._result: TurnResult | None = None
        self._outcome = RunOutcome(ending=Ending.DONE)

    async def __aenter__(self) -> "AsyncSession":
        """Open the session. Raise AgentError if that is not possible."""
        if self._session is not None:
            raise UsageError("the session is open already", hint="make another AsyncSession(...)")
        past, workspace = None, self._workspace
        if self._resume is not None:
            from agentcli.log.sessions import choose_session

            past = choose_session(self._resume, self._workspace)
            workspace = past.choose_workspace(self._workspace)
        self._session = open_session(
            self._load_settings(workspace),
            listeners=[self._listen],
            ask_user=self._ask if self._approve else None,
            resume=past.paths if past else None,
            requirements=self._requirements,
            tools=self._tools,
        )
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop everything that the session started, and close its log."""
        session, self._session = self._session, None
        if session is None:
            return
        if self._turn is not None:
            await _cancel(self._turn)
        await session.close(self._outcome.exit_code, outcome=self._outcome)

    @property
    def id(self) -> str:
        """The id by which `agentcli trace`, `undo` and others know the session."""
        return self._open_session.paths.id

    @property
    def log(self) -> Path:
        return self._open_session.paths.log

    @property
    def facts(self) -> Sequence[Fact]:
        """All facts so far; in a resumed session from its very beginning."""
        return tuple(self._open_session.facts)

    @property
    def spending(self) -> Spending:
        """The tokens and the money that all turns have cost."""
        return sum(map(compute_spending, self._open_session.facts), start=NO_SPENDING)

    @property
    def result(self) -> TurnResult | None:
        """The result of the latest turn; None before the first has ended."""
        return self._result

    async def run(self, prompt: str, *, images: Sequence[str | Path] = ()) -> TurnResult:
        """Run a turn. However the model's work ends, that is the result.

        Raise AgentError if the turn cannot be run or recorded. When cancelled, stop the turn."""
        async with aclosing(self.stream(prompt, images=images)) as events:
            async for _ in events:
                pass
        assert self._result is not None
        return self._result

    async def stream(
        self, prompt: str, *, images: Sequence[str | Path] = ()
    ) -> AsyncGenerator[Event, None]:
        """Run a turn and yield its events: facts, and deltas while they happen.

        `result` has the result after the last one. Leaving early stops the turn. Raise AgentError
        as `run` does."""
        session = self._open_session
        _require_lists(images=images)
        require_text(prompt)
        if self._turn is not None:
            raise UsageError("a turn is running", hint="await it, or make another session")
        self._events, self._tally, self._result = asyncio.Queue(), Tally(), None
        self._outcome = RunOutcome(ending=Ending.CANCELLED)
        turn = self._turn = asyncio.ensure_future(
            self._run_turn(session, prompt, images=[*map(Path, images)])
        )
        turn.add_done_callback(lambda _: self._events.put_nowait(None))
        try:
            while (event := await self._events.get()) is not None:
                yield event
            await turn
        finally:
            await _cancel(turn)
            self._turn = None

    def steer(self, text: str) -> None:
        """Send a message to the running turn, before the model's next reply."""
        session = self._open_session
        require_text(text)
        session.add_attachments(session.steering.add(text), ())

    def interrupt(self) -> None:
        """Stop the running turn. Its result has the ending `cancelled`.

        The second time, do not wait any longer for commands that do not end."""
        if self._interruptible is not None:
            self._interruptible.interrupt()

    async def _run_turn(
        self, session: RunningSession, prompt: str, *, images: Sequence[Path]
    ) -> None:
        attached = await asyncio.to_thread(load_named_images, images)
        self._interruptible = InterruptibleTurn(session)
        ended = await self._interruptible.run(prompt, attachments=attached)
        self._result = await self._build_result(session, ended)
        self._outcome = self._result.outcome

    async def _build_result(self, session: RunningSession, ended: TurnEnded) -> TurnResult:
        tally = self._tally
        changes = await collect_changes(tally, session)
        return TurnResult(
            answer=tally.answer,
            data=tally.structured,
            outcome=RunOutcome(ending=ended.ending, message=ended.message, hint=ended.hint),
            requests=tally.turns,
            calls=tally.calls,
            usage=tally.usage,
            cost_usd=tally.spending.cost_usd,
            duration_s=tally.duration_s,
            changed=dict(tally.changed),
            patch=changes.patch,
            denials=tuple(tally.denials),
        )

    @property
    def _open_session(self) -> RunningSession:
        if self._session is None:
            raise UsageError("the session is not open", hint="with Session(...) as session:")
        return self._session

    def _load_settings(self, workspace: Path | None) -> Settings:
        return load_settings(self._options, workspace=workspace or Path())

    def _listen(self, event: Event) -> None:
        self._tally(event)
        self._events.put_nowait(event)

    async def _ask(self, question: Question) -> Verdict:
        assert self._approve is not None
        try:
            answer = await call_program(self._approve, question)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the program's own code
            return deny(f"the program failed to decide: {type(error).__name__}: {error}")
        if isinstance(answer, bool):
            return allow() if answer else deny()
        if not isinstance(answer, Verdict) or answer.decision == "ask":
            return deny(f"the program answered {answer!r:.80}, which is no verdict")
        return replace(answer, by="user")


def _require_lists(**given: object) -> None:
    """Raise UsageError if a single text is given where a list of texts is meant."""
    for name in _LISTS & given.keys():
        if isinstance(given[name], str):
            raise UsageError(f"{name} must be a list of texts", hint=f"{name}=[{given[name]!r}]")


def require_text(message: object) -> None:
    """Raise UsageError unless it is a text: nothing else can be recorded or sent."""
    if not isinstance(message, str):
        raise UsageError(f"{message!r:.80} is not a text", hint="write the message as a str")


def _require_schema(schema: Json) -> None:
    """Raise UsageError if no answer could match the schema: the model would be paid for nothing."""
    from agentcli.system.jsonschema import find_schema_fault

    if fault := find_schema_fault(schema):
        raise UsageError(
            f"answer_schema cannot be the form of an answer: {fault}",
            hint='answer_schema={"type": "object", "properties": {...}}',
        )


async def _cancel(turn: "asyncio.Task[None]") -> None:
    """Cancel the turn unless that was done, and wait until it has ended."""
    if not turn.cancelling():
        turn.cancel()
    await asyncio.wait([turn])
