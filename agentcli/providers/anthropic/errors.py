"""The errors of Anthropic Messages, in an HTTP answer or in the middle of a stream.

The type of the error decides. An overflow and an empty account have no type of their own, only
their message. Gateways call every error "invalid request", so a status is more precise than that.
"""

import re
from collections.abc import Mapping

from agentcli.providers.errors import (
    classify_status,
    find_kind_of_code,
    find_kind_of_sentence,
    make_http_error,
    summarize_body,
)
from agentcli.system.lazy import compile_later
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Json

_UNPAID = compile_later(r"credit balance is too low", re.I)
_UNPAID_HINT = "add credit to the account of this key, or use another model (agentcli models)"


def read_error(status: int, headers: Mapping[str, str], *, body: Json) -> ProviderError:
    """Return the error of an HTTP answer, with its kind and hint."""
    kind = _classify(body)
    if kind is None or kind is ProviderErrorKind.REJECTED:
        kind = classify_status(status)
    said = summarize_body(body)
    hint = _UNPAID_HINT if _UNPAID.search(said) else ""
    return make_http_error(status, headers, said=said, kind=kind, hint=hint)


def make_stream_error(body: Json) -> ProviderError:
    """Return an error reported after the answer began. By default it is worth a retry."""
    return ProviderError(
        summarize_body(body), kind=_classify(body) or ProviderErrorKind.UNAVAILABLE
    )


def _classify(body: Json) -> ProviderErrorKind | None:
    match body:
        case {"error": {"details": {"error_code": "enforced_spend_limit_reached" as code}}}:
            return find_kind_of_code("anthropic", code)
        case {"error": dict(fault)}:
            found = find_kind_of_sentence("anthropic", str(fault.get("message")))
            return found or find_kind_of_code("anthropic", fault.get("type"))
        case _:
            return None
