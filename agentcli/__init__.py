"""agentcli: a terminal coding agent that executes, records and guards what a model asks for.

The names below are the interface for programs, which docs/guides/python.md describes. Each is
imported when it is first used.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # known to type checkers; importing `typing` would slow down every start
if TYPE_CHECKING:
    from agentcli.api.blocking import Session
    from agentcli.api.sessions import AsyncSession, TurnResult, allow, deny
    from agentcli.api.tools import tool
    from agentcli.types.errors import AgentError, ToolError
    from agentcli.types.tools import ToolContext
else:
    _HOMES = {
        "AgentError": "agentcli.types.errors",
        "AsyncSession": "agentcli.api.sessions",
        "Session": "agentcli.api.blocking",
        "ToolContext": "agentcli.types.tools",
        "ToolError": "agentcli.types.errors",
        "TurnResult": "agentcli.api.sessions",
        "allow": "agentcli.api.sessions",
        "deny": "agentcli.api.sessions",
        "tool": "agentcli.api.tools",
    }

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "AgentError",
    "AsyncSession",
    "Session",
    "ToolContext",
    "ToolError",
    "TurnResult",
    "__version__",
    "allow",
    "deny",
    "tool",
]
