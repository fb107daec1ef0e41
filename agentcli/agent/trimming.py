"""Old results that can make room: which they are, and the line that stands in the place of each."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from agentcli.agent.size import count_result_tokens
from agentcli.types.events import ResultsTrimmed, TrimmedResult
from agentcli.types.messages import AssistantMessage, Json, Text, ToolCall
from agentcli.types.tools import ToolMessage, ToolResult
from agentcli.types.wire import Message

WORTH_TOKENS = 200
"""A shorter result costs hardly more than the line in its place."""
SHOWN_TARGET_CHARS = 80

StoreResult: TypeAlias = Callable[[ToolResult], str]
"""Puts all of a result where read_file finds it, and says where."""


def trim_results(
    messages: Sequence[Message], *, spare_tokens: int, store_result: StoreResult
) -> ResultsTrimmed | None:
    """All results but the latest, which make up `spare_tokens`. None: there is nothing to gain.

    What no request has carried yet is never among them."""
    calls = {call.id: call for call in _iter_calls(messages)}
    for result in new_results(messages):  # another server may give the same id again
        calls.pop(result.call_id, None)
    old = [
        result for result in _iter_old_results(messages, spare_tokens) if result.call_id in calls
    ]
    if not old:
        return None
    lines = tuple(
        TrimmedResult(
            call_id=result.call_id, text=_format_line(calls[result.call_id], result, store_result)
        )
        for result in old
    )
    return ResultsTrimmed(results=lines, freed_tokens=sum(map(count_result_tokens, old)))


def new_results(messages: Sequence[Message]) -> tuple[ToolResult, ...]:
    """Return the results that no request has carried yet: those behind the last reply."""
    return tuple(
        result
        for message in messages[last_reply(messages) + 1 :]
        if isinstance(message, ToolMessage)
        for result in message.results
    )


def last_reply(messages: Sequence[Message]) -> int:
    """Return where the last reply stands; -1: there is none."""
    for at in reversed(range(len(messages))):
        if isinstance(messages[at], AssistantMessage):
            return at
    return -1


def _iter_calls(messages: Sequence[Message]) -> Iterator[ToolCall]:
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield from message.tool_calls


def _iter_old_results(messages: Sequence[Message], spare_tokens: int) -> Iterator[ToolResult]:
    """From the latest to the first."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            continue
        for result in reversed(message.results):
            tokens = count_result_tokens(result)
            spare_tokens -= tokens
            if spare_tokens < 0 and tokens > WORTH_TOKENS:
                yield result


def _format_line(call: ToolCall, result: ToolResult, store_result: StoreResult) -> str:
    text = "".join(block.text for block in result.content if isinstance(block, Text))
    size = f"{text.count(chr(10)) + 1} lines" if text else "an image"
    return (
        f"[{call.name} {_describe_target(call.input)}: {result.status}, {size}; "
        f"left out to make room, all of it is in {store_result(result)}]"
    )


def _describe_target(arguments: Json) -> str:
    """The first text among the arguments says what a call was about."""
    values = arguments.values() if isinstance(arguments, dict) else ()
    text = next((value for value in values if isinstance(value, str)), "")
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_TARGET_CHARS else line[:SHOWN_TARGET_CHARS] + "…"
