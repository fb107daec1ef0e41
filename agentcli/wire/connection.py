"""A model that can be asked: a dialect and a socket put together, with retries.

The only place that tries again. What is tried again is announced before each wait and can be
cancelled at any moment. A message is returned whole or not at all, so nothing was acted on when a
stream breaks.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentcli.types.deltas import CallDelta, Delta, RetryDelta, TextDelta
from agentcli.types.errors import WireError, WireErrorKind
from agentcli.types.messages import AssistantMessage
from agentcli.types.record import dataclass
from agentcli.types.tools import ToolSpec
from agentcli.types.wire import Limit, Message, Request, Show, Wire
from agentcli.wire.attempt import Attempt
from agentcli.wire.dialect import Dialect, Model
from agentcli.wire.explain import Explainer, Failure, failure_of, reason
from agentcli.wire.http.sockets import Broken, HttpError, Socket, Timeouts
from agentcli.wire.learning import Learning
from agentcli.wire.memo import remembered
from agentcli.wire.names import own_names, wire_name
from agentcli.wire.normalize import Normal, received
from agentcli.wire.providers import Key, Provider

_MAY_BE_FORGOTTEN = (WireErrorKind.REJECTED, WireErrorKind.MODEL)
"""How a server says that it has not what is continued: some as they say it of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a request that fails is worth waiting for."""

    max_wait_s: float = 60.0
    """The longest wait before another attempt: a provider that asks for more is not waited for."""
    waits_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    """Before the second attempt, the third and so on, where it asks for none."""


class Connection:
    """One model of one provider. Implements `types.wire.Wire`."""

    def __init__(
        self,
        *,
        dialect: Dialect,
        model: Model,
        socket: Socket,
        provider: Provider,
        key: Key | None = None,
        patience: Patience | None = None,
        timeouts: Timeouts | None = None,
        learning: Learning | None = None,
    ) -> None:
        self.model = model
        self._learning = learning or Learning(model)
        self._dialect = dialect
        self._socket = socket
        headers = dialect.headers(key.value if key else None)
        self._attempt: Wire = Attempt(
            dialect=dialect,
            model=model,
            socket=socket,
            headers=headers,
            timeouts=timeouts or Timeouts(),
        )
        self._explain = Explainer(provider=provider, model=model, key=key)
        self._patience = patience or Patience()
        self._normal = Normal(model)
        self._hurried: asyncio.Event | None = None

    async def ask(self, request: Request, show: Show) -> AssistantMessage:
        wired = on_wire(request, self._normal)
        taken = self._normal.ids
        names = own_names(spec.name for spec in (*request.tools, *request.deferred))
        try:
            message = await self._answered(wired, show, names)
        except WireError as error:
            if error.kind not in _MAY_BE_FORGOTTEN or not _is_continued(wired.messages):
                raise
            # The server may have forgotten the reply we continue: then it is told everything.
            message = await self._answered(_from_the_start(wired), show, names)
        self._learning.note(message.usage)
        return received(message, taken=taken, names=names)

    def limited(self, limit: Limit) -> Wire:
        """This connection, of which every attempt passes through the limit from now on."""
        self._attempt = limit(self._attempt)
        return self

    def hurry(self) -> None:
        """Ends the wait before the next attempt, if there is one."""
        if self._hurried:
            self._hurried.set()

    async def prepare(self) -> None:
        """Opens the connection while the first prompt is still being put together."""
        await self._socket.prepare()

    async def close(self) -> None:
        await self._learning.close()
        await self._attempt.close()

    async def _answered(
        self, wired: Request, show: Show, names: Mapping[str, str]
    ) -> AssistantMessage:
        """One request, tried again as often as it is worth."""
        attempt = 1
        while True:
            screen = _Screen(show, names)
            try:
                return await self._attempt.ask(wired, screen.show)
            except (HttpError, Broken, WireError) as error:
                if isinstance(error, WireError) and not error.was_sent:
                    raise
                await self._wait(self._failure(error), attempt=attempt, screen=screen)
                attempt += 1

    def _failure(self, error: HttpError | Broken | WireError) -> Failure:
        if isinstance(error, HttpError):
            return failure_of(self._dialect.error(error.status, error.headers, error.body))
        return failure_of(error)

    async def _wait(self, failure: Failure, *, attempt: int, screen: "_Screen") -> None:
        """Returns when it is time to try again; raises where it is not worth it."""
        error = failure.error
        if attempt >= failure.attempts:
            raise self._explain.final(error, attempts=attempt) from None
        wait_s = error.retry_after_s
        if wait_s is None:
            waits_s = self._patience.waits_s
            wait_s = waits_s[min(attempt, len(waits_s)) - 1] * random.uniform(0.8, 1.2)
            wait_s = min(wait_s, self._patience.max_wait_s)
        elif wait_s > self._patience.max_wait_s:
            limit_s = self._patience.max_wait_s
            raise self._explain.too_long_a_wait(error, max_wait_s=limit_s) from None
        self._hurried = asyncio.Event()
        screen.show(
            RetryDelta(
                reason=self._explain.scrubbed(reason(error, shown_chars=screen.chars)),
                status=error.status,
                wait_s=wait_s,
                attempt=attempt + 1,
                attempts=failure.attempts,
            )
        )
        try:
            async with asyncio.timeout(wait_s):
                await self._hurried.wait()
        except TimeoutError:
            return


class _Screen:
    """Where one attempt shows itself; counts what would be lost if it broke."""

    def __init__(self, show: Show, names: Mapping[str, str]) -> None:
        self.chars = 0
        self._show = show
        self._names = names

    def show(self, delta: Delta) -> None:
        match delta:
            case TextDelta():
                self.chars += len(delta.text)
            case CallDelta():
                delta = replace(delta, name=self._names.get(delta.name, delta.name))
        self._show(delta)


def on_wire(request: Request, normal: Normal) -> Request:
    """The request as every dialect takes it."""
    choice = request.tool_choice
    return replace(
        request,
        messages=normal.of(request.messages),
        tools=_tools_on_wire(request.tools),
        deferred=_tools_on_wire(request.deferred),
        tool_choice=choice if choice in ("auto", "required", "none") else wire_name(choice),
    )


@remembered
def _tools_on_wire(specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    return tuple(replace(spec, name=wire_name(spec.name)) for spec in specs)


def _is_continued(messages: Sequence[Message]) -> bool:
    return any(isinstance(message, AssistantMessage) and message.echo for message in messages)


def _from_the_start(request: Request) -> Request:
    """The same conversation without the replies' ids that a server may continue."""
    messages = tuple(
        replace(message, echo=None) if isinstance(message, AssistantMessage) else message
        for message in request.messages
    )
    return replace(request, messages=messages)
