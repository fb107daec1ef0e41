"""The errors of OpenAI's two protocols and of the servers that imitate them.

The same object is in an HTTP answer, in a failed response and in the middle of a stream. Its code
decides if it has one. A compatible server often gives the reason only in its message, or puts a
status where the code belongs.
"""

import re
from collections.abc import Mapping

from agentcli.providers.failures import (
    classify_status,
    find_fault,
    make_http_error,
    read_wait_s,
    summarize_body,
)
from agentcli.system.lazy import compile_later
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Json

_KIND_OF_CODE = {
    "context_length_exceeded": ProviderErrorKind.OVERFLOW,
    "exceed_context_size_error": ProviderErrorKind.OVERFLOW,
    "string_above_max_length": ProviderErrorKind.OVERFLOW,
    "insufficient_quota": ProviderErrorKind.CREDENTIALS,
    "billing_hard_limit_reached": ProviderErrorKind.CREDENTIALS,
    "billing_not_active": ProviderErrorKind.CREDENTIALS,
    "invalid_api_key": ProviderErrorKind.CREDENTIALS,
    "authentication_error": ProviderErrorKind.CREDENTIALS,
    "permission_error": ProviderErrorKind.CREDENTIALS,
    "model_not_found": ProviderErrorKind.MODEL,
    "unsupported_model": ProviderErrorKind.MODEL,
    "not_found_error": ProviderErrorKind.MODEL,
    "previous_response_not_found": ProviderErrorKind.REJECTED,
    "rate_limit_exceeded": ProviderErrorKind.RATE_LIMITED,
    "rate_limit_error": ProviderErrorKind.RATE_LIMITED,
    "server_error": ProviderErrorKind.UNAVAILABLE,
    "server_is_overloaded": ProviderErrorKind.UNAVAILABLE,
    "slow_down": ProviderErrorKind.UNAVAILABLE,
    "vector_store_timeout": ProviderErrorKind.UNAVAILABLE,
    "unavailable_error": ProviderErrorKind.UNAVAILABLE,
    "content_filter": ProviderErrorKind.REFUSED,
    "content_policy_violation": ProviderErrorKind.REFUSED,
    "image_content_policy_violation": ProviderErrorKind.REFUSED,
    "misalignment_policy_violation": ProviderErrorKind.REFUSED,
    "bio_policy": ProviderErrorKind.REFUSED,
    "cyber_policy": ProviderErrorKind.REFUSED,
    "invalid_prompt": ProviderErrorKind.REFUSED,
}

_FINAL_CODE = compile_later(
    r"(?:invalid|unsupported|unknown|missing|empty|failed_to_download)_|image_"
    r"|\w+_(?:mismatch|not_found|not_supported|too_large|too_small)$"
)
"""The codes of a fault in the request. In a stream there is no status to say so."""

_KIND_OF_SENTENCE = (
    (
        re.compile(
            r"maximum context length|context (?:length|size|window)|prompt is too long"
            r"|too many (?:input )?tokens|input is too long",
            re.I,
        ),
        ProviderErrorKind.OVERFLOW,
    ),
    (
        re.compile(
            r"does not support (?:tools|function)|function tools with reasoning_effort"
            r"|model\b.*\b(?:not found|does not exist)|no endpoints found",
            re.I,
        ),
        ProviderErrorKind.MODEL,
    ),
    (
        re.compile(r"exceeded your current quota|insufficient (?:credits|balance)", re.I),
        ProviderErrorKind.CREDENTIALS,
    ),
)

_AGAIN_IN = compile_later(r"try again in (?:(\d+)m)?(\d+(?:\.\d+)?)(ms|s)\b", re.I)

_NEEDS_RESPONSES = compile_later(r"/v1/responses")
_NO_TOOLS = compile_later(r"does not support (?:tools|function)", re.I)


def read_error(status: int, headers: Mapping[str, str], *, body: Json) -> ProviderError:
    """Return the error of an HTTP answer, with its kind and hint."""
    text = summarize_body(body)
    kind = _classify(find_fault(body), text) or classify_status(status)
    asked_s = read_wait_s(headers)
    return make_http_error(
        status,
        headers,
        said=text,
        kind=kind,
        hint=_hint(kind, text),
        retry_after_s=_read_wait_s(text) if asked_s is None else asked_s,
    )


def make_stream_error(fault: Json) -> ProviderError:
    """Return an error reported after the answer began. By default it is worth a retry."""
    wrapped: Json = {"error": fault} if fault else None
    text = summarize_body(wrapped) or "the provider ended the reply without a reason"
    status = _read_status(find_fault(wrapped))
    kind = _classify(find_fault(wrapped), text) or (
        classify_status(status) if status else _classify_by_shape(find_fault(wrapped))
    )
    return ProviderError(
        text,
        kind=kind,
        hint=_hint(kind, text),
        status=status,
        retry_after_s=_read_wait_s(text),
    )


def _classify(fault: Mapping[str, Json], text: str) -> ProviderErrorKind | None:
    for name in (fault.get("code"), fault.get("type")):
        if isinstance(name, str) and name in _KIND_OF_CODE:
            return _KIND_OF_CODE[name]
    for pattern, kind in _KIND_OF_SENTENCE:
        if pattern.search(text):
            return kind
    return None


def _classify_by_shape(fault: Mapping[str, Json]) -> ProviderErrorKind:
    names = (fault.get("code"), fault.get("type"))
    is_final = any(isinstance(name, str) and _FINAL_CODE.match(name) for name in names)
    return ProviderErrorKind.REJECTED if is_final else ProviderErrorKind.UNAVAILABLE


def _read_status(fault: Mapping[str, Json]) -> int | None:
    """Return the HTTP status that gateways put where the code belongs."""
    for value in (fault.get("code"), fault.get("status")):
        if isinstance(value, int | str) and re.fullmatch(r"[45]\d\d", str(value)):
            return int(value)
    return None


def _read_wait_s(text: str) -> float | None:
    """Return the wait given in the message. In a stream it is only there: there are no headers."""
    match = _AGAIN_IN.search(text)
    if match is None:
        return None
    minutes, amount, unit = match.groups()
    return int(minutes or 0) * 60 + float(amount) / (1000 if unit == "ms" else 1)


def _hint(kind: ProviderErrorKind, text: str) -> str:
    if kind is ProviderErrorKind.MODEL and _NEEDS_RESPONSES.search(text):
        return "this model can use tools only over the Responses protocol: --model openai/NAME"
    if kind is ProviderErrorKind.MODEL and _NO_TOOLS.search(text):
        return "use a model that can call tools (agentcli models)"
    return ""
