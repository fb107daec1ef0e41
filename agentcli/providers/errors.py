"""What the error of a provider says: its kind, the wait it asks for, and one line for the user.

`KINDS` has a row for each kind, with the statuses, codes and sentences of all protocols that mean
it. Where an error has them, and which of them wins, is in the `errors` of each protocol. Any body,
even a page of HTML or ten megabytes of it, becomes one bounded line.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from agentcli.providers.arguments import replace_unpaired
from agentcli.system.lazy import compile_later
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json

# The kinds, and how each is recognized

Family: TypeAlias = Literal["anthropic", "openai", "gemini"]
"""The protocols that share their errors: both of OpenAI, and both of Gemini."""

_LATER = "try again later, or use another model (agentcli models)"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSigns:
    """How an error of one kind is recognized, and what the user can do about it."""

    hint: str = ""
    """The hint, if the error has none. One that needs values, such as the name of the key, is in
    `failures.FailureExplainer`."""
    statuses: tuple[int, ...] = ()
    """Only what a status means at every provider. A code or sentence of the body wins over it. A
    status that must win over every body is decided in `make_http_error`."""
    codes: Mapping[Family, Collection[str]] = field(default_factory=dict)
    """The words by which a protocol names it. Those of Gemini are in small letters."""
    sentences: Mapping[Family, str] = field(default_factory=dict)
    """A pattern of what a protocol only says in its message."""


KINDS: Mapping[ProviderErrorKind, KindSigns] = {
    ProviderErrorKind.OVERFLOW: KindSigns(
        hint="shorten the prompt, or start a new session",
        statuses=(413,),
        codes={
            "anthropic": {"request_too_large"},
            "openai": {
                "context_length_exceeded",
                "exceed_context_size_error",
                "string_above_max_length",
            },
        },
        sentences={
            "anthropic": r"prompt is too long|exceeds? (the )?context|long context"
            r"|maximum of \d+ PDF pages",
            "openai": r"maximum context length|context (?:length|size|window)|prompt is too long"
            r"|too many (?:input )?tokens|input is too long",
            "gemini": r"exceeds the maximum number of tokens|input token count"
            r"|context (?:length|window)",
        },
    ),
    ProviderErrorKind.RATE_LIMITED: KindSigns(
        hint=_LATER,
        statuses=(429,),
        codes={
            "anthropic": {"rate_limit_error"},
            "openai": {"rate_limit_exceeded", "rate_limit_error"},
            "gemini": {"resource_exhausted", "rate_limit_exceeded"},
        },
    ),
    ProviderErrorKind.CREDENTIALS: KindSigns(
        statuses=(401, 402, 403),
        codes={
            "anthropic": {
                "authentication_error",
                "permission_error",
                "billing_error",
                "enforced_spend_limit_reached",
            },
            "openai": {
                "insufficient_quota",
                "billing_hard_limit_reached",
                "billing_not_active",
                "invalid_api_key",
                "authentication_error",
                "permission_error",
            },
            "gemini": {
                "api_key_invalid",
                "api_key_expired",
                "api_key_service_blocked",
                "authentication",
                "billing_disabled",
                "consumer_suspended",
                "payment_required",
                "permission_denied",
                "quota_exceeded",
                "service_disabled",
                "unauthenticated",
            },
        },
        sentences={
            "anthropic": r"credit balance is too low",
            "openai": r"exceeded your current quota|insufficient (?:credits|balance)",
            "gemini": r"api key (?:not valid|expired|not found)|location is not supported"
            r"|enable billing",
        },
    ),
    ProviderErrorKind.MODEL: KindSigns(
        statuses=(404,),
        codes={
            "anthropic": {"not_found_error"},
            "openai": {"model_not_found", "unsupported_model", "not_found_error"},
            "gemini": {"not_found", "model_not_found"},
        },
        sentences={
            "openai": r"does not support (?:tools|function)|function tools with reasoning_effort"
            r"|model\b.*\b(?:not found|does not exist)|no endpoints found",
        },
    ),
    ProviderErrorKind.REFUSED: KindSigns(
        codes={
            "openai": {
                "content_filter",
                "content_policy_violation",
                "image_content_policy_violation",
                "misalignment_policy_violation",
                "bio_policy",
                "cyber_policy",
                "invalid_prompt",
            },
            "gemini": {
                "safety",
                "recitation",
                "language",
                "blocklist",
                "prohibited_content",
                "spii",
                "content_blocked",
                "image_safety",
                "image_prohibited_content",
                "image_recitation",
            },
        },
        sentences={"gemini": r"^request blocked due to"},
    ),
    ProviderErrorKind.UNAVAILABLE: KindSigns(
        hint=_LATER,
        statuses=(408, 409, 425, 499),
        codes={
            "anthropic": {"timeout_error", "api_error", "overloaded_error"},
            "openai": {
                "server_error",
                "server_is_overloaded",
                "slow_down",
                "vector_store_timeout",
                "unavailable_error",
            },
            "gemini": {
                "aborted",
                "cancelled",
                "deadline_exceeded",
                "internal",
                "overloaded",
                "unavailable",
            },
        },
    ),
    ProviderErrorKind.REJECTED: KindSigns(
        statuses=(501, 505),
        codes={
            "anthropic": {"invalid_request_error"},
            "openai": {"previous_response_not_found"},
        },
    ),
    ProviderErrorKind.CUT: KindSigns(hint=_LATER),
    ProviderErrorKind.COST_CAP: KindSigns(),
    ProviderErrorKind.TOKEN_CAP: KindSigns(),
}
"""The first row that an error fits wins: a precise reason must stand above its status, as
`billing_disabled` above `permission_denied`."""

_KIND_OF_STATUS = {status: kind for kind, signs in KINDS.items() for status in signs.statuses}


def classify_status(status: int) -> ProviderErrorKind:
    other = ProviderErrorKind.UNAVAILABLE if status >= 500 else ProviderErrorKind.REJECTED
    return _KIND_OF_STATUS.get(status, other)


def find_kind_of_code(family: Family, *codes: Json) -> ProviderErrorKind | None:
    """Return the first kind that one of the codes names, or None."""
    named = {code for code in codes if isinstance(code, str)}
    fitting = (kind for kind, it in KINDS.items() if not named.isdisjoint(it.codes.get(family, ())))
    return next(fitting, None)


def find_kind_of_sentence(family: Family, text: str) -> ProviderErrorKind | None:
    """Return the first kind that a message tells of, or None."""
    for kind, signs in KINDS.items():
        pattern = signs.sentences.get(family)
        if pattern is not None and re.search(pattern, text, re.IGNORECASE):
            return kind
    return None


# Reading an answer: its kind, its wait, and its message as one line


LIMIT_CHARS = 400

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
