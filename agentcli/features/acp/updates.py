"""Events of a session as updates for an editor: text, thoughts, tool calls with their diffs.

Every call is announced once, before any other update about it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from acp import RequestError
from acp.helpers import (
    SessionUpdate,
    ToolCallContentVariant,
    image_block,
    start_tool_call,
    text_block,
    tool_content,
    tool_diff_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_current_mode,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import ToolCallLocation

from agentcli.types.deltas import CallProgress, TextDelta, ThinkingDelta
from agentcli.types.errors import AgentError, MissingKeyError, UsageError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Event,
    ModeChanged,
    ModelReplied,
    TurnStarted,
)
from agentcli.types.messages import Image, Text, Thinking, ToolCall
from agentcli.types.own_tools import get_kind
from agentcli.types.tools import Command, Details, Diff, FileView, Matches, ToolResult
from agentcli.types.verdicts import Delegation, Question
from agentcli.ui.render.diff import DiffLine, read_patch
from agentcli.ui.render.wording import format_child_name, format_child_task, format_target


class UpdateBuilder:
    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._announced: set[str] = set()
        self._terminals: dict[str, ToolCallContentVariant] = {}
        """The terminal of the editor that shows a call."""
        self._has_streamed = False
        """True if the text of the current reply was shown while it streamed."""

    def add_terminal(self, call_id: str, terminal: ToolCallContentVariant) -> None:
        """Show a call by a terminal from now on, instead of its output as text."""
        self._terminals[call_id] = terminal

    def build_updates(self, event: Event) -> Iterator[SessionUpdate]:
        match event:
            case TextDelta(text=text):
                self._has_streamed = True
                yield update_agent_message_text(text)
            case ThinkingDelta(text=text):
                self._has_streamed = True
                yield update_agent_thought_text(text)
            case ModelReplied():
                yield from self._build_reply(event)
            case ModeChanged(mode=mode):
                yield update_current_mode(mode)
            case _:
                yield from self._build_call_updates(event)

    def build_past_updates(self, event: Event) -> Iterator[SessionUpdate]:
        """Yield updates for what happened before the editor connected, with the user's messages."""
        if isinstance(event, TurnStarted):
            for block in event.message.content[:1]:
                if isinstance(block, Text):
                    yield update_user_message_text(block.text)
        elif not isinstance(event, ModeChanged):
            yield from self.build_updates(event)

    def _build_reply(self, event: ModelReplied) -> Iterator[SessionUpdate]:
        for block in event.message.content:
            match block:
                case Text(text=text) if text and not self._has_streamed:
                    yield update_agent_message_text(text)
                case Thinking(text=text) if text and not self._has_streamed:
                    yield update_agent_thought_text(text)
                case ToolCall():
                    yield from self._announce(block)
                case _:
                    pass
        self._has_streamed = False

    def _build_call_updates(self, event: Event) -> Iterator[SessionUpdate]:
        match event:
            case CallJudged(call=call, verdict=verdict):
                yield from self._announce(call)
                if verdict.decision != "deny":
                    yield update_tool_call(call.id, status="in_progress", raw_input=call.input)
            case CallProgress(call_id=call_id, text=text) if call_id in self._announced:
                if call_id not in self._terminals:
                    yield update_tool_call(call_id, content=[_quote_text(text)])
            case CallFinished(result=result):
                yield from self._finish_call(result)
            case _:
                pass

    def _announce(self, call: ToolCall) -> Iterator[SessionUpdate]:
        if call.id not in self._announced:
            self._announced.add(call.id)
            yield start_tool_call(
                call.id,
                format_title(call),
                kind=get_kind(call.name),
                status="pending",
                raw_input=call.input,
                locations=self._locate_input(call),
            )

    def _finish_call(self, result: ToolResult) -> Iterator[SessionUpdate]:
        yield from self._announce(ToolCall(id=result.call_id, name=result.name, input={}))
        yield update_tool_call(
            result.call_id,
            status="completed" if result.status == "ok" else "failed",
            content=self._build_content(result),
            locations=self._locate_result(result.details) or None,
        )

    def _build_content(self, result: ToolResult) -> list[ToolCallContentVariant]:
        if terminal := self._terminals.get(result.call_id):
            return [terminal]
        if isinstance(result.details, Diff) and result.status == "ok":
            return build_diffs(result.details, self._workspace) or [_quote_text(result.text)]
        images = [
            tool_content(image_block(block.data, block.media_type))
            for block in result.content
            if isinstance(block, Image)
        ]
        return [*([_quote_text(result.text)] if result.text else []), *images]

    def _locate_input(self, call: ToolCall) -> list[ToolCallLocation]:
        path = call.input.get("path") if isinstance(call.input, dict) else None
        return [self._build_location(path)] if isinstance(path, str) and path else []

    def _locate_result(self, details: Details | None) -> list[ToolCallLocation]:
        match details:
            case Diff(path=path, first_line=line) | FileView(path=path, first_line=line):
                return [self._build_location(path, line)]
            case Matches(path=path):
                return [self._build_location(path)]
            case _:
                return []

    def _build_location(self, path: str, line: int = 0) -> ToolCallLocation:
        return ToolCallLocation(path=str(self._workspace / path), line=line or None)


def format_title(call: ToolCall, child: Delegation | None = None) -> str:
    about = format_target(call)
    named = f"{call.name}: {about}" if about else call.name
    return f"{format_child_name(child)}: {named}" if child else named


def build_diffs(diff: Diff, workspace: Path) -> list[ToolCallContentVariant]:
    """Return a change hunk by hunk, each with its old and its new text."""
    path = str(workspace / diff.path)
    return [
        tool_diff_content(
            path,
            _join_side(hunk, without="-"),
            None if diff.created else _join_side(hunk, without="+"),
        )
        for file in read_patch(diff.unified) or ()
        for hunk in file.hunks
    ]


def build_preview(question: Question, workspace: Path) -> list[ToolCallContentVariant]:
    """Return what the user should see before answering."""
    child, details = question.child, question.preview
    task = (
        [_quote_text(f"{format_child_name(child)}, task: {format_child_task(child)}")]
        if child
        else []
    )
    shown = [*task, *(build_diffs(details, workspace) if isinstance(details, Diff) else [])]
    if isinstance(details, Command):
        shown.append(_quote_text(question.verdict.grants.describe()))
    if question.wanted_for:
        shown.append(_quote_text(f"the model says: {question.wanted_for}"))
    return shown


def _join_side(hunk: list[DiffLine], *, without: str) -> str:
    return "".join(line.raw for line in hunk if line.sign != without)


def _quote_text(text: str) -> ToolCallContentVariant:
    """Return the text in a fence: otherwise an editor would read it as Markdown."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return tool_content(text_block(f"{fence}\n{text}\n{fence}"))


# Errors for an editor, in words that it can show to the user


_INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
AUTH_REQUIRED = -32000


def build_invalid_params(details: str) -> RequestError:
    """Return the error for a wrong request. Some editors show the message, and some the details."""
    return RequestError(_INVALID_PARAMS, details, {"details": details})


def build_failure(error: AgentError) -> RequestError:
    """Return the error for something that the user can mend."""
    match error:
        case UsageError():
            code = _INVALID_PARAMS
        case MissingKeyError():
            code = AUTH_REQUIRED
        case _:
            code = INTERNAL_ERROR
    return build_error(code, str(error), hint=error.hint)


def build_error(code: int, message: str, *, hint: str) -> RequestError:
    """Return an error; one about a key shows its hint, too."""
    shown = f"{message} ({hint})" if code == AUTH_REQUIRED and hint else message
    return RequestError(code, shown, {"details": message, "hint": hint})
