"""The part of HTTP errors that all dialects share: the kind of a status, the wait, one clear line.

`types/errors.ProviderErrorKind` lists the kinds and says how to add one.
Any body, even a page of HTML or ten megabytes of it, becomes one bounded line.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from math import ceil

from agentcli.providers.arguments import replace_unpaired
from agentcli.providers.catalog import Key, Provider, suggest_login
from agentcli.providers.dialect import Model
from agentcli.providers.http.sockets import ATTEMPTS, ConnectionBroken
from agentcli.system.lazy import compile_later
from agentcli.types.errors import (
    ProviderError,
    ProviderErrorKind,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json

# Explaining a failure to the user: one sentence, and a hint what to do


_LATER = "try again later, or use another model (agentcli models)"
_HINT_OF_KIND = {
    ProviderErrorKind.OVERFLOW: "shorten the prompt, or start a new session",
    ProviderErrorKind.RATE_LIMITED: _LATER,
    ProviderErrorKind.UNAVAILABLE: _LATER,
    ProviderErrorKind.CUT: _LATER,
}
"""What the user can do, where the error does not say it. A hint that needs values, such as the name
of the key, is in `FailureExplainer`."""

_SHORT_REASONS = {429: "rate limited", 529: "overloaded"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailure:
    """One attempt that gave no reply."""

    error: ProviderError
    max_attempts: int
    """The total attempts worth making; 1 if another would fail the same way."""


def to_failure(
    error: ProviderError | ConnectionBroken, *, should_retry: str = ""
) -> AttemptFailure:
    """Return the failure. `should_retry` is a header: true or false there overrides the kind.

    Notes on the error, such as the id of the request, become part of its text."""
    text = " ".join((str(error), *(f"({note})" for note in getattr(error, "__notes__", ()))))
    if isinstance(error, ConnectionBroken):
        failure = ProviderError(text, kind=error.kind, hint=error.hint)
        return AttemptFailure(error=failure, max_attempts=error.max_attempts)
    error = ProviderError(
        text,
        kind=error.kind,
        hint=error.hint,
        status=error.status,
        retry_after_s=error.retry_after_s,
    )
    advice = should_retry.strip().lower()
    is_retried = advice == "true" or (advice != "false" and error.may_be_retried)
    return AttemptFailure(error=error, max_attempts=ATTEMPTS if is_retried else 1)


def describe_reason(error: ProviderError, *, shown_chars: int) -> str:
    """Return a clause for the line that announces another attempt."""
    words = _SHORT_REASONS.get(error.status or 0, str(error))
    if shown_chars:
        return f"{words} (dropping {shown_chars:,} characters)"
    return words


_SHORTEST_KEY = 8
"""A shorter key is a word for a server that wants none, and may be any part of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureExplainer:
    provider: Provider
    model: Model
    key: Key | None

    def explain_final(self, error: ProviderError, *, attempts: int) -> ProviderError:
        """Return the error that ends a request."""
        return ProviderError(
            self._describe(error, attempts=attempts),
            kind=error.kind,
            hint=self.remove_key(self._suggest_fix(error)),
            status=error.status,
            retry_after_s=error.retry_after_s,
        )

    def explain_long_wait(self, error: ProviderError, *, max_wait_s: float) -> ProviderError:
        wait_s = error.retry_after_s or 0.0
        wait = _format_duration(wait_s)
        return ProviderError(
            f"{self.provider.name} asks to wait {wait}, more than the {max_wait_s:g} s allowed:"
            f" {self.remove_key(str(error))}",
            kind=error.kind,
            hint=f"try again in {wait}, or wait longer: --max-wait {ceil(wait_s)}",
            status=error.status,
            retry_after_s=error.retry_after_s,
        )

    def remove_key(self, text: str) -> str:
        """Return the text without the key."""
        if self.key is None or len(self.key.value) < _SHORTEST_KEY:
            return text
        return text.replace(self.key.value, self.key.tail)

    def _describe(self, error: ProviderError, *, attempts: int) -> str:
        text = self.remove_key(str(error)).rstrip(".")
        after = f", after {attempts} attempts" if attempts > 1 else ""
        message = f"{self.provider.name}: {text}{after}"
        match error.kind:
            case ProviderErrorKind.CREDENTIALS if error.status == 401:
                return self._describe_rejection(error.status)
            case ProviderErrorKind.CREDENTIALS:
                return f"{message} ({self._describe_key()})"
            case ProviderErrorKind.MODEL if error.status == 404:
                return f"{self.provider.name} has no model {self.model.name}: {text}"
            case _:
                return message

    def _suggest_fix(self, error: ProviderError) -> str:
        """Return the hint that the error has, or the one of its kind; empty if there is none."""
        match error.kind:
            case ProviderErrorKind.UNAVAILABLE if (
                error.hint and error.status is None and self._is_local()
            ):
                return f"check that {self.provider.name} is running"
            case _ if error.hint:
                return error.hint
            case ProviderErrorKind.CREDENTIALS:
                return self._suggest_key_fix() if error.status in (400, 401, 403) else ""
            case ProviderErrorKind.MODEL:
                return self._suggest_models()
            case kind:
                return _HINT_OF_KIND.get(kind, "")

    def _is_local(self) -> bool:
        return not self.provider.needs_key and not self.provider.platform

    def _describe_rejection(self, status: int | None) -> str:
        return f"{self.provider.name} rejected the API key ({status}, {self._describe_key()})"

    def _describe_key(self) -> str:
        if self.key is None:
            return "no key was sent"
        return f"key from {self.key.source}, ends in {self.key.tail}"

    def _suggest_models(self) -> str:
        return "agentcli models --local" if self._is_local() else "agentcli models"

    def _suggest_key_fix(self) -> str:
        return self.key.fix if self.key else suggest_login(self.provider)


def _format_duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s" if seconds >= 2 else f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


LIMIT_CHARS = 400

_KIND_OF_STATUS = {
    401: ProviderErrorKind.CREDENTIALS,
    402: ProviderErrorKind.CREDENTIALS,
    403: ProviderErrorKind.CREDENTIALS,
    404: ProviderErrorKind.MODEL,
    408: ProviderErrorKind.UNAVAILABLE,
    409: ProviderErrorKind.UNAVAILABLE,
    413: ProviderErrorKind.OVERFLOW,
    425: ProviderErrorKind.UNAVAILABLE,
    429: ProviderErrorKind.RATE_LIMITED,
    499: ProviderErrorKind.UNAVAILABLE,
    501: ProviderErrorKind.REJECTED,
    505: ProviderErrorKind.REJECTED,
}
"""Only what a status means at every provider. A kind that the body names, by the `errors` of its
protocol, wins over it. A status that must win over every body is decided in `make_http_error`."""


def classify_status(status: int) -> ProviderErrorKind:
    other = ProviderErrorKind.UNAVAILABLE if status >= 500 else ProviderErrorKind.REJECTED
    return _KIND_OF_STATUS.get(status, other)


_REQUEST_IDS = ("request-id", "x-request-id", "x-goog-request-id", "x-amzn-requestid", "cf-ray")
"""The headers with the id by which a provider finds a request in its own log."""


def find_request_id(headers: Mapping[str, str]) -> str:
    ids = (headers.get(name, "").strip() for name in _REQUEST_IDS)
    return next((value for value in ids if re.fullmatch(r"[\w.:/+=-]{1,100}", value, re.A)), "")


_NO_API = compile_later(r"received a web page|(?:404 page |404 )?not found\.?$", re.I)
"""What a server says about a path that it does not have. About a model, it says more."""


def make_http_error(
    status: int,
    headers: Mapping[str, str],
    *,
    said: str,
    kind: ProviderErrorKind | None = None,
    hint: str = "",
    retry_after_s: float | None = None,
) -> ProviderError:
    """Return an error in the provider's own words. `said` comes from `summarize_body`.

    A server fault that comes with the status of a faulty request is one: a retry would fail, too.
    """
    if kind is None or kind is ProviderErrorKind.UNAVAILABLE:
        kind = classify_status(status)
    if status == 404 and _NO_API.match(said):
        kind, said = ProviderErrorKind.REJECTED, f"there is no API at this address: {said}"
        hint = "check the base URL"
    request_id = find_request_id(headers)
    source = f"HTTP {status}, request {request_id}" if request_id else f"HTTP {status}"
    return ProviderError(
        f"{said} ({source})" if said else source,
        kind=kind,
        hint=hint,
        status=status,
        retry_after_s=read_wait_s(headers) if retry_after_s is None else retry_after_s,
    )


def make_cut_error(what: str) -> ProviderError:
    return ProviderError(f"the reply was cut off: {what}", kind=ProviderErrorKind.CUT)


def find_fault(body: Json) -> Mapping[str, Json]:
    """Return the error object of a body, however it is wrapped."""
    match body:
        case [first, *_]:
            return find_fault(first)
        case {"error": dict(inner)}:
            return find_fault(inner)
        case dict():
            return body
        case _:
            return {}


def read_wait_s(headers: Mapping[str, str]) -> float | None:
    """Return how long the provider asks to wait. Header names are in lower case."""
    milliseconds = _parse_number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "").strip()
    seconds = _parse_number(value)
    return _compute_wait(value) if seconds is None and value else seconds


def _parse_number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\s*\d{1,300}(\.\d{1,300})?\s*", text) else None


def _compute_wait(date: str) -> float | None:
    try:
        moment = datetime.strptime(date, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    except ValueError:
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


def summarize_body(body: Json) -> str:
    """Return the error message of a body in any form, as one bounded line."""
    text = _find_message(body)
    if _is_page(text):
        title = _find_title(text)
        text = f"received a web page: {title}" if title else "received a web page"
    line = " ".join(replace_unpaired(text[: LIMIT_CHARS * 4]).split())
    return line if len(line) <= LIMIT_CHARS else line[:LIMIT_CHARS] + "…"


def _find_message(body: Json) -> str:
    """Return the message of an error in any of the shapes that providers use."""
    match body:
        case str():
            return body
        case {"error": {"message": str(message)}}:
            return message
        case {"error": str(message)} | {"message": str(message)} | {"detail": str(message)}:
            return message
        case [first, *_]:
            return _find_message(first)
        case _:
            return json.dumps(body, ensure_ascii=False) if body else ""


_TITLE = compile_later(r"<(?:title|h1)\b[^>]*>([^<]*)", re.I)
_TAG = compile_later(r"\s*<(?:[!?]|[a-z][a-z0-9]*[\s/>])", re.I)


def _find_title(page: str) -> str:
    found = _TITLE.search(page)
    return found[1].strip() if found else ""


def _is_page(text: str) -> bool:
    return _TAG.match(text) is not None
