"""A model that needs no key: it plays a script of replies through the real loop and real tools.

A script is JSON or YAML: a list of replies, or a mapping with the key `replies`. A reply is a text,
or a mapping with any of `thinking`, `text`, `calls`, `stop`, `usage`, or with `error` alone.
`docs/reference/scripts.md` describes it.
"""

import json
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, model_validator

from agentcli.system.strict_json import parse_json
from agentcli.system.validation import describe_fault
from agentcli.types.deltas import CallDelta, TextDelta, ThinkingDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind, SettingsError
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Json,
    Stop,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from agentcli.types.provider import OnDelta, Request
from agentcli.types.tools import Command, ToolResult

PROTOCOL = "script"


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ScriptedCall(_Closed):
    name: str
    id: str | None = None
    input: Any = None
    arguments: str | None = None
    """The arguments as text, which need not be JSON. Used instead of `input`."""

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, data: Any) -> Any:
        """Expand `{read_file: {path: a.py}}` to `{name: read_file, input: {path: a.py}}`."""
        if isinstance(data, dict) and len(data) == 1 and "name" not in data:
            ((name, given),) = data.items()
            return {"name": name, "input": given}
        return data


class ScriptedUsage(_Closed):
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


class ScriptedError(_Closed):
    kind: ProviderErrorKind = ProviderErrorKind.UNAVAILABLE
    message: str = "scripted error"
    hint: str = ""


class ScriptedReply(_Closed):
    thinking: str = ""
    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    stop: Stop | None = None
    stop_detail: str = ""
    usage: ScriptedUsage = ScriptedUsage()
    error: ScriptedError | None = None
    if_failed: str = ""
    """The text to say instead if a call before it failed or was denied. It is the last."""

    @model_validator(mode="before")
    @classmethod
    def _wrap_text(cls, data: Any) -> Any:
        return {"text": data} if isinstance(data, str) else data


class ModelScript(_Closed):
    version: Literal[1] = 1
    title: str = ""
    prompt: str = ""
    replies: tuple[ScriptedReply, ...]
    afterwards: str = ""
    """The text of all replies after the last; empty if there should be none."""

    @model_validator(mode="before")
    @classmethod
    def _list_alone(cls, data: Any) -> Any:
        return {"replies": data} if isinstance(data, list) else data


def read_script(path: Path) -> ModelScript:
    """Read a script. Raise a SettingsError that says what is wrong and where."""
    hint = "see docs/reference/scripts.md for the format"
    try:
        data = _parse_script(path.read_text(encoding="utf-8"))
        return TypeAdapter(ModelScript).validate_python(data)
    except OSError as error:
        raise SettingsError(
            f"cannot read the script {path}: {error.strerror}",
            hint="--model script/PATH, with a file that exists",
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        what = " ".join(str(error).split())
        raise SettingsError(f"the script {path} is not JSON or YAML: {what}", hint=hint) from error
    except ValidationError as error:
        fault = describe_fault(error, whole="all of it")
        raise SettingsError(f"the script {path}: {fault}", hint=hint) from error


def _parse_script(text: str) -> Any:
    """Return the data of a script.

    JSON is read first: YAML reads all of it but the escaped pairs of surrogates.
    """
    try:
        return parse_json(text)
    except ValueError:
        return yaml.safe_load(text)


class ScriptedProvider:
    """A provider that returns the script's replies in order, whatever the request."""

    def __init__(self, script: ModelScript) -> None:
        self._replies = script.replies
        self._afterwards = script.afterwards
        self._next = 0

    async def send(self, request: Request, show: OnDelta) -> AssistantMessage:
        reply = self._choose_reply(request)
        if reply.error is not None:
            raise ProviderError(reply.error.message, kind=reply.error.kind, hint=reply.error.hint)
        content = _build_blocks(reply, self._next)
        _play(content, show)
        return AssistantMessage(
            content=content,
            stop=reply.stop or ("tool_calls" if reply.calls else "end"),
            stop_detail=reply.stop_detail,
            protocol=PROTOCOL,
            model=request.model,
            usage=Usage(**reply.usage.model_dump()),
        )

    def _choose_reply(self, request: Request) -> ScriptedReply:
        if self._next >= len(self._replies):
            if self._afterwards:
                return ScriptedReply(text=self._afterwards)
            raise ProviderError(
                f"the script has no reply number {self._next + 1}",
                kind=ProviderErrorKind.MODEL,
                hint="end the script with a reply that has no calls",
            )
        self._next += 1
        reply = self._replies[self._next - 1]
        if reply.if_failed and _has_failed(request):
            self._next, self._afterwards = len(self._replies), reply.if_failed
            return ScriptedReply(text=reply.if_failed, usage=reply.usage)
        return reply

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _has_failed(request: Request) -> bool:
    """Return whether one of the latest results is a failure or a denial."""
    results = (message for message in reversed(request.messages) if message.role == "tool")
    latest = next(results, None)
    return latest is not None and any(
        result.status == "error" or _read_exit_code(result) != 0 for result in latest.results
    )


def _read_exit_code(result: ToolResult) -> int:
    details = result.details
    return (details.exit_code or 0) if isinstance(details, Command) else 0


def _build_blocks(reply: ScriptedReply, number: int) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if reply.thinking:
        blocks.append(Thinking(text=reply.thinking))
    if reply.text:
        blocks.append(Text(text=reply.text))
    for index, call in enumerate(reply.calls, start=1):
        blocks.append(
            ToolCall(
                id=call.id or f"call_{number}_{index}", name=call.name, input=_read_input(call)
            )
        )
    return tuple(blocks)


def _read_input(call: ScriptedCall) -> Json:
    if call.arguments is None:
        given: Json = {} if call.input is None else call.input
        return given
    try:
        parsed: Json = parse_json(call.arguments)
    except (ValueError, RecursionError):
        return call.arguments
    return parsed


def _play(content: tuple[Block, ...], show: OnDelta) -> None:
    for block in content:
        match block:
            case Text(text=text):
                show(TextDelta(text=text))
            case Thinking(text=text):
                show(ThinkingDelta(text=text))
            case ToolCall(id=call_id, name=name, input=given):
                show(CallDelta(call_id=call_id, name=name, arguments=json.dumps(given)))
            case _:
                pass
