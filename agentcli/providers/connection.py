"""A model that can be asked: a dialect and a socket put together, with retries.

The only place that tries again. What is tried again is announced before each wait and can be
cancelled at any moment. A message is returned whole or not at all, so nothing was acted on when a
stream breaks.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from agentcli.providers.attempt import SingleAttempt
from agentcli.providers.dialect import Dialect, Model
from agentcli.providers.failures import (
    AttemptFailure,
    FailureExplainer,
    describe_reason,
    to_failure,
)
from agentcli.providers.http.sockets import ConnectionBroken, HttpError, Socket, Timeouts
from agentcli.providers.incremental import memoize
from agentcli.providers.names import decode_names, encode_name
from agentcli.providers.normalize import NormalizedHistory, restore_names
from agentcli.providers.providers import Key, Provider
from agentcli.types.deltas import CallDelta, Delta, RetryDelta, TextDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Usage
from agentcli.types.provider import Message, ModelProvider, OnDelta, ProviderWrapper, Request
from agentcli.types.tools import ToolSpec

# What is known of the model in use, which its provider may add to while the session goes on.


WORTH_ASKING_TOKENS = 2048
"""A shorter conversation fits every model, so nobody is asked for its sake."""


class LearnedModel:
    def __init__(self, model: Model, ask: Callable[[], Awaitable[Model]] | None = None) -> None:
        """`ask` None: all that can be known is known."""
        self.model = model
        self._ask = ask
        self._asking: asyncio.Task[None] | None = None

    def note(self, usage: Usage) -> None:
        """After each reply: asks once, beside whatever happens next."""
        if self._ask is None or self._asking is not None:
            return
        if usage.prompt_tokens >= WORTH_ASKING_TOKENS:
            self._asking = asyncio.get_running_loop().create_task(self._learn(self._ask))

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _learn(self, ask: Callable[[], Awaitable[Model]]) -> None:
        self.model = await ask()


_MAY_BE_FORGOTTEN = (ProviderErrorKind.REJECTED, ProviderErrorKind.MODEL)
"""How a server says that it has not what is continued: some as they say it of a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long a request that fails is worth waiting for."""

    max_wait_s: float = 60.0
    """The longest wait before another attempt: a provider that asks for more is not waited for."""
    waits_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    """Before the second attempt, the third and so on, where it asks for none."""


class ProviderConnection:
    """One model of one provider. Implements `types.wire.Wire`."""

    def __init__(
        self,
        *,
        dialect: Dialect,
        model: Model,
        socket: Socket,
        provider: Provider,
        key: Key | None = None,
        patience: RetryPolicy | None = None,
        timeouts: Timeouts | None = None,
        learning: LearnedModel | None = None,
    ) -> None:
        self.model = model
        self._learning = learning or LearnedModel(model)
        self._dialect = dialect
        self._socket = socket
        headers = dialect.headers(key.value if key else None)
        self._attempt: ModelProvider = SingleAttempt(
            dialect=dialect,
            model=model,
            socket=socket,
            headers=headers,
            timeouts=timeouts or Timeouts(),
        )
        self._explain = FailureExplainer(provider=provider, model=model, key=key)
        self._patience = patience or RetryPolicy()
        self._normal = NormalizedHistory(model)
        self._hurried: asyncio.Event | None = None

    async def send(self, request: Request, show: OnDelta) -> AssistantMessage:
        wired = prepare_request(request, self._normal)
        taken = self._normal.ids
        names = decode_names(spec.name for spec in (*request.tools, *request.deferred))
        try:
            message = await self._send_with_retries(wired, show, names)
        except ProviderError as error:
            if error.kind not in _MAY_BE_FORGOTTEN or not _is_continued(wired.messages):
                raise
            # The server may have forgotten the reply we continue: then it is told everything.
            message = await self._send_with_retries(_drop_continuation(wired), show, names)
        self._learning.note(message.usage)
        return restore_names(message, taken=taken, names=names)

    def wrap_attempts(self, limit: ProviderWrapper) -> ModelProvider:
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

    async def _send_with_retries(
        self, wired: Request, show: OnDelta, names: Mapping[str, str]
    ) -> AssistantMessage:
        """One request, tried again as often as it is worth."""
        attempt = 1
        while True:
            screen = _AttemptProgress(show, names)
            try:
                return await self._attempt.send(wired, screen.show)
            except (HttpError, ConnectionBroken, ProviderError) as error:
                if isinstance(error, ProviderError) and not error.was_sent:
                    raise
                await self._wait(self._failure(error), attempt=attempt, screen=screen)
                attempt += 1

    def _failure(self, error: HttpError | ConnectionBroken | ProviderError) -> AttemptFailure:
        if isinstance(error, HttpError):
            return to_failure(self._dialect.error(error.status, error.headers, error.body))
        return to_failure(error)

    async def _wait(
        self, failure: AttemptFailure, *, attempt: int, screen: "_AttemptProgress"
    ) -> None:
        """Returns when it is time to try again; raises where it is not worth it."""
        error = failure.error
        if attempt >= failure.attempts:
            raise self._explain.explain_final(error, attempts=attempt) from None
        wait_s = error.retry_after_s
        if wait_s is None:
            waits_s = self._patience.waits_s
            wait_s = waits_s[min(attempt, len(waits_s)) - 1] * random.uniform(0.8, 1.2)
            wait_s = min(wait_s, self._patience.max_wait_s)
        elif wait_s > self._patience.max_wait_s:
            limit_s = self._patience.max_wait_s
            raise self._explain.explain_long_wait(error, max_wait_s=limit_s) from None
        self._hurried = asyncio.Event()
        screen.show(
            RetryDelta(
                reason=self._explain.remove_key(describe_reason(error, shown_chars=screen.chars)),
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


class _AttemptProgress:
    """Where one attempt shows itself; counts what would be lost if it broke."""

    def __init__(self, show: OnDelta, names: Mapping[str, str]) -> None:
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


def prepare_request(request: Request, normal: NormalizedHistory) -> Request:
    """The request as every dialect takes it."""
    choice = request.tool_choice
    return replace(
        request,
        messages=normal.normalize(request.messages),
        tools=_rename_tools(request.tools),
        deferred=_rename_tools(request.deferred),
        tool_choice=choice if choice in ("auto", "required", "none") else encode_name(choice),
    )


@memoize
def _rename_tools(specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    return tuple(replace(spec, name=encode_name(spec.name)) for spec in specs)


def _is_continued(messages: Sequence[Message]) -> bool:
    return any(isinstance(message, AssistantMessage) and message.echo for message in messages)


def _drop_continuation(request: Request) -> Request:
    """The same conversation without the replies' ids that a server may continue."""
    messages = tuple(
        replace(message, echo=None) if isinstance(message, AssistantMessage) else message
        for message in request.messages
    )
    return replace(request, messages=messages)
