"""What an error means in OpenAI's two protocols and in the servers that imitate them.

The same object stands in an HTTP answer, in a failed response and in the middle of a stream. Its
code decides where it has one; a compatible server often says it only in its sentence, or puts a
status where the code belongs.
"""

import re
from collections.abc import Mapping

from agentcli.types.errors import WireError, WireErrorKind
from agentcli.types.messages import Json
from agentcli.wire.failures import fault_in, http_error, kind_of_status, one_line, wait_s

_KIND_OF_CODE = {
    "context_length_exceeded": WireErrorKind.OVERFLOW,
    "exceed_context_size_error": WireErrorKind.OVERFLOW,
    "string_above_max_length": WireErrorKind.OVERFLOW,
    "insufficient_quota": WireErrorKind.CREDENTIALS,
    "billing_hard_limit_reached": WireErrorKind.CREDENTIALS,
    "billing_not_active": WireErrorKind.CREDENTIALS,
    "invalid_api_key": WireErrorKind.CREDENTIALS,
    "authentication_error": WireErrorKind.CREDENTIALS,
    "permission_error": WireErrorKind.CREDENTIALS,
    "model_not_found": WireErrorKind.MODEL,
    "unsupported_model": WireErrorKind.MODEL,
    "not_found_error": WireErrorKind.MODEL,
    "previous_response_not_found": WireErrorKind.REJECTED,
    "rate_limit_exceeded": WireErrorKind.RATE_LIMITED,
    "rate_limit_error": WireErrorKind.RATE_LIMITED,
    "server_error": WireErrorKind.UNAVAILABLE,
    "server_is_overloaded": WireErrorKind.UNAVAILABLE,
    "slow_down": WireErrorKind.UNAVAILABLE,
    "vector_store_timeout": WireErrorKind.UNAVAILABLE,
    "unavailable_error": WireErrorKind.UNAVAILABLE,
    "content_filter": WireErrorKind.REFUSED,
    "content_policy_violation": WireErrorKind.REFUSED,
    "image_content_policy_violation": WireErrorKind.REFUSED,
    "misalignment_policy_violation": WireErrorKind.REFUSED,
    "bio_policy": WireErrorKind.REFUSED,
    "cyber_policy": WireErrorKind.REFUSED,
    "invalid_prompt": WireErrorKind.REFUSED,
}

_KIND_OF_SENTENCE = (
    (
        re.compile(
            r"maximum context length|context (?:length|size|window)|prompt is too long"
            r"|too many (?:input )?tokens|input is too long",
            re.I,
        ),
        WireErrorKind.OVERFLOW,
    ),
    (
        re.compile(
            r"does not support (?:tools|function)|function tools with reasoning_effort"
            r"|model\b.*\b(?:not found|does not exist)|no endpoints found",
            re.I,
        ),
        WireErrorKind.MODEL,
    ),
    (
        re.compile(r"exceeded your current quota|insufficient (?:credits|balance)", re.I),
        WireErrorKind.CREDENTIALS,
    ),
)

_AGAIN_IN = re.compile(r"try again in (?:(\d+)m)?(\d+(?:\.\d+)?)(ms|s)\b", re.I)

_NEEDS_RESPONSES = re.compile(r"/v1/responses")
_NO_TOOLS = re.compile(r"does not support (?:tools|function)", re.I)


def error(status: int, headers: Mapping[str, str], body: Json) -> WireError:
    """An HTTP error as a sentence."""
    said = one_line(body)
    kind = _kind_of(fault_in(body), said) or kind_of_status(status)
    asked_s = wait_s(headers)
    return http_error(
        status,
        headers,
        said=said,
        kind=kind,
        hint=_hint(kind, said),
        retry_after_s=_told_wait_s(said) if asked_s is None else asked_s,
    )


def error_in_stream(fault: Json) -> WireError:
    """An error told after the answer began. Where nothing says otherwise, it is worth a retry."""
    wrapped: Json = {"error": fault} if fault else None
    said = one_line(wrapped) or "the provider gave up on the reply and did not say why"
    status = _status(fault_in(wrapped))
    kind = _kind_of(fault_in(wrapped), said) or (
        kind_of_status(status) if status else WireErrorKind.UNAVAILABLE
    )
    return WireError(
        said,
        kind=kind,
        hint=_hint(kind, said),
        status=status,
        retry_after_s=_told_wait_s(said),
    )


def _kind_of(fault: Mapping[str, Json], said: str) -> WireErrorKind | None:
    for name in (fault.get("code"), fault.get("type")):
        if isinstance(name, str) and name in _KIND_OF_CODE:
            return _KIND_OF_CODE[name]
    for pattern, kind in _KIND_OF_SENTENCE:
        if pattern.search(said):
            return kind
    return None


def _status(fault: Mapping[str, Json]) -> int | None:
    """The HTTP status that gateways put where the code belongs."""
    for value in (fault.get("code"), fault.get("status")):
        if isinstance(value, int | str) and re.fullmatch(r"[45]\d\d", str(value)):
            return int(value)
    return None


def _told_wait_s(said: str) -> float | None:
    """The wait that stands in the sentence alone, as it does in a stream, which has no headers."""
    told = _AGAIN_IN.search(said)
    if told is None:
        return None
    minutes, amount, unit = told.groups()
    return int(minutes or 0) * 60 + float(amount) / (1000 if unit == "ms" else 1)


def _hint(kind: WireErrorKind, said: str) -> str:
    if kind is WireErrorKind.MODEL and _NEEDS_RESPONSES.search(said):
        return "this model takes tools on the Responses protocol only: use openai/NAME"
    if kind is WireErrorKind.MODEL and _NO_TOOLS.search(said):
        return "choose a model that can call tools"
    return ""
