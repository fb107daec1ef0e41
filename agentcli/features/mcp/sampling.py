"""A server's request to the model, as a tool: it is judged, approved and recorded like one.

No model ever sees this tool. Only its server can call it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from mcp_types import (
    INTERNAL_ERROR,
    CreateMessageRequestParams,
    CreateMessageResult,
    ErrorData,
    SamplingMessage,
    TextContent,
)

from agentcli.types.errors import AgentError, ToolError
from agentcli.types.messages import AssistantMessage, Json, Text, UserMessage
from agentcli.types.tools import (
    ChildTurn,
    Effect,
    ErrorKind,
    Output,
    ToolContext,
    ToolSpec,
)

METHOD = "sampling/createMessage"
TEXT_CHARS = 200_000
REJECTED = -1
"""The code of the specification for a user who says no."""

_STOPS = {"length": "maxTokens", "refusal": "refusal"}
_ANY_OBJECT: dict[str, Json] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRequest:
    """A request of a server to the model."""

    server_tool: str
    """The name for rules, which know it as a tool of the server."""
    system: str
    messages: tuple[tuple[str, str], ...]
    """Pairs of role (user or assistant) and text."""
    limit_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingReply:
    reply: AssistantMessage
    cost_usd: float | None


AskModel: TypeAlias = Callable[[SamplingRequest], Awaitable[SamplingReply]]
"""Raises AgentError if the request fails."""


class SamplingTool:
    def __init__(self, server: str, ask_model: AskModel) -> None:
        self._server = server
        self._ask_model = ask_model
        self.replies: dict[str, AssistantMessage] = {}
        """The replies by call id, until the server gets them."""

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=f"{self._server}__{METHOD}",
            description="",
            schema=_ANY_OBJECT,
            source=f"mcp {self._server}",
        )

    def parse(self, raw: Json) -> SamplingRequest:
        match raw:
            case {"messages": list(messages), "max_tokens": int(limit_tokens), **rest}:
                return SamplingRequest(
                    server_tool=METHOD,
                    system=str(rest.get("system", "")),
                    messages=tuple(map(_parse_message, messages)),
                    limit_tokens=limit_tokens,
                )
        raise ToolError("messages and max_tokens are required.", kind=ErrorKind.INVALID_INPUT)

    def effect(self, args: SamplingRequest) -> Effect:
        return Effect.NETWORK

    async def preview(self, args: SamplingRequest, context: ToolContext) -> None:
        return None

    async def run(self, args: SamplingRequest, context: ToolContext) -> Output:
        try:
            answer = await self._ask_model(args)
        except AgentError as error:
            return Output.of(f"The model gave no answer: {error}", error=ErrorKind.FAILED)
        self.replies[context.call_id] = answer.reply
        return Output(
            content=(Text(text=answer.reply.text),),
            details=ChildTurn(
                role=f"sampling for {self._server}",
                ending=answer.reply.stop,
                calls=0,
                usage=answer.reply.usage,
                cost_usd=answer.cost_usd,
                log_path="",
            ),
            origin=f"the MCP server {self._server}",
        )


def make_sampling_input(params: CreateMessageRequestParams) -> dict[str, Json]:
    """Return the request in the form that is shown, judged and recorded.

    Raise ToolError if it is too long."""
    messages: list[Json] = [{message.role: _join_text(message)} for message in params.messages]
    shown: dict[str, Json] = {"messages": messages, "max_tokens": params.max_tokens}
    if params.system_prompt:
        shown["system"] = params.system_prompt
    if len(str(shown)) > TEXT_CHARS:
        raise ToolError(f"The request is longer than {TEXT_CHARS} characters.")
    return shown


def build_conversation(wanted: SamplingRequest) -> tuple[UserMessage | AssistantMessage, ...]:
    return tuple(
        AssistantMessage(content=(Text(text=text),), stop="end", protocol="", model="")
        if role == "assistant"
        else UserMessage(content=(Text(text=text),))
        for role, text in wanted.messages
    )


def make_sampling_result(reply: AssistantMessage, text: str) -> CreateMessageResult:
    """Return the answer. `text` is the part of the reply that the server may see."""
    return CreateMessageResult(
        role="assistant",
        content=TextContent(type="text", text=text),
        model=reply.model,
        stop_reason=_STOPS.get(reply.stop, "endTurn"),
    )


def build_refusal(message: str, *, by_person: bool) -> ErrorData:
    return ErrorData(code=REJECTED if by_person else INTERNAL_ERROR, message=message)


def _parse_message(raw: Json) -> tuple[str, str]:
    if isinstance(raw, dict) and len(raw) == 1:
        ((role, text),) = raw.items()
        if role in ("user", "assistant") and isinstance(text, str):
            return role, text
    raise ToolError("A message needs a role and a text.", kind=ErrorKind.INVALID_INPUT)


def _join_text(message: SamplingMessage) -> str:
    return "\n".join(
        block.text if isinstance(block, TextContent) else f"[{block.type}: not passed on]"
        for block in message.content_as_list
    )
