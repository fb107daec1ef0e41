"""The errors of OpenAI's two protocols and of the servers that imitate them.

The same object is in an HTTP answer, in a failed response and in the middle of a stream. Its code
decides if it has one. A compatible server often gives the reason only in its message, or puts a
status where the code belongs.
"""

import re
from collections.abc import Mapping

from agentcli.providers.errors import (
    classify_status,
    find_fault,
    find_kind_of_code,
    find_kind_of_sentence,
    make_http_error,
    read_wait_s,
    summarize_body,
)
from agentcli.system.lazy import compile_later
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Json

_FINAL_CODE = compile_later(
    r"(?:invalid|unsupported|unknown|missing|empty|failed_to_download)_|image_"
    r"|\w+_(?:mismatch|not_found|not_supported|too_large|too_small)$"
)
"""The codes of a fault in the request. In a stream there is no status to say so."""

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
    return (
        find_kind_of_code("openai", fault.get("code"))
        or find_kind_of_code("openai", fault.get("type"))
        or find_kind_of_sentence("openai", text)
    )


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
