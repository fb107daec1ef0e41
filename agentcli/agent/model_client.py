"""The model client: each request fits the window, and each reply is recorded with its price.

A conversation that does not fit is shortened. If the model is overloaded, another one takes over,
provided that the user named one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

from agentcli.agent.compaction import Compactor
from agentcli.agent.journal import Journal
from agentcli.agent.prompt_cache import (
    CHEAP_TOKENS,
    WORTH_REPORTING_TOKENS,
    CachedPrompt,
    CacheWatch,
    build_prompt_usage,
)
from agentcli.agent.usage_recorder import build_usage_recorder
from agentcli.types.deltas import AttemptBrokenOff, Delta, RetryDelta, TextDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.events import (
    AsideAnswered,
    Emit,
    ModelFailed,
    ModelReplied,
    TokensSpent,
    Warned,
)
from agentcli.types.messages import AssistantMessage, Text, Usage, UserMessage
from agentcli.types.provider import (
    CACHE_LIFETIME_S,
    Price,
    Request,
    ServedModel,
    ToolChoice,
)
from agentcli.types.tools import ToolSpec

STANDARD_TIERS = (None, "auto", "default", "standard", "standard_only")
"""The service tiers at the usual price."""
ASIDE = (
    "A question of the user, aside from the task: answer it in a few sentences from what you know, "
    "without calling a tool. Neither it nor your answer stays in the conversation."
)
TITLE = (
    "You name sessions of a coding agent. From the messages of its user, write a title of three to "
    "six words that says what the session is about. Answer with the title alone, without quotes."
)
GIVEN_TITLE_CHARS = 60
TITLE_PROMPT_CHARS = 2_000
OVERFLOWS_MAX = 2
"""The number of times per turn that a conversation is shortened and sent again."""

FallBack: TypeAlias = Callable[[str], Awaitable[bool]]
"""Takes the name of an overloaded model. Returns whether another one is in use now."""


class ModelClient:
    def __init__(
        self,
        *,
        model: Callable[[], ServedModel],
        template: Request,
        journal: Journal,
        compactor: Compactor | None = None,
        small_model: Callable[[], ServedModel | None] | None = None,
        fall_back: FallBack | None = None,
        tools: Callable[[], tuple[ToolSpec, ...]] | None = None,
        deferred: Callable[[], tuple[ToolSpec, ...]] = tuple,
    ) -> None:
        """`model` returns the model to send the next request to.
        `compactor` keeps the conversation within the model's window.
        `small_model` returns the model for summaries, or None if it cannot be used.
        `fall_back` is called if the model is overloaded; None if there is no other.
        `tools` returns the tools to declare now; if None, those of the template are declared.
        `deferred` returns the tools that the model can search for."""
        self._model = model
        self._template = template
        self._journal = journal
        self._compactor = compactor
        self._small_model = small_model
        self._fall_back = fall_back
        self._tools = tools
        self._deferred = deferred
        self._asked: ServedModel | None = None
        """The model of the last request."""
        self._cache = CacheWatch()
        self._overflows = 0

    async def send(
        self, *, tool_choice: ToolChoice = "auto", begins_turn: bool = False
    ) -> AssistantMessage:
        """Return the next reply; raise ProviderError."""
        model = self._asked = self._model()
        request = self._build_request(model, tool_choice)
        if self._compactor is not None:
            request = await self._compactor.fit_request(request, by=self._list_summarizers(model))
        began, partial = time.monotonic(), _PartialReply(self._journal.append, price=model.price)
        if begins_turn:
            self._overflows = 0
            self._forecast_cost(request, model.price)
        try:
            reply = await model.provider.send(request, partial.handle_delta)
        except ProviderError as error:
            partial.record_broken_attempt()
            if error.was_sent:
                self._journal.append(
                    ModelFailed(
                        kind=error.kind,
                        message=str(error),
                        hint=error.hint,
                        retry_after_s=error.retry_after_s,
                    )
                )
            raise
        except asyncio.CancelledError:
            if partial.text:
                self._journal.append(
                    partial.build_cancelled_reply(model.name, time.monotonic() - began)
                )
            partial.record_broken_attempt()
            raise
        partial.record_broken_attempt()
        if request.service_tier not in STANDARD_TIERS:  # its price is not in any table
            reply = replace(reply, usage=replace(reply.usage, is_estimate=True))
        self._record_usage(request, reply)
        self._journal.append(
            ModelReplied(
                message=reply,
                duration_s=round(time.monotonic() - began, 4),
                cost_usd=model.price(reply.usage),
                retries=partial.retries,
            )
        )
        return reply

    def find_cached_prompt(self) -> CachedPrompt | None:
        """Return what the provider keeps of the conversation; None if it is not worth a word."""
        tokens, left_s = self._cache.measure()
        if tokens < WORTH_REPORTING_TOKENS:
            return None
        model = self._model()
        is_long = model.cache_lifetime_s > CACHE_LIFETIME_S
        cold_usd = model.price(build_prompt_usage(tokens, is_long=is_long))
        return CachedPrompt(tokens=tokens, left_s=left_s, cold_usd=cold_usd)

    async def try_to_recover(self, error: ProviderError) -> bool:
        """Try to fix the cause and return whether the next attempt may succeed."""
        if error.kind is ProviderErrorKind.OVERFLOW:
            return await self.shrink_conversation()
        if not error.may_fall_back or self._fall_back is None or self._asked is None:
            return False
        return await self._fall_back(self._asked.name)

    async def shrink_conversation(self) -> bool:
        """Shorten a conversation that no longer fits; return False if that is impossible."""
        self._overflows += 1
        if self._compactor is None or self._overflows > OVERFLOWS_MAX:
            return False
        model = self._model()
        return await self._compactor.recover_from_overflow(
            self._build_request(model), by=self._list_summarizers(model)
        )

    async def compact(self, wanted: str = "") -> bool:
        """Compact between two turns, at the user's request. `wanted` is what to keep above all.

        Return False if it failed, or if the model has not replied yet."""
        model = self._model()
        request = self._build_request(model)
        has_replies = any(isinstance(one, AssistantMessage) for one in request.messages)
        if self._compactor is None or not has_replies:
            return False
        return await self._compactor.compact(
            request,
            by=self._list_summarizers(model),
            wanted=wanted,
            trigger="manual",
        )

    async def ask_aside(self, question: str) -> str:
        """Return the answer to a question about the conversation, which does not become part of it.

        Raise ProviderError. It may be asked while a turn is running."""
        model = self._model()
        request = self._build_request(model, tool_choice="none")
        asked = UserMessage(content=(Text(text=f"{ASIDE}\n\n{question}"),))
        reply = await model.provider.send(
            replace(request, messages=(*request.messages, asked), answer_schema=None),
            build_usage_recorder(self._journal.append, model.price),
        )
        answer = reply.text.strip()
        self._journal.append(
            AsideAnswered(
                question=question,
                answer=answer,
                usage=reply.usage,
                cost_usd=model.price(reply.usage),
            )
        )
        return answer or "(no answer)"

    async def draft_title(self) -> str:
        """Return a title by the small model, from the user's messages; "" if it has none to give.

        Raise ProviderError."""
        small = self._small_model() if self._small_model else None
        model = small or self._model()
        said = [
            block.text
            for message in self._journal.history.list_user_messages()
            for block in message.content
            if isinstance(block, Text)
        ]
        if not said:
            return ""
        ends = dict.fromkeys((said[0], said[-1]))
        asked = "\n\n".join(text[:TITLE_PROMPT_CHARS] for text in ends)
        reply = await model.provider.send(
            Request(
                model=model.name,
                system=TITLE,
                messages=(UserMessage(content=(Text(text=asked),)),),
                session=self._journal.session,
            ),
            build_usage_recorder(self._journal.append, model.price),
        )
        spent = TokensSpent(why="title", usage=reply.usage, cost_usd=model.price(reply.usage))
        self._journal.append(spent)
        return " ".join(reply.text.split()).strip("\"'.")[:GIVEN_TITLE_CHARS]

    def _list_summarizers(self, model: ServedModel) -> Sequence[ServedModel]:
        """Return the models for a summary: the small one, if there is one, then the model."""
        small = self._small_model() if self._small_model else None
        return [small, model] if small else [model]

    def _build_request(self, model: ServedModel, tool_choice: ToolChoice = "auto") -> Request:
        tools = self._tools() if self._tools else self._template.tools
        return replace(
            self._template,
            model=model.name,
            effort=model.effort,
            cache_lifetime_s=model.cache_lifetime_s,
            service_tier=model.service_tier,
            messages=self._journal.history.build_messages(),
            tools=tools,
            deferred=self._deferred(),
            tool_choice=tool_choice,
        )

    def _forecast_cost(self, request: Request, price: Price) -> None:
        """Warn if the request is expensive."""
        size = self._compactor.size if self._compactor else None
        if size is None or (tokens := size.measure(request)) < CHEAP_TOKENS:
            return
        large = self._cache.forecast_cost(
            request, tokens=tokens, cached_tokens=size.counted_tokens, price=price
        )
        if large is not None:
            self._journal.append(Warned(code="cost.forecast", message=large))

    def _record_usage(self, request: Request, reply: AssistantMessage) -> None:
        if self._compactor is not None:
            self._compactor.size.learn(request, reply.usage)
        missed = self._cache.detect_miss(request, reply.usage)
        if missed is not None:
            self._journal.append(Warned(code="cache.missed", message=missed))


class _PartialReply:
    """The part of a reply received so far, in case it never ends.

    The usage of an attempt that broke off is recorded once nothing else will record it."""

    def __init__(self, emit: Emit, *, price: Price) -> None:
        self._emit = emit
        self._price = price
        self._pieces: list[str] = []
        self._pending_usage: Usage | None = None
        self.retries = 0

    def handle_delta(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                self._pieces.append(text)
            case AttemptBrokenOff(usage=usage):
                self._pending_usage = usage
                return
            case RetryDelta():
                self.record_broken_attempt()
                self._pieces.clear()
                self.retries += 1
            case _:
                pass
        self._emit(delta)

    def record_broken_attempt(self) -> None:
        """Record the usage of an attempt that broke off, if there was one."""
        used, self._pending_usage = self._pending_usage, None
        if used is not None:
            cost_usd = self._price(used)
            self._emit(TokensSpent(why="broken_off", usage=used, cost_usd=cost_usd))

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def build_cancelled_reply(self, model: str, duration_s: float) -> ModelReplied:
        """Build a reply from the part that was received."""
        used, self._pending_usage = self._pending_usage or Usage(), None
        message = AssistantMessage(
            content=(Text(text=self.text),),
            stop="cancelled",
            protocol="",
            model=model,
            usage=used,
        )
        return ModelReplied(
            message=message,
            duration_s=round(duration_s, 4),
            cost_usd=self._price(used),
            retries=self.retries,
        )


# The system prompt: stable byte for byte, so that it stays cached.


@cache
def load_system_prompt() -> str:
    return Path(__file__).with_name("prompt.md").read_text(encoding="utf-8").strip()
