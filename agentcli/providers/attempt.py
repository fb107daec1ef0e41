"""One attempt at a reply: send a body and read its answer to the end.

An attempt that the provider has accepted costs something, however it ends. If it ends without a
reply, it shows an `AttemptBrokenOff`. Usage that the provider has not reported is estimated from
the prompt and from everything received.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from agentcli.providers.dialect import Decoder, Dialect, Model
from agentcli.providers.http.body import RequestBody
from agentcli.providers.http.sockets import (
    Body,
    ConnectionBroken,
    HttpError,
    Socket,
    Timeouts,
    make_stall_error,
)
from agentcli.providers.http.sse import Event
from agentcli.providers.length import request_tokens
from agentcli.system.tokens import estimate
from agentcli.types.deltas import (
    AttemptBrokenOff,
    CallDelta,
    Delta,
    TextDelta,
    ThinkingDelta,
    join_deltas,
)
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import AssistantMessage, Usage
from agentcli.types.provider import OnDelta, Request

_PART_OF_REPLY = ("type", "event_type", "index", "output_index", "item_id")
"""The fields that say what an event is and which part of a reply it belongs to."""


class SingleAttempt:
    """A `ModelProvider` that never retries.

    It raises what its socket raises: HttpError and ConnectionBroken.
    """

    def __init__(
        self,
        *,
        dialect: Dialect,
        model: Model,
        socket: Socket,
        headers: Mapping[str, str],
        timeouts: Timeouts,
    ) -> None:
        self._dialect = dialect
        self._model = model
        self._socket = socket
        self._headers = headers
        self._timeouts = timeouts
        self._body_text = RequestBody()

    async def send(self, request: Request, show: OnDelta) -> AssistantMessage:
        encoded = self._dialect.encode(request, self._model)
        heard = _ReceivedReply(self._dialect.decoder(self._model), show)
        try:
            await self._read(self._body_text.write(encoded, self._dialect.HISTORY_KEY), heard)
            message = heard.decoder.message()
        except (HttpError, ConnectionBroken, ProviderError, asyncio.CancelledError) as error:
            if heard.is_paid_for(error):
                show(AttemptBrokenOff(usage=heard.usage(request)))
            raise
        if message.usage.prompt_tokens:
            return message
        return replace(message, usage=heard.usage(request))  # or no limit would ever be reached

    async def close(self) -> None:
        await self._socket.close()

    async def _read(self, body: Body, heard: "_ReceivedReply") -> None:
        path = self._dialect.path(self._model)
        events = self._socket.exchange(path, headers=self._headers, body=body)
        try:
            await self._take_all(events, heard)
        except ConnectionBroken as broken:
            if broken.kind is not ProviderErrorKind.CUT or not _is_complete(heard.decoder):
                raise  # otherwise it broke after the end of the reply

    async def _take_all(
        self, events: AsyncGenerator[Sequence[Event], None], heard: "_ReceivedReply"
    ) -> None:
        """Feed all events to `heard`.

        Raise ConnectionBroken if no content comes for too long, even if bytes still come.
        """
        loop, limit_s = asyncio.get_running_loop(), self._timeouts.content_s
        try:
            async with asyncio.timeout(self._timeouts.taken_on_s) as patience, aclosing(events):
                async for together in events:
                    if not together and _is_complete(heard.decoder):
                        return  # the reply is complete, although the connection is still open
                    if heard.take(together):
                        patience.reschedule(loop.time() + limit_s)
        except TimeoutError:
            if heard.is_taken_on:
                raise make_stall_error(
                    "the provider", f"sent no content for {limit_s:g} s"
                ) from None
            raise make_stall_error("the provider", "does not answer") from None


class _ReceivedReply:
    """The part of an answer received so far."""

    def __init__(self, decoder: Decoder, show: OnDelta) -> None:
        self.decoder = decoder
        self._show = show
        self.is_taken_on = False
        self._passed: set[tuple[str, ...]] = set()
        """The kinds of events so far that showed nothing, by their values of `_PART_OF_REPLY`."""
        self._pieces: list[str] = []

    def take(self, events: Sequence[Event]) -> bool:
        """Show the deltas of these events; return whether the reply made progress.

        An event with nothing to show counts once for its part of the reply, because a ping comes
        again and again."""
        is_progress, self.is_taken_on = not self.is_taken_on, True
        deltas: list[Delta] = []
        try:
            for event in events:
                shown = self.decoder.feed(event)
                deltas += shown
                is_progress |= any(map(_says_something, shown)) or self._is_new(event)
        finally:
            for delta in join_deltas(deltas):
                self._note(delta)
                self._show(delta)
        return is_progress

    def _is_new(self, event: Event) -> bool:
        kind = tuple(str(event.get(name)) for name in _PART_OF_REPLY)
        is_new = kind not in self._passed
        self._passed.add(kind)
        return is_new

    def is_paid_for(self, error: BaseException) -> bool:
        """Return whether the provider charges for the attempt that ended with this error.

        It does if it has reported usage or sent any content. If it has only accepted the request,
        it does unless it reported in the end that it cannot answer."""
        if self._pieces or self.decoder.usage() != Usage():
            return True
        is_broken = (
            not isinstance(error, ConnectionBroken | ProviderError)
            or error.kind is ProviderErrorKind.CUT
        )
        return self.is_taken_on and is_broken

    def usage(self, request: Request) -> Usage:
        told = self.decoder.usage()
        is_read = told.prompt_tokens > 0
        return Usage(
            input_tokens=told.input_tokens if is_read else request_tokens(request),
            cache_read_tokens=told.cache_read_tokens,
            cache_write_tokens=told.cache_write_tokens,
            output_tokens=max(told.output_tokens, estimate("".join(self._pieces))),
            reasoning_tokens=told.reasoning_tokens,
            is_estimate=True,
        )

    def _note(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=piece) | ThinkingDelta(text=piece) | CallDelta(arguments=piece):
                self._pieces.append(piece)
            case _:
                pass


def _says_something(delta: Delta) -> bool:
    match delta:
        case TextDelta(text=piece) | ThinkingDelta(text=piece) | CallDelta(arguments=piece):
            return bool(piece)
        case _:
            return True


def _is_complete(decoder: Decoder) -> bool:
    try:
        decoder.message()
    except ProviderError:
        return False
    return True
