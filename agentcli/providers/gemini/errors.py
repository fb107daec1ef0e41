"""The errors of Gemini's two protocols, in an HTTP answer or in the middle of a stream.

generateContent gives the reason in `status`, in the reasons of its `details` and in quota ids;
Interactions gives it as one word under `code`. One status can mean different things: 400 is also a
bad key or a conversation that is too long, and 429 is both "slow down" and "not today".
"""

from collections.abc import Mapping, Sequence

from agentcli.providers.errors import (
    KINDS,
    classify_status,
    find_fault,
    find_kind_of_code,
    find_kind_of_sentence,
    make_http_error,
    read_wait_s,
    summarize_body,
)
from agentcli.providers.gemini.values import as_list, as_mapping, as_string
from agentcli.system.lazy import compile_later
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Json

BLOCKED = KINDS[ProviderErrorKind.REFUSED].codes["gemini"]
"""The reasons of a filter that stopped the prompt or the reply. It would stop a retry too."""

UNUSABLE = frozenset(
    {
        "malformed_function_call",
        "malformed_tool_call",
        "malformed_response",
        "unexpected_tool_call",
        "too_many_tool_calls",
    }
)
"""The reasons for an invalid reply of the model. Each reply is sampled anew, so a retry helps."""

_INVALID_REQUEST = frozenset(
    {
        "failed_precondition",
        "invalid_argument",
        "invalid_request",
        "missing_thought_signature",
        "out_of_range",
        "parameter_unknown",
        "unimplemented",
    }
)
"""The codes of an invalid request. A retry would fail the same way."""

_SPENT = compile_later(
    r"PerDay|per day|limit: 0\b|credits are depleted|spend(?:ing)? (?:cap|limit)"
)
_RETRY_IN = compile_later(r"retry in (\d+(?:\.\d+)?)s")
_DELAY = compile_later(r"(\d+(?:\.\d+)?)s")
_SPENT_HINT = "the quota is used up; wait for its reset, raise the quota, or use another model"


def read_error(status: int, headers: Mapping[str, str], *, body: Json) -> ProviderError:
    """Return an HTTP error as a sentence. `body` may be a list of one, as in answers to streams."""
    fault, text = find_fault(body), summarize_body(body)
    kind = _classify(fault, text) or classify_status(status)
    is_spent = kind is ProviderErrorKind.RATE_LIMITED and _is_spent(fault)
    told_s = _read_wait_s(fault)
    return make_http_error(
        status,
        headers,
        said=text,
        kind=ProviderErrorKind.CREDENTIALS if is_spent else kind,
        hint=_SPENT_HINT if is_spent else "",
        retry_after_s=read_wait_s(headers) if told_s is None else told_s,
    )


def make_stream_error(fault: Json) -> ProviderError:
    """Return an error reported after the answer began. By default it is worth a retry."""
    wrapped: Json = {"error": fault}
    code = find_fault(wrapped).get("code")
    if isinstance(code, int) and code >= 400:
        return read_error(code, {}, body=wrapped)
    text = (fault and summarize_body(wrapped)) or "Gemini reported an unknown error"
    is_invalid = as_string(code) in _INVALID_REQUEST
    otherwise = ProviderErrorKind.REJECTED if is_invalid else ProviderErrorKind.UNAVAILABLE
    return ProviderError(
        text,
        kind=_classify(find_fault(wrapped), text) or otherwise,
        retry_after_s=_read_wait_s(find_fault(wrapped)),
    )


def describe_reason(reason: str, message: str) -> str:
    """Return why a reply ended, with what the service says about it."""
    return f"{reason}: {message}" if message else reason


def make_finish_error(reason: str, detail: str) -> ProviderError:
    suffix = f": {summarize_body(detail)}" if detail else ""
    return ProviderError(
        f"the model's reply was unusable ({reason}){suffix}", kind=ProviderErrorKind.UNAVAILABLE
    )


def _classify(fault: Mapping[str, Json], text: str) -> ProviderErrorKind | None:
    named = (
        fault.get("status"),
        fault.get("code"),
        *(d.get("reason") for d in _list_details(fault)),
    )
    words = {word.lower() for word in named if isinstance(word, str)}
    if found := find_kind_of_code("gemini", *words):
        return found
    return (
        ProviderErrorKind.UNAVAILABLE if words & UNUSABLE else find_kind_of_sentence("gemini", text)
    )


def _list_details(fault: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    return [as_mapping(detail) for detail in as_list(fault.get("details"))]


def _is_spent(fault: Mapping[str, Json]) -> bool:
    """Return whether a short wait is useless: the daily quota is used up, or there is none."""
    violations = (detail.get("violations") for detail in _list_details(fault))
    return any(_SPENT.search(text) for text in map(str, (fault.get("message"), *violations)))


def _read_wait_s(fault: Mapping[str, Json]) -> float | None:
    """Return the wait given in the body. There may be no header for it."""
    for detail in _list_details(fault):
        delay = detail.get("retryDelay")
        if isinstance(delay, str) and (found := _DELAY.fullmatch(delay)):
            return float(found[1])
    asked = _RETRY_IN.search(str(fault.get("message")))
    return float(asked[1]) if asked else None
