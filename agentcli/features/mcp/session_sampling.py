"""Requests of servers to the session's model, if the user allows them.

They share the session's budget, and go through a dispatcher of their own, which runs nothing else.
"""

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentcli.agent.dispatch import Clean, Dispatcher
from agentcli.agent.limits import Breaker
from agentcli.agent.toolset import Toolset
from agentcli.agent.usage_recorder import build_usage_recorder
from agentcli.session.builder import build_dispatcher
from agentcli.session.model import ModelInUse
from agentcli.session.session import SessionParts
from agentcli.types.errors import ToolError
from agentcli.types.events import Emit
from agentcli.types.messages import ToolCall
from agentcli.types.provider import Request
from agentcli.types.tools import ErrorKind

if TYPE_CHECKING:
    from agentcli.features.mcp.host import SampleAnswer, SampleRequest
    from agentcli.features.mcp.sampling import SamplingReply, SamplingRequest, SamplingTool

OUTPUT_TOKENS = 4_096
"""The limit if the model does not state its own."""


class ServerSampling:
    def __init__(
        self,
        *,
        model: Callable[[], ModelInUse],
        build_dispatcher: Callable[[Toolset], Dispatcher],
        clean: Clean,
        emit: Emit,
    ) -> None:
        """`model` returns the model in use at that time."""
        self._model = model
        self._build_dispatcher = build_dispatcher
        self._clean = clean
        self._emit = emit
        self._tools: dict[str, tuple[SamplingTool, Dispatcher]] = {}

    async def answer_request(
        self, server: str, running: Sequence[str], *, params: "SampleRequest"
    ) -> "SampleAnswer":
        """Answer a request to the model. `running` is the calls that the server is working on."""
        from agentcli.features.mcp.sampling import (
            build_refusal,
            make_sampling_input,
            make_sampling_result,
        )

        if not running:
            return build_refusal(
                "a server may ask only during a call of one of its tools", by_person=False
            )
        tool, dispatcher = self._find_tool(server)
        try:
            shown = make_sampling_input(params)
        except ToolError as error:
            return build_refusal(str(error), by_person=False)
        caller = running[-1]
        call = ToolCall(
            id=f"{caller}.sampling-{secrets.token_hex(4)}",
            name=tool.spec.name,
            input=shown,
            caller=caller,
        )
        result = await dispatcher.dispatch(call)
        reply = tool.replies.pop(call.id, None)
        if reply is None or result.status == "error":
            return build_refusal(result.text, by_person=result.error is ErrorKind.DENIED)
        return make_sampling_result(reply, self._clean(reply.text))

    def _find_tool(self, server: str) -> "tuple[SamplingTool, Dispatcher]":
        from agentcli.features.mcp.sampling import SamplingTool

        if server not in self._tools:
            tool = SamplingTool(server, self._ask_model)
            dispatcher = self._build_dispatcher(Toolset([(tool.spec, lambda: tool)]))
            self._tools[server] = (tool, dispatcher)
        return self._tools[server]

    async def _ask_model(self, request: "SamplingRequest") -> "SamplingReply":
        from agentcli.features.mcp.sampling import SamplingReply, build_conversation

        model = self._model()
        reply = await model.provider.send(
            Request(
                model=model.name,
                system=request.system,
                messages=build_conversation(request),
                output_limit_tokens=min(request.limit_tokens, model.output_tokens or OUTPUT_TOKENS),
            ),
            build_usage_recorder(self._emit, model.price),
        )
        return SamplingReply(reply=reply, cost_usd=model.price(reply.usage))


def build_sampling(parts: SessionParts) -> ServerSampling:
    return ServerSampling(
        model=lambda: parts.model.current,
        build_dispatcher=lambda toolset: build_dispatcher(
            parts, toolset, journal=parts.journal, breaker=Breaker(), runs_hooks=False
        ),
        clean=parts.gate.redactor.mask,
        emit=parts.journal.append,
    )
