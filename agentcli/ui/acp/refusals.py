"""Why an editor cannot have what it asked for, in words that it can show to the person."""

from acp import RequestError

from agentcli.types.errors import AgentError, UsageError

_INVALID_PARAMS = -32602
_INTERNAL_ERROR = -32603


def build_invalid_params(details: str) -> RequestError:
    """What was asked for is wrong. Some editors show the message, and some the details."""
    return RequestError(_INVALID_PARAMS, details, {"details": details})


def build_failure(error: AgentError) -> RequestError:
    code = _INVALID_PARAMS if isinstance(error, UsageError) else _INTERNAL_ERROR
    return RequestError(code, str(error), {"details": str(error), "hint": error.hint})
