"""What a client sends that is no message, answered as JSON-RPC has it: nobody waits in vain.

The library drops what it cannot read without a word, and whoever sent it with an id waits for ever.
"""

import json
from typing import Any

from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from agentcli.mcp.faults import summarize_error

_NOT_JSON = "json_invalid"
_WHOLE = ("model_type", "missing")
"""The kinds of error that hold all that was sent, and not one field of it."""


def make_error_reply(error: Exception) -> SessionMessage | None:
    """To a line that the library could not read; None: it wants no answer."""
    if not isinstance(error, ValidationError):
        return None
    first, *_ = found = error.errors(include_url=False)
    if first["type"] == _NOT_JSON:
        line = first["input"]
        return _refusal(PARSE_ERROR, error, _parse_loosely(line)) if line.strip() else None
    sent = next((one["input"] for one in found if one["type"] in _WHOLE), None)
    return _refusal(INVALID_REQUEST, error, sent)


def _refusal(code: int, error: ValidationError, sent: Any) -> SessionMessage | None:
    request = None
    match sent:
        case {"result": _} | {"error": _}:
            return None  # an answer, which nobody answers
        case {"id": str() | int() as identity} if not isinstance(identity, bool):
            request = identity
    problem = summarize_error(error).removeprefix("JSONRPCRequest").lstrip(".: ")
    wrong = ErrorData(code=code, message=problem)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=wrong))


def _parse_loosely(line: str) -> Any:
    """For its id: Python takes what the library does not, such as half a surrogate pair."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
