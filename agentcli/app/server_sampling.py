"""Servers that ask the session's model, where the person has let them: within the same budget, and
through a dispatcher of their own, which runs nothing else."""

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentcli.agent.dispatch import Clean, Dispatcher
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker
from agentcli.agent.toolset import Toolset
from agentcli.agent.unseen import unseen
from agentcli.app.boundary import Boundary
from agentcli.app.engine import open_dispatcher
from agentcli.app.model import ModelInUse
from agentcli.app.servers import Servers
from agentcli.app.workshop import Workshop
from agentcli.settings import Settings
from agentcli.types.errors import ToolError
from agentcli.types.events import Emit
from agentcli.types.messages import ToolCall
from agentcli.types.tools import ErrorKind
from agentcli.types.wire import Request

if TYPE_CHECKING:
    from agentcli.mcp.host import SampleAnswer, SampleRequest
    from agentcli.mcp.sampling import SamplingTool, Told, Wanted

OUTPUT_TOKENS = 4_096
"""Where the model does not say how much it can write."""


class ServerSampling:
    def __init__(
        self,
        *,
        model: Callable[[], ModelInUse],
        open_dispatcher: Callable[[Toolset], Dispatcher],
        clean: Clean,
        tell: Emit,
    ) -> None:
        """`model`: the one in use by then."""
        self._model = model
        self._open_dispatcher = open_dispatcher
        self._clean = clean
        self._tell = tell
        self._tools: dict[str, tuple[SamplingTool, Dispatcher]] = {}

    async def answer(
        self,
        server: str,
        running: Sequence[str],
        params: "SampleRequest",
    ) -> "SampleAnswer":
        """`running`: the calls that the server is working on."""
        from agentcli.mcp.sampling import input_of, refusal, result_of

        if not running:
            return refusal("a server may ask while one of its tools is called", by_person=False)
        tool, dispatcher = self._tool(server)
        try:
            shown = input_of(params)
        except ToolError as error:
            return refusal(str(error), by_person=False)
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
            return refusal(result.text, by_person=result.error is ErrorKind.DENIED)
        return result_of(reply, self._clean(reply.text))

    def _tool(self, server: str) -> "tuple[SamplingTool, Dispatcher]":
        from agentcli.mcp.sampling import SamplingTool

        if server not in self._tools:
            tool = SamplingTool(server, self._ask_model)
            dispatcher = self._open_dispatcher(Toolset([(tool.spec, lambda: tool)]))
            self._tools[server] = (tool, dispatcher)
        return self._tools[server]

    async def _ask_model(self, wanted: "Wanted") -> "Told":
        from agentcli.mcp.sampling import Told, conversation

        model = self._model()
        reply = await model.wire.ask(
            Request(
                model=model.name,
                system=wanted.system,
                messages=conversation(wanted),
                output_limit_tokens=min(wanted.limit_tokens, model.output_tokens or OUTPUT_TOKENS),
            ),
            unseen(self._tell, model.price),
        )
        return Told(reply=reply, cost_usd=model.price(reply.usage))


def let_sample(
    servers: Servers,
    *,
    settings: Settings,
    boundary: Boundary,
    workshop: Workshop,
    journal: Journal,
) -> None:
    servers.sample_by(
        ServerSampling(
            model=lambda: workshop.model,
            open_dispatcher=lambda toolset: open_dispatcher(
                toolset, settings=settings, boundary=boundary, journal=journal, breaker=Breaker()
            ),
            clean=boundary.secrecy.clean,
            tell=journal.tell,
        )
    )
