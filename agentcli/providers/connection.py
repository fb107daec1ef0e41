"""A connection to a model: a dialect and a socket put together, with retries.

`send` calls `_send_with_retries`, which calls `_send_once`; nothing else retries. A retry is
announced before each wait and can be cancelled at any moment. A message is returned whole or not at
all, so nothing was acted on when a stream breaks.

An attempt that the provider has accepted costs something, however it ends. If it ends without a
reply, it shows an `AttemptBrokenOff`. Usage that the provider has not reported is estimated from
the prompt and from everything received.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentcli.providers.catalog import Key, Provider
from agentcli.providers.dialect import STORED, Decoder, Dialect, Model
from agentcli.providers.failures import (
    AttemptFailure,
    FailureExplainer,
    describe_reason,
    to_failure,
)
from agentcli.providers.http.sockets import (
    ACCEPTED,
    Body,
    ConnectionBroken,
    HttpError,
    Socket,
    Timeouts,
    make_stall_error,
)
from agentcli.providers.http.sse import Event
from agentcli.providers.length import count_request_tokens
from agentcli.providers.normalize import (
    NormalizedHistory,
    drop_rejected,
    find_request_tools,
    prepare_request,
    restore_names,
)
from agentcli.system.tokens import estimate
from agentcli.types.deltas import (
    AttemptBrokenOff,
    CallDelta,
    Delta,
    RequestSent,
    RetryDelta,
    TextDelta,
    ThinkingDelta,
    join_deltas,
)
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Json, Usage
from agentcli.types.provider import Message, ModelProvider, OnDelta, ProviderWrapper, Request

if TYPE_CHECKING:
    from agentcli.providers.openai.chat_quirks import QuirkLearner

# The model in use, whose limits its provider may add during the session


WORTH_ASKING_TOKENS = 2048
"""The shortest prompt for which to ask the provider. A shorter one fits every model."""


class LearnedModel:
    def __init__(self, model: Model, ask: Callable[[], Awaitable[Model]] | None = None) -> None:
        """`ask` is None if there is nothing more to learn."""
        self.model = model
        self._ask = ask
        self._asking: asyncio.Task[None] | None = None

    def note(self, usage: Usage) -> None:
        """Start asking the provider, once, in the background. Called after each reply."""
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


_PART_OF_REPLY = ("type", "event_type", "index", "output_index", "item_id")
"""The fields that say what an event is and which part of a reply it belongs to."""

_MAY_BE_FORGOTTEN = (ProviderErrorKind.REJECTED, ProviderErrorKind.MODEL)
"""The errors of a server that no longer has the reply we continue.

Some servers report it the way they report an unknown model.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The waits between the attempts of a request that fails."""

    max_wait_s: float = 60.0
    """The longest wait before another attempt. If a provider asks for more, the request fails."""
    waits_s: tuple[float, ...] = (1.0, 2.0, 4.0, 8.0, 16.0)
    """The waits before the second attempt, the third and so on, if the provider asks for none.

    The first is also the shortest wait, whatever the provider asks for.
    """

    def choose_wait_s(self, asked_s: float | None, *, attempt: int) -> float:
        """Return the wait after this attempt, if the provider asks for `asked_s`."""
        row = 0 if asked_s is not None else min(attempt, len(self.waits_s)) - 1
        own_s = self.waits_s[row] * random.uniform(0.8, 1.2)
        return max(min(own_s, self.max_wait_s), asked_s or 0.0)


class ProviderConnection:
    """One model of one provider. Implements `types.provider.ModelProvider`."""

    def __init__(
        self,
        *,
        dialect: Dialect,
        model: Model,
        socket: Socket,
        provider: Provider,
        key: Key | None = None,
        retry_policy: RetryPolicy | None = None,
        timeouts: Timeouts | None = None,
        learning: LearnedModel | None = None,
        quirks: "QuirkLearner | None" = None,
    ) -> None:
        """`quirks` learns from a server that rejects a field. None if nothing is adapted."""
        self.model = replace(model, quirks=model.quirks | quirks.known) if quirks else model
        self._quirks = quirks
        self._learning = learning or LearnedModel(model)
        self._dialect = dialect
        self._socket = socket
        self._key = key.value if key else None
        self._timeouts = timeouts or Timeouts()
        self._body_text = RequestBody(dialect)
        self._limited: ModelProvider | None = None
        """The attempts within the limits of the session; None without limits."""
        self._explain = FailureExplainer(provider=provider, model=model, key=key)
        self._retry_policy = retry_policy or RetryPolicy()
        self._normal = NormalizedHistory(model)
        self._hurried: asyncio.Event | None = None

    async def send(self, request: Request, show: OnDelta) -> AssistantMessage:
        prepared = prepare_request(request, self._normal)
        sent, names = prepared.request, prepared.names
        try:
            message = await self._send_with_retries(sent, show, names=names)
        except ProviderError as error:
            if error.kind not in _MAY_BE_FORGOTTEN or not _is_continued(sent.messages):
                raise
            # The server may have forgotten the reply we continue, so send the whole conversation.
            message = await self._send_with_retries(_drop_continuation(sent), show, names=names)
        self._learning.note(message.usage)
        return restore_names(message, taken=prepared.ids, names=names)

    def wrap_attempts(self, limit: ProviderWrapper) -> ModelProvider:
        """Pass every attempt through `limit` from now on; return this connection."""
        self._limited = limit(self._limited or _SingleAttempts(self._send_once, self._socket.close))
        return self

    def hurry(self) -> None:
        """End the wait before the next attempt, if there is one."""
        if self._hurried:
            self._hurried.set()

    async def prepare(self) -> None:
        """Open the connection while the first prompt is still being built."""
        await self._socket.prepare()

    async def close(self) -> None:
        await self._learning.close()
        await (self._limited or self._socket).close()

    async def _send_with_retries(
        self, sent: Request, show: OnDelta, *, names: Mapping[str, str]
    ) -> AssistantMessage:
        """Send one request, and retry it as often as its failures allow."""
        attempt = 1
        # A limit of the session may refuse or reduce it, then it calls `_send_once`.
        send = self._limited.send if self._limited else self._send_once
        while True:
            screen = _AttemptProgress(show, names)
            try:
                message = await send(sent, screen.show)
                if self._quirks is not None:
                    self._quirks.confirm()
                return message
            except (HttpError, ConnectionBroken, ProviderError) as error:
                if isinstance(error, ProviderError) and not error.was_sent:
                    raise
                if isinstance(error, HttpError) and self._adapt(error, sent, screen=screen):
                    continue
                await self._wait(self._build_failure(error), attempt=attempt, screen=screen)
                attempt += 1

    def _adapt(self, error: HttpError, sent: Request, *, screen: "_AttemptProgress") -> bool:
        """Change how requests are written, if that is what the server wants. Say so."""
        translated = self._dialect.read_error(error.status, error.headers, body=error.body)
        if translated.kind is not ProviderErrorKind.REJECTED:
            return False
        if quirk := self._quirks.learn(error, self._body_text.rest) if self._quirks else "":
            self.model = replace(self.model, quirks=self.model.quirks | {quirk})
            reason = f"{translated}. Adapting to the server (quirk {quirk})"
        else:
            self.model, rejected = drop_rejected(self.model, sent, message=str(translated))
            if not rejected:
                return False
            reason = f"{translated}. Going on without {rejected}"
        screen.show(
            RetryDelta(
                reason=self._explain.remove_key(reason),
                status=error.status,
                wait_s=0.0,
                attempt=2,
                attempts=2,
            )
        )
        return True

    async def _send_once(self, request: Request, show: OnDelta) -> AssistantMessage:
        """Send one request and read its answer to the end. Raise what the socket raises."""
        exchange = self._dialect.open_exchange(self.model, self._key)
        received = _ReceivedReply(exchange.decoder, show)
        try:
            events = self._socket.exchange(
                exchange.path,
                headers=exchange.headers,
                body=self._body_text.write(request, self.model),
                on_sent=lambda: show(RequestSent()),
            )
            await self._take_all(events, received)
            message = received.decoder.message()
        except (HttpError, ConnectionBroken, ProviderError, asyncio.CancelledError) as error:
            if received.request_id and isinstance(error, ConnectionBroken | ProviderError):
                error.add_note(f"request {received.request_id}")
            if received.is_paid_for(error):
                show(AttemptBrokenOff(usage=received.usage(request)))
            raise
        # Without usage, no limit would ever be reached.
        usage = message.usage if message.usage.prompt_tokens else received.usage(request)
        return replace(message, usage=usage, request_id=received.request_id)

    async def _take_all(
        self, events: AsyncGenerator[Sequence[Event], None], received: "_ReceivedReply"
    ) -> None:
        """Feed all events to `received`.

        Raise ConnectionBroken if no content comes for too long, even if bytes still come.
        """
        loop, limits = asyncio.get_running_loop(), self._timeouts
        limit_s = limits.content_s
        taken_on_s = limits.connect_s + limits.first_byte_s + limits.head_s
        try:
            async with asyncio.timeout(taken_on_s) as patience, aclosing(events):
                async for together in events:
                    if not together and received.is_complete:
                        return  # the reply is complete, although the connection is still open
                    if received.take(together):
                        patience.reschedule(loop.time() + limit_s)
        except TimeoutError:
            if not received.is_complete:
                how = f"sent no content for {limit_s:g} s"
                how = how if received.is_taken_on else "does not answer"
                raise make_stall_error("the provider", how) from None
        except ConnectionBroken as broken:
            if broken.kind is not ProviderErrorKind.CUT or not received.is_complete:
                raise  # otherwise it broke after the end of the reply

    def _build_failure(self, error: HttpError | ConnectionBroken | ProviderError) -> AttemptFailure:
        if isinstance(error, HttpError):
            translated = self._dialect.read_error(error.status, error.headers, body=error.body)
            return to_failure(translated, should_retry=error.headers.get("x-should-retry", ""))
        return to_failure(error)

    async def _wait(
        self, failure: AttemptFailure, *, attempt: int, screen: "_AttemptProgress"
    ) -> None:
        """Return when it is time to retry. Raise ProviderError if a retry is not worth it."""
        error = failure.error
        if attempt >= failure.max_attempts:
            raise self._explain.explain_final(error, attempts=attempt) from None
        wait_s = self._retry_policy.choose_wait_s(error.retry_after_s, attempt=attempt)
        limit_s = self._retry_policy.max_wait_s
        if wait_s > limit_s:
            raise self._explain.explain_long_wait(error, max_wait_s=limit_s) from None
        self._hurried = asyncio.Event()
        screen.show(
            RetryDelta(
                reason=self._explain.remove_key(describe_reason(error, shown_chars=screen.chars)),
                status=error.status,
                wait_s=wait_s,
                attempt=attempt + 1,
                attempts=failure.max_attempts,
            )
        )
        try:
            async with asyncio.timeout(wait_s):
                await self._hurried.wait()
        except TimeoutError:
            return


class _SingleAttempts:
    """The single attempts of a connection as a `ModelProvider`, so that a limit can wrap them."""

    def __init__(
        self,
        send: Callable[[Request, OnDelta], Awaitable[AssistantMessage]],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._send = send
        self._close = close

    async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        return await self._send(request, on_delta)

    async def close(self) -> None:
        await self._close()


class _AttemptProgress:
    """The output of one attempt. Counts the characters that are lost if it breaks."""

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


class _ReceivedReply:
    """The part of an answer received so far."""

    def __init__(self, decoder: Decoder, show: OnDelta) -> None:
        self.decoder = decoder
        self._show = show
        self.is_taken_on = False
        self.request_id = ""
        self._passed: set[tuple[str, ...]] = set()
        """The kinds of events so far that showed nothing, by their values of `_PART_OF_REPLY`."""
        self._pieces: list[str] = []

    @property
    def is_complete(self) -> bool:
        try:
            self.decoder.message()
        except ProviderError:
            return False
        return True

    def take(self, events: Sequence[Event]) -> bool:
        """Show the deltas of these events; return whether the reply made progress.

        An event with nothing to show counts once for its part of the reply, because a ping comes
        again and again."""
        is_progress, self.is_taken_on = not self.is_taken_on, True
        deltas: list[Delta] = []
        try:
            for event in events:
                if event.get("type") == ACCEPTED:
                    self.request_id = str(event["request_id"])
                    continue
                if (event.get("type") == "error" or event.get("error")) and self.is_complete:
                    break  # an error after the end of the reply
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
        reported = self.decoder.usage()
        is_read = reported.prompt_tokens > 0
        return replace(
            reported,
            input_tokens=reported.input_tokens if is_read else count_request_tokens(request),
            output_tokens=max(reported.output_tokens, estimate("".join(self._pieces))),
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


def _is_continued(messages: Sequence[Message]) -> bool:
    return any(isinstance(message, AssistantMessage) and message.echo for message in messages)


def _drop_continuation(request: Request) -> Request:
    """Return the same conversation without the reply ids that a server could continue."""
    messages = tuple(
        replace(message, echo=None) if isinstance(message, AssistantMessage) else message
        for message in request.messages
    )
    return replace(request, messages=messages)


# The JSON text of a request, built from the text already written for the one before.
#
# Between two steps of a conversation nearly all of a body stays the same. The text of its settled
# messages is kept, and only the others are encoded. It is handed out in pieces that never change
# again: a long history is neither copied for a request nor held twice.


CONVERSATIONS = 8
"""The number of conversations kept: that of the session and those of its child agents."""

PIECE_BYTES = 64 * 1024
"""Smaller ones take longer to send: each is a call of its own."""

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class RequestBody:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.rest: dict[str, Json] = {}
        """Everything except the history in the latest request."""
        self._opening = b"{"
        """The text of `rest`, open at the end."""
        self._conversations: list[_SettledText] = []
        """The latest first."""

    def write(self, request: Request, model: Model) -> Body:
        """Return the same text as that of the whole body, but for the order of its keys."""
        settled = self._settle(request, model)
        body = self._dialect.encode(request, model, start=len(settled.messages))
        items = body.pop(self._dialect.HISTORY_KEY, None)
        if body != self.rest:  # fast, as its larger parts are the same objects
            self.rest, self._opening = body, encode_text(body)[:-1] + (b"," if body else b"")
        if not isinstance(items, list):  # there is nothing to send but an id
            return (encode_text(body),)
        opening = self._opening + encode_text(self._dialect.HISTORY_KEY) + b":["
        latest = b"".join((settled.latest, _join_items(items, follow=settled.has_items), b"]}"))
        return (opening, *settled.pieces, latest)

    def _settle(self, request: Request, model: Model) -> "_SettledText":
        """Return the text of the messages that are settled, with those that are new among them."""
        messages = request.messages
        end = 0 if STORED in model.quirks else count_settled(messages)
        if end == 0:
            return _SettledText(())
        # All that the items of a message depend on besides the messages.
        by = (model, request.system, request.deferred, find_request_tools(request, model).hidden)
        found = next((one for one in self._conversations if one.begins(messages[:end], by)), None)
        if found is None:
            found = _SettledText(by)
            self._conversations[CONVERSATIONS - 1 :] = []
        else:
            self._conversations.remove(found)
        self._conversations.insert(0, found)
        start = len(found.messages)
        if start < end:
            part = self._dialect.encode(request, model, start=start, end=end)
            items = part[self._dialect.HISTORY_KEY]
            found.grow(messages[:end], items if isinstance(items, list) else [])
        return found


class _SettledText:
    """The text of the first messages of a conversation. It only grows."""

    def __init__(self, by: tuple[Any, ...]) -> None:
        self._by = by
        self.messages: tuple[Message, ...] = ()
        self.pieces: list[bytes] = []
        self.latest = bytearray()
        """The text after the pieces."""

    @property
    def has_items(self) -> bool:
        return bool(self.pieces or self.latest)

    def begins(self, messages: tuple[Message, ...], by: tuple[Any, ...]) -> bool:
        """Return whether it is the text of the first of these messages."""
        # Fast, as they are the same objects.
        return by == self._by and messages[: len(self.messages)] == self.messages

    def grow(self, messages: tuple[Message, ...], items: Sequence[Json]) -> None:
        """Add the items of the messages that are new among these."""
        self.latest += _join_items(items, follow=self.has_items)
        self.messages = messages
        while len(self.latest) >= 2 * PIECE_BYTES:
            self.pieces.append(bytes(self.latest[:PIECE_BYTES]))
            del self.latest[:PIECE_BYTES]


def count_settled(messages: Sequence[Message]) -> int:
    """Return how many messages at the start have items that no longer history changes.

    Items of neighbours in the same role may be joined, and Anthropic's have cache markers in this
    request and the next. So settled is what comes before the last answers but one, if the reply
    before these says something."""
    answers = 0
    for at in range(len(messages) - 1, 0, -1):
        before = messages[at - 1]
        if isinstance(before, AssistantMessage) and not isinstance(messages[at], AssistantMessage):
            answers += 1
            if answers > 1 and (before.tool_calls or before.text.strip()):
                return at
    return 0


def _join_items(items: Sequence[Json], *, follow: bool) -> bytes:
    """Return the items as the inside of a list. `follow` is true if others come before them."""
    text = encode_text([*items])[1:-1]
    return b"," + text if follow and text else text


def encode_text(value: Json) -> bytes:
    """Return the JSON text of a value."""
    # Half a surrogate pair, as in a file name that is not valid text, becomes a question mark.
    return _JSON.encode(value).encode("utf-8", "replace")
