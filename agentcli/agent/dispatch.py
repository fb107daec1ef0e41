"""One tool call, from request to result, in seven visible steps.

A call always ends with a result. Only two things escape: cancellation, which is recorded first, and
errors that end the turn. Those are a log that cannot be written, or a machine that may run nothing.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import fields, replace
from itertools import groupby
from pathlib import Path
from typing import Any, TypeAlias

from agentcli.agent.limits import Breaker, Pace
from agentcli.agent.toolset import Toolset
from agentcli.system.output import cap
from agentcli.system.plain_text import escape_controls
from agentcli.types.deltas import CallProgress
from agentcli.types.errors import AgentError, ToolError, lacks_memory
from agentcli.types.events import CallFinished, CallJudged, Emit, HookRan
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Document, Image, Json, Text, ToolCall
from agentcli.types.tools import (
    Details,
    Effect,
    ErrorKind,
    FileView,
    Output,
    PreparedCall,
    Structured,
    Tool,
    ToolContext,
    ToolResult,
    format_origin_label,
)
from agentcli.types.verdicts import Judge, Reaction, Verdict

HARD_CAP_BYTES = 100_000
"""The most text in one result, for tools that do not bound their own."""

ResultHook: TypeAlias = Callable[[PreparedCall, Output], Awaitable[Reaction | None]]
"""Reacts to the output of a call; None if the hook does not apply to this call."""
FindOrigin: TypeAlias = Callable[[PreparedCall, Output], str]
"""Returns where the text of a result comes from, or an empty string for the workspace."""
Explain: TypeAlias = Callable[[ToolResult], str]
"""Returns what the model must know to read a result, or an empty string."""
Clean: TypeAlias = Callable[[str], str]
"""Removes from a text what the model, the user and the log must not see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableCall:
    """A call that cannot run: there is no such tool, or the input is not valid."""

    call: ToolCall
    error: Exception

    @property
    def effect(self) -> Effect:
        """READ if the call is refused. Any other error counts as more than that."""
        return Effect.READ if isinstance(self.error, ToolError) else Effect.EXECUTE


class Dispatcher:
    def __init__(
        self,
        *,
        toolset: Toolset,
        judge: Judge,
        emit: Emit,
        workspace: Path,
        breaker: Breaker,
        pace: Pace,
        result_hooks: Sequence[ResultHook] = (),
        failure_hooks: Sequence[ResultHook] = (),
        clean: Clean = str,
        check: Callable[[ToolCall], None] = lambda call: None,
        explain: Explain = lambda result: "",
        find_origin: FindOrigin = lambda prepared, output: output.origin,
    ) -> None:
        """`failure_hooks` see the error of a tool that refused to run. `check` raises ToolError for
        a call that no rule could let run."""
        self._toolset = toolset
        self._judge = judge
        self._emit = emit
        self._workspace = workspace
        self._breaker = breaker
        self._pace = pace
        self._result_hooks = result_hooks
        self._failure_hooks = failure_hooks
        self._clean = clean
        self._check = check
        self._explain = explain
        self._find_origin = find_origin

    async def dispatch(self, call: ToolCall) -> ToolResult:
        return await self.run(self.prepare(call))

    def prepare(self, call: ToolCall) -> PreparedCall | UnusableCall:
        """Parse the call, so that its effect is known before it runs."""
        try:
            tool = self._toolset.resolve(call.name)  # 1 resolve
            return self._validate(call, tool)  # 2 validate
        except Exception as error:  # noqa: BLE001 - the tool boundary: `run` reports it
            return UnusableCall(call=call, error=error)

    async def run(
        self, prepared: PreparedCall | UnusableCall, *, steps_left: int | None = None
    ) -> ToolResult:
        """Run a call. `steps_left` is what its agent has left, for tools that start another."""
        began = time.monotonic()
        try:
            prepared, note = await self._guard(prepared)  # 3 guard
            began = time.monotonic()  # the time spent on approval is not part of the duration
            context = self._build_context(prepared, steps_left)
            output = await self._execute(prepared, context)  # 4 execute
            output = await self._run_hooks(prepared, output)  # 5 hooks
            result = self._normalize(prepared, output, note=note)  # 6 normalize and bound
        except ToolError as error:
            result = self._build_error(
                prepared.call, error.kind, message=str(error), details=error.details
            )
        except asyncio.CancelledError as stopped:
            self._record(prepared.call, self._build_cancelled(prepared, stopped), began=began)
            raise
        except AgentError:
            raise  # nothing can be recorded, or no command can run here: the turn is over
        except Exception as error:  # the tool boundary: failures are data
            if lacks_memory(error):
                raise  # no other call would go better: the turn is over
            message = f"{type(error).__name__}: {error}"
            result = self._build_error(prepared.call, ErrorKind.FAILED, message=message)
        return self._record(prepared.call, result, began=began)  # 7 record

    def refuse(self, call: ToolCall, why: str) -> None:
        """Record an error result for a call that must not run."""
        self._record(
            call, self._build_error(call, ErrorKind.NOT_RUN, message=why), began=time.monotonic()
        )

    def _validate(self, call: ToolCall, tool: Tool) -> PreparedCall:
        self._check(call)
        args = tool.parse(call.input)
        return PreparedCall(call=call, tool=tool, args=args, effect=tool.effect(args))

    async def _guard(self, prepared: PreparedCall | UnusableCall) -> tuple[PreparedCall, str]:
        """Return the call as it may run, and a note for the model about a change or a remark."""
        if isinstance(prepared, UnusableCall):
            raise prepared.error
        self._pace.admit(prepared.call.name)
        tool, args, context = prepared.tool, prepared.args, self._build_context(prepared)
        verdict = await self._judge(prepared, preview=lambda: tool.preview(args, context))
        note = ""
        if verdict.decision == "modify":
            prepared = self._validate(replace(prepared.call, input=verdict.input), tool)
            shown = json.dumps(self._clean_data(verdict.input), ensure_ascii=False)
            note = f"[The input was changed before it ran ({verdict.reason}): {shown}]"
        elif verdict.decision == "allow" and verdict.instead:
            note = f"[The user allowed it and said: {verdict.instead}]"
        self._emit(CallJudged(call=prepared.call, effect=prepared.effect, verdict=verdict))
        if verdict.decision not in ("allow", "modify"):
            raise ToolError(_describe_denial(verdict), kind=ErrorKind.DENIED)
        return replace(prepared, grants=verdict.grants), note

    async def _execute(self, prepared: PreparedCall, context: ToolContext) -> Output:
        try:
            return await prepared.tool.run(prepared.args, context)
        except ToolError as error:
            if not self._failure_hooks:
                raise
            failed = Output(content=(Text(text=str(error)),), error=error.kind)
            said = await self._run_hooks(prepared, failed, hooks=self._failure_hooks)
            text = "\n".join(one.text for one in said.content if isinstance(one, Text))
            raise ToolError(text, kind=error.kind, details=error.details) from error

    async def _run_hooks(
        self, prepared: PreparedCall, output: Output, *, hooks: Sequence[ResultHook] | None = None
    ) -> Output:
        for hook in self._result_hooks if hooks is None else hooks:
            reaction = await hook(prepared, output)
            if reaction is None:
                continue
            self._emit(
                HookRan(
                    hook=reaction.hook,
                    event=reaction.event,
                    call_id=prepared.call.id,
                    decision=reaction.decision,
                    reason=reaction.reason,
                )
            )
            if reaction.decision == "rejected":
                raise ToolError(
                    f"It ran, but {reaction.hook} withheld the result: {reaction.reason}",
                    kind=ErrorKind.DENIED,
                    details=output.details,
                )
            output = _as_shown(reaction.output, before=output) if reaction.output else output
        return output

    def _build_context(self, prepared: PreparedCall, steps_left: int | None = None) -> ToolContext:
        call_id = prepared.call.id

        def report_progress(text: str) -> None:
            self._emit(CallProgress(call_id=call_id, text=escape_controls(self._clean(text))))

        return ToolContext(
            call_id=call_id,
            workspace=self._workspace,
            progress=report_progress,
            effect=prepared.effect,
            grants=prepared.grants,
            dispatch=self.dispatch,
            steps_left=steps_left,
        )

    def _record(self, call: ToolCall, result: ToolResult, *, began: float) -> ToolResult:
        for note in (self._breaker.observe(call, result), self._explain(result)):
            if note:
                result = replace(result, content=(*result.content, Text(text=f"\n{note}")))
        self._emit(CallFinished(result=result, duration_s=round(time.monotonic() - began, 4)))
        return result

    def _normalize(self, prepared: PreparedCall, output: Output, *, note: str) -> ToolResult:
        """Build a result that is never empty, never above the cap, and always encodable."""
        content, was_cut = self._merge_content(output.content)
        origin = self._find_origin(prepared, output)
        label = format_origin_label(origin) if origin and content else ""
        content = _prepend_lines(content, [part for part in (note, label) if part])
        return ToolResult(
            call_id=prepared.call.id,
            name=prepared.call.name,
            status="error" if output.error else "ok",
            content=tuple(content) or (Text(text="[no output]"),),
            details=self._clean_details(
                _without_shown(output.details) if was_cut else output.details
            ),
            error=output.error,
            truncated=output.truncated or was_cut,
            origin=origin,
            found=output.found,
        )

    def _merge_content(
        self, content: Sequence[Text | Image | Document]
    ) -> tuple[Sequence[Text | Image | Document], bool]:
        """Merge the texts between media; if the text is too long, put it all before the media."""
        text, was_cut = self._limit_text(_join_texts(content))
        media = [one for one in content if not isinstance(one, Text)]
        if was_cut or not media:
            return [*([Text(text=text)] if text else []), *media], was_cut
        blocks: list[Text | Image | Document] = []
        for is_text, run in groupby(content, key=lambda one: isinstance(one, Text)):
            if not is_text:
                blocks += run
            elif limited := self._limit_text(_join_texts(run))[0]:
                blocks.append(Text(text=limited))
        return blocks, False

    def _build_cancelled(
        self, prepared: PreparedCall | UnusableCall, cancelled: asyncio.CancelledError
    ) -> ToolResult:
        """Build the result of a cancelled call, from the partial output that the tool attached."""
        partial = next((arg for arg in cancelled.args if isinstance(arg, Output)), None)
        if partial is None or isinstance(prepared, UnusableCall):
            return self._build_error(prepared.call, ErrorKind.CANCELLED, message="Cancelled.")
        return self._normalize(prepared, partial, note="")

    def _build_error(
        self, call: ToolCall, kind: ErrorKind, *, message: str, details: Details | None = None
    ) -> ToolResult:
        text, _ = self._limit_text(message)
        return ToolResult(
            call_id=call.id,
            name=call.name,
            status="error",
            content=(Text(text=text or kind.value),),
            details=self._clean_details(details),
            error=kind,
        )

    def _limit_text(self, text: str) -> tuple[str, bool]:
        # Lone surrogates could not be sent by any JSON encoder downstream.
        encodable = text.encode("utf-8", "replace").decode("utf-8")
        return cap(escape_controls(self._clean(encodable)), HARD_CAP_BYTES)

    def _clean_details(self, details: Details | None) -> Details | None:
        if details is None:
            return None
        if isinstance(details, Structured):
            return replace(details, data=self._clean_data(details.data))
        texts: dict[str, Any] = {
            field.name: escape_controls(self._clean(value))
            for field in fields(details)
            if field.name != "type" and isinstance(value := getattr(details, field.name), str)
        }
        return replace(details, **texts)

    def _clean_data(self, value: Json) -> Json:
        match value:
            case str():
                return self._limit_text(value)[0]
            case dict():
                return {
                    self._limit_text(key)[0]: self._clean_data(one) for key, one in value.items()
                }
            case list():
                return [self._clean_data(one) for one in value]
            case _:
                return value


def _as_shown(output: Output, *, before: Output) -> Output:
    """Return the output of a hook; if it removed lines of a file, they count as not shown."""
    if _join_texts(before.content) in _join_texts(output.content):
        return output
    return replace(output, details=_without_shown(output.details))


def _without_shown(details: Details | None) -> Details | None:
    return replace(details, shown=()) if isinstance(details, FileView) else details


def _join_texts(content: Iterable[Text | Image | Document]) -> str:
    return "\n".join(block.text for block in content if isinstance(block, Text))


def _prepend_lines(
    content: Sequence[Text | Image | Document], lines: Sequence[str]
) -> Sequence[Text | Image | Document]:
    """Return the content with lines before everything else."""
    if not lines:
        return content
    if content and isinstance(content[0], Text):
        return [Text(text="\n".join([*lines, content[0].text])), *content[1:]]
    return [Text(text="\n".join(lines)), *content]


def _describe_denial(verdict: Verdict) -> str:
    """Return the denial, with the remedy on a line of its own.

    Users see the first line, and the remedy at the end of the run. Logs of older versions have the
    remedy in the reason."""
    is_said = not verdict.remedy or verdict.remedy in verdict.reason
    return f"Denied: {verdict.reason}" + ("" if is_said else f"\nTo permit it: {verdict.remedy}")
