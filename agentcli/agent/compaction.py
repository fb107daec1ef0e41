"""Compaction: keep the conversation within the model's window.

Old results are trimmed first, then a summary replaces the conversation. New results that do not fit
are cut, each with a note that says where to continue. The next request is the first to carry them,
so none is left out: small ones stay whole, and large ones share the space that is left.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

from agentcli.agent.history import find_last_reply, find_new_results
from agentcli.agent.journal import Journal
from agentcli.agent.usage_recorder import build_usage_recorder
from agentcli.system.lazy import compile_later
from agentcli.system.tokens import (
    ROUGH_BYTES,
    RequestSize,
    count_message_tokens,
    count_result_tokens,
    estimate,
    estimate_fast,
)
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.events import Compacted, ResultsTrimmed, TokensSpent, TrimmedResult, Warned
from agentcli.types.messages import (
    AssistantMessage,
    Image,
    Json,
    Text,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message, Request, ServedModel
from agentcli.types.tools import Command, FileView, ToolMessage, ToolResult

# Trimming old results: each is replaced by one line.


WORTH_TOKENS = 200
"""The least size worth trimming; a shorter result costs hardly more than its replacement line."""
SHOWN_TARGET_CHARS = 80

StoreResult: TypeAlias = Callable[[ToolResult], str]
"""Stores a whole result where read_file can read it, and returns the path."""


def trim_results(
    messages: Sequence[Message], *, spare_tokens: int, store_result: StoreResult
) -> ResultsTrimmed | None:
    """Trim all old results but the latest `spare_tokens`; return None if there is nothing to gain.

    Results that no request has carried yet are never trimmed."""
    calls = {call.id: call for call in _iter_calls(messages)}
    for result in find_new_results(messages):  # another server may reuse an id
        calls.pop(result.call_id, None)
    old = [
        result for result in _iter_old_results(messages, spare_tokens) if result.call_id in calls
    ]
    if not old:
        return None
    lines = tuple(
        TrimmedResult(
            call_id=result.call_id,
            text=_format_line(calls[result.call_id], result, store_result=store_result),
        )
        for result in old
    )
    return ResultsTrimmed(results=lines, freed_tokens=sum(map(count_result_tokens, old)))


def _iter_calls(messages: Sequence[Message]) -> Iterator[ToolCall]:
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from message.tool_calls


def _iter_old_results(messages: Sequence[Message], spare_tokens: int) -> Iterator[ToolResult]:
    """Yield the large results outside the latest `spare_tokens`, from the latest to the first."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            continue
        for result in reversed(message.results):
            tokens = count_result_tokens(result)
            spare_tokens -= tokens
            if spare_tokens < 0 and tokens > WORTH_TOKENS:
                yield result


def _format_line(call: ToolCall, result: ToolResult, *, store_result: StoreResult) -> str:
    text = result.text
    size = f"{text.count(chr(10)) + 1} lines" if text else "an image"
    return (
        f"[{call.name} {_describe_target(call.input)}: {result.status}, {size}; "
        f"left out to make room, all of it is in {store_result(result)}]"
    )


def _describe_target(arguments: Json) -> str:
    """Return the first string argument, shortened: it says what the call was about."""
    values = arguments.values() if isinstance(arguments, dict) else ()
    text = next((value for value in values if isinstance(value, str)), "")
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_TARGET_CHARS else line[:SHOWN_TARGET_CHARS] + "…"


NOTE_TOKENS = 100
"""The tokens reserved for the note that says where to continue."""
LEAST_TOKENS = 2 * NOTE_TOKENS
HEAD_OF_COMMAND = 0.25
"""The share of a cut output kept from its start; the rest is its end, where failures show."""

_ROW = compile_later(r"(-?\d+)\t")


def cut_new(
    messages: Sequence[Message], *, limit_tokens: int, keep: StoreResult
) -> ResultsTrimmed | None:
    """Cut the new results so that they fit the limit; return None if they already fit."""
    results = find_new_results(messages)
    share = _compute_share([count_result_tokens(result) for result in results], limit_tokens)
    large = [result for result in results if count_result_tokens(result) > max(share, LEAST_TOKENS)]
    if not large:
        return None
    cut = tuple(_cut(result, max(share, LEAST_TOKENS), keep=keep) for result in large)
    freed = sum(map(count_result_tokens, large)) - sum(estimate_fast(one.text) for one in cut)
    return ResultsTrimmed(results=cut, freed_tokens=freed)


def _compute_share(sizes: Sequence[int], limit_tokens: int) -> int:
    """Return the largest size per result at which all results together fit the limit."""
    left, ascending = limit_tokens, sorted(sizes)
    for at, size in enumerate(ascending):
        share = left // (len(ascending) - at)
        if size > share:
            return share
        left -= size
    return max(ascending, default=0)


def _cut(result: ToolResult, limit_tokens: int, *, keep: StoreResult) -> TrimmedResult:
    images = any(isinstance(block, Image) for block in result.content)
    room_bytes = (limit_tokens - NOTE_TOKENS) * ROUGH_BYTES
    match result.details:
        case FileView(media="text") as view:
            text, last_line = _take_rows(result.text, view, room_bytes=room_bytes)
            return TrimmedResult(call_id=result.call_id, text=text, last_line=last_line)
        case Command():
            text = _take_ends(result.text, room_bytes, path=keep(result))
        case _:
            kept = [*_take_fitting(result.text.split("\n"), room_bytes)]
            what = "an image was" if images else "the rest was"
            text = "\n".join([*kept, f"[{what} left out to make room: {keep(result)}]"])
    return TrimmedResult(call_id=result.call_id, text=text)


def _take_rows(text: str, view: FileView, *, room_bytes: int) -> tuple[str, int]:
    """Return the first lines of a file view that fit, and the number of the last one."""
    kept = [*_take_fitting(text.split("\n"), room_bytes)]
    numbers = [int(found[1]) for row in kept if (found := _ROW.match(row))]
    go_on = numbers[-1] + 1 if numbers else view.first_line
    shown = f"lines {numbers[0]}-{numbers[-1]}" if numbers else "no line"
    total = "" if view.total_lines is None else f" of {view.total_lines}"
    note = f"[{shown}{total}: the rest was left out to make room; continue with offset={go_on}]"
    return "\n".join([*kept, note]), max(0, numbers[-1]) if numbers else 0


def _take_ends(text: str, room_bytes: int, *, path: str) -> str:
    lines = text.split("\n")
    first = [*_take_fitting(lines, int(HEAD_OF_COMMAND * room_bytes))]
    rest = lines[len(first) :]
    last = [*_take_fitting(reversed(rest), int((1 - HEAD_OF_COMMAND) * room_bytes))][::-1]
    left_out = len(rest) - len(last)
    note = f"[... {left_out} lines left out to make room; all of it is in {path} ...]"
    return "\n".join([*first, note, *last])


def _take_fitting(lines: Iterable[str], room_bytes: int) -> Iterator[str]:
    for line in lines:
        room_bytes -= len(line.encode("utf-8", "replace")) + 1
        if room_bytes < 0:
            return
        yield line


# Compacting: old results are trimmed first, then a summary replaces the
# conversation.


TRIM_AT = 0.6
"""The share of the window from which old results are trimmed, if that frees enough."""
TRIM_SPARES = 0.2
TRIM_PAYS = 0.15
COMPACT_AT = 0.8
OLD_MOST = 0.5
"""The largest share of the window for old messages: above it they are summarized, below it new
results are cut."""
USER_SHARE = 0.2
"""The share of the window for user messages; the summary covers the rest of a long session."""
REGROWTH = 1.2
"""The growth, after a summary, that is needed before the conversation is summarized again."""
CERTAIN = 1.25
"""The multiple of the window, by our count, above which a request certainly does not fit."""
SUMMARY_TOKENS = 4000
UNKNOWN_WINDOW_TOKENS = 32_000

Window: TypeAlias = Callable[[], int | None]
BeforeCompaction: TypeAlias = Callable[[str], Awaitable[str]]
"""Takes what starts a compaction, `auto` or `manual`, and returns why not, or an empty string."""


class Compactor:
    def __init__(
        self,
        journal: Journal,
        *,
        window: Window,
        store_result: StoreResult,
        suggest_larger_window: Callable[[], str] = lambda: "use a model with a larger window",
        run_before_compaction: BeforeCompaction | None = None,
    ) -> None:
        """`window` returns the size for the current model, or None if it is not known.
        `run_before_compaction` returns why the summary is refused, or an empty string. It is not
        called for a conversation that no longer fits."""
        self._journal = journal
        self._window = window
        self._store_result = store_result
        self._suggest_larger_window = suggest_larger_window
        self._run_before = run_before_compaction
        self.size = RequestSize()
        """The size of the conversation, as far as its provider has counted it."""
        self._smallest_tokens = 0

    async def fit_request(self, request: Request, *, by: Sequence[ServedModel]) -> Request:
        """Return the request, trimmed or compacted first if it comes close to the window.

        The first model of `by` that can writes the summary."""
        window = self._window()
        if window is None or self.size.measure(request) < TRIM_AT * window:
            return request
        self._trim(request, spare_tokens=int(TRIM_SPARES * window), worth=TRIM_PAYS * window)
        request = self._refresh(request)
        if self.size.measure(request) > COMPACT_AT * window:
            self._require_fit(request, window)
            if self._count_old_tokens(request) > max(
                OLD_MOST * window, REGROWTH * self._smallest_tokens
            ):
                await self.compact(request, by=by, trigger="auto")
            self._cut(self._refresh(request), limit_tokens=int(COMPACT_AT * window))
        return self._refresh(request)

    async def recover_from_overflow(self, request: Request, *, by: Sequence[ServedModel]) -> bool:
        """Shorten the conversation and return whether the request is worth sending again."""
        if self._measure_smallest(request) > CERTAIN * (self._window() or math.inf):
            return False
        self._trim(request, spare_tokens=0, worth=0)
        request = self._refresh(request)
        window = self._window() or UNKNOWN_WINDOW_TOKENS
        old_tokens, tokens = self._count_old_tokens(request), self.size.measure(request)
        # The provider counts differently from us: half of the new results is less in any case.
        limit_tokens = min(int(COMPACT_AT * window), old_tokens + (tokens - old_tokens) // 2)
        was_cut = self._cut(request, limit_tokens=limit_tokens)
        if was_cut and old_tokens <= OLD_MOST * window:
            return True
        return await self.compact(self._refresh(request), by=by) or was_cut

    async def compact(
        self,
        request: Request,
        *,
        by: Sequence[ServedModel],
        wanted: str = "",
        trigger: str = "",
    ) -> bool:
        """Replace the conversation by a summary. `wanted` is what the user wants kept in it.

        With a `trigger` it can be refused; without one the conversation would not fit."""
        if trigger and self._run_before and (why := await self._run_before(trigger)):
            self._warn(why)
            return False
        before, why = self.size.measure(request), ""
        for model in by:
            try:
                reply = await self._summarize(request, model, wanted=wanted)
            except ProviderError as error:
                why = str(error)
                continue
            if reply is not None:
                break
            why = "the model gave no summary"
        else:
            self._warn(why)
            return False
        self._journal.append(
            Compacted(
                summary=reply.text.strip(),
                tokens_before=before,
                left_out=self._count_left_out(),
                keeps_new=True,
                usage=reply.usage,
                cost_usd=model.price(reply.usage),
            )
        )
        self._smallest_tokens = self._count_old_tokens(self._refresh(request))
        return True

    def _require_fit(self, request: Request, window: int) -> None:
        """Raise ProviderError if no summary could make the request fit."""
        least = self._measure_smallest(request)
        if least > CERTAIN * window:
            raise ProviderError(
                f"the window of {window} tokens is too small: system prompt, tools, instructions "
                f"and the task alone need about {least}",
                kind=ProviderErrorKind.OVERFLOW,
                hint=f"agentcli prompt shows their sizes; {self._suggest_larger_window()}",
            )

    def _measure_smallest(self, request: Request) -> int:
        """Return the tokens of the shortest conversation: only what no summary may replace."""
        left_out = max(0, len(self._journal.history.list_user_messages()) - 2)
        smallest = replace(
            request, messages=self._journal.history.list_preserved_messages(left_out)
        )
        return RequestSize(count=estimate).measure(smallest)

    def _trim(self, request: Request, *, spare_tokens: int, worth: float) -> None:
        found = trim_results(
            request.messages, spare_tokens=spare_tokens, store_result=self._store_result
        )
        if found is not None and found.freed_tokens >= worth:
            self._journal.append(found)

    def _count_old_tokens(self, request: Request) -> int:
        """Return the size of a request without its new results."""
        new_tokens = sum(map(count_result_tokens, find_new_results(request.messages)))
        return max(0, self.size.measure(request) - new_tokens)

    def _cut(self, request: Request, *, limit_tokens: int) -> bool:
        """Cut the new results until the request is within the limit; return whether any was cut."""
        if self.size.measure(request) <= limit_tokens:
            return False
        room = limit_tokens - self._count_old_tokens(request)
        found = cut_new(request.messages, limit_tokens=room, keep=self._store_result)
        if found is not None:
            self._journal.append(found)
        return found is not None

    async def _summarize(
        self, request: Request, model: ServedModel, *, wanted: str
    ) -> AssistantMessage | None:
        """Summarize the whole conversation, or its last part if the whole does not fit.

        New results are not summarized: they stay."""
        half = (self._window() or UNKNOWN_WINDOW_TOKENS) // 2
        history = request.messages
        if find_new_results(history):
            history = history[: find_last_reply(history)]
        instruction = UserMessage(content=(Text(text=_build_instruction(wanted)),))
        for messages in (history, _take_last_part(history, half)):
            asked = replace(
                request,
                model=model.name,
                effort=model.effort,
                messages=(*messages, instruction),
                tool_choice="none",
                answer_schema=None,
                output_limit_tokens=min(SUMMARY_TOKENS, half),
            )
            try:
                reply = await model.provider.send(
                    asked, build_usage_recorder(self._journal.append, model.price)
                )
            except ProviderError as error:
                if error.kind is not ProviderErrorKind.OVERFLOW:
                    raise
                continue
            if reply.text.strip():
                return reply
            cost_usd = model.price(reply.usage)
            self._journal.append(
                TokensSpent(why="broken_off", usage=reply.usage, cost_usd=cost_usd)
            )
        return None

    def _count_left_out(self) -> int:
        """Return how many user messages between the first and the last do not fit."""
        later = self._journal.history.list_user_messages()[1:]
        sizes = [count_message_tokens(message) for message in later]
        room = USER_SHARE * (self._window() or UNKNOWN_WINDOW_TOKENS)
        for left_out in range(len(sizes)):
            if sum(sizes[left_out:]) <= room:
                return left_out
        return max(0, len(sizes) - 1)

    def _refresh(self, request: Request) -> Request:
        return replace(request, messages=self._journal.history.build_messages())

    def _warn(self, why: str) -> None:
        self._journal.append(
            Warned(code="compaction.failed", message=f"the conversation was not compacted: {why}")
        )


@cache
def load_instruction() -> str:
    return Path(__file__).with_name("compaction.md").read_text(encoding="utf-8").strip()


def _build_instruction(wanted: str) -> str:
    keep = f"\n\nThe user asks to keep above all:\n{wanted}" if wanted else ""
    return load_instruction() + keep


def _take_last_part(messages: tuple[Message, ...], limit_tokens: int) -> tuple[Message, ...]:
    """Return the last messages that fit, never starting with a result whose call is left out."""
    start = len(messages)
    for index in reversed(range(len(messages))):
        limit_tokens -= count_message_tokens(messages[index])
        if limit_tokens < 0:
            break
        if not isinstance(messages[index], ToolMessage):
            start = index
    return messages[start:]
