"""Our answers to what a server may ask: the user's, the model's, and the workspace path."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from mcp.client.session import ClientRequestContext, SamplingFnT
from mcp_types import (
    INTERNAL_ERROR,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ErrorData,
    ListRootsResult,
    Root,
)
from pydantic import FileUrl

from agentcli.system.plain_text import show_controls
from agentcli.types.forms import FieldKind, FormAnswer, FormField, ServerForm

# Time limits for requests to a server, which pause while the server asks the user.


class PausableTimeout:
    def __init__(self) -> None:
        self._left_s: dict[asyncio.Timeout, float] = {}
        self._pauses = 0

    @asynccontextmanager
    async def limit(self, seconds: float) -> AsyncIterator[None]:
        """Limit the time of the body. Raise TimeoutError when it is used up."""
        async with asyncio.timeout(None) as timeout:
            self._left_s[timeout] = seconds
            if not self._pauses:
                self._run(timeout)
            try:
                yield
            finally:
                del self._left_s[timeout]

    @property
    def is_tried(self) -> bool:
        """Return whether any request is running."""
        return bool(self._left_s)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause all limits: it is not always known which call a question belongs to."""
        self._pauses += 1
        if self._pauses == 1:
            for timeout in self._left_s:
                self._stop(timeout)
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                for timeout in self._left_s:
                    self._run(timeout)

    def _run(self, timeout: asyncio.Timeout) -> None:
        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time() + self._left_s[timeout])

    def _stop(self, timeout: asyncio.Timeout) -> None:
        until = timeout.when()
        if until is not None and not timeout.expired():
            self._left_s[timeout] = until - asyncio.get_running_loop().time()
            timeout.reschedule(None)


# Questions of a server to the user, from the protocol to a form and back


FIELDS_LIMIT = 30
CHOICES_LIMIT = 100
TEXT_CHARS = 1_000
URL_CHARS = 4_000

_PLAIN_KINDS: dict[str, FieldKind] = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
}
_FORMATS = ("email", "uri", "date", "date-time")


def make_form(server: str, params: ElicitRequestParams) -> ServerForm:
    message = _read_text(params.message)
    if isinstance(params, ElicitRequestURLParams):
        return ServerForm(
            server=server, kind="url", message=message, url=show_controls(params.url)[:URL_CHARS]
        )
    schema = params.requested_schema
    wanted = schema if isinstance(schema, Mapping) else {}
    return ServerForm(
        server=server, kind="form", message=message, fields=tuple(_iter_fields(wanted))
    )


def make_elicit_result(answer: FormAnswer) -> ElicitResult:
    return ElicitResult(action=answer.action, content=answer.values)


def _iter_fields(schema: Mapping[str, Any]) -> Iterator[FormField]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return
    for name, wanted in list(properties.items())[:FIELDS_LIMIT]:
        if isinstance(wanted, Mapping):
            is_required = isinstance(required, list) and name in required
            yield _build_field(name, wanted, is_required=is_required)


def _build_field(name: str, wanted: Mapping[str, Any], *, is_required: bool) -> FormField:
    kind, choices = _read_kind(wanted)
    least, most = _read_bounds(wanted, kind)
    return FormField(
        name=name,
        kind=kind,
        title=_read_text(wanted.get("title")),
        description=_read_text(wanted.get("description")),
        is_required=is_required,
        default=wanted.get("default"),
        choices=choices,
        least=least,
        most=most,
        format=wanted["format"] if wanted.get("format") in _FORMATS else "",
    )


def _read_kind(wanted: Mapping[str, Any]) -> tuple[FieldKind, tuple[tuple[str, str], ...]]:
    if wanted.get("type") == "array":
        items = wanted.get("items")
        return "choices", _list_choices(items if isinstance(items, Mapping) else {})
    choices = _list_choices(wanted)
    if choices:
        return "choice", choices
    return _PLAIN_KINDS.get(str(wanted.get("type")), "text"), ()


def _list_choices(wanted: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the choices, in any of the ways in which a schema can list them."""
    titled = wanted.get("oneOf") or wanted.get("anyOf")
    if isinstance(titled, list):
        pairs = [
            (one["const"], _read_text(one.get("title")) or _read_text(one["const"]))
            for one in titled
            if isinstance(one, Mapping) and isinstance(one.get("const"), str)
        ]
        return tuple(pairs[:CHOICES_LIMIT])
    values, names = wanted.get("enum"), wanted.get("enumNames")
    if not isinstance(values, list):
        return ()
    shown = names if isinstance(names, list) and len(names) == len(values) else values
    pairs = [
        (value, _read_text(name))
        for value, name in zip(values, shown, strict=True)
        if isinstance(value, str)
    ]
    return tuple(pairs[:CHOICES_LIMIT])


def _read_bounds(wanted: Mapping[str, Any], kind: FieldKind) -> tuple[float | None, float | None]:
    words = {"text": ("minLength", "maxLength"), "choices": ("minItems", "maxItems")}
    low, high = words.get(kind, ("minimum", "maximum"))
    return _read_number(wanted.get(low)), _read_number(wanted.get(high))


def _read_number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _read_text(value: Any) -> str:
    return show_controls(value)[:TEXT_CHARS] if isinstance(value, str) else ""


T = TypeVar("T")
FillIn: TypeAlias = Callable[[ServerForm], Awaitable[FormAnswer]]
SampleRequest: TypeAlias = CreateMessageRequestParams
SampleAnswer: TypeAlias = CreateMessageResult | ErrorData
Sample: TypeAlias = Callable[[SampleRequest], Awaitable[SampleAnswer]]


async def decline(form: ServerForm) -> FormAnswer:
    return FormAnswer(action="decline")


class ServerHost:
    def __init__(
        self,
        server: str,
        workspace: Path,
        *,
        patience: PausableTimeout,
        fill_in: FillIn,
        sample: Sample | None,
    ) -> None:
        self._server = server
        self._workspace = workspace
        self._patience = patience
        self._fill_in = fill_in
        self._sample = sample
        self._asking: set[asyncio.Future[Any]] = set()

    async def elicit(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        if not self._patience.is_tried:  # a server may ask only while a request to it is running
            return make_elicit_result(FormAnswer(action="decline"))
        answer = await self._run_question(self._fill_in(make_form(self._server, params)))
        return make_elicit_result(answer or FormAnswer(action="cancel"))

    def dismiss(self) -> None:
        """Cancel the open questions: the request they belong to is gone."""
        for task in self._asking:
            task.cancel()

    @property
    def sampling(self) -> SamplingFnT | None:
        """Return the sampling callback. If None, the server is not offered sampling at all."""
        return self._sample_model if self._sample else None

    async def roots(self, context: ClientRequestContext) -> ListRootsResult:
        uri = FileUrl(self._workspace.as_uri())
        return ListRootsResult(roots=[Root(uri=uri, name=self._workspace.name)])

    async def _sample_model(
        self, context: ClientRequestContext, params: SampleRequest
    ) -> SampleAnswer:
        assert self._sample is not None
        if not self._patience.is_tried:
            return ErrorData(code=INTERNAL_ERROR, message="nothing was asked of the server")
        answer = await self._run_question(self._sample(params))
        return answer or ErrorData(code=INTERNAL_ERROR, message="cancelled")

    async def _run_question(self, work: Awaitable[T]) -> T | None:
        """Return the result, or None if it was dismissed. No time limit runs meanwhile."""
        task = asyncio.ensure_future(work)
        self._asking.add(task)
        try:
            with self._patience.pause():
                await asyncio.wait({task})
        finally:
            self._asking.discard(task)
            task.cancel()
        return None if task.cancelled() else task.result()
