"""The tools of a request that the provider runs itself, and ours without those of the same name."""

from agentcli.providers.dialect import Model
from agentcli.providers.incremental import memoize
from agentcli.types.provider import Request
from agentcli.types.tools import ToolSpec

_SEPARATOR = "\n"
"""A separator that occurs in no tool name."""


def find_hosted(request: Request, model: Model) -> list[str]:
    """Return the hosted tools that are asked for and that the model has."""
    return [name for name in request.hosted if name in model.hosted]


def find_own_tools(request: Request, model: Model) -> tuple[ToolSpec, ...]:
    """Return our tools. A hosted tool wins over ours of its name: a model takes each name once.

    Returns the same object as long as nothing changes."""
    hosted = find_hosted(request, model)
    return _without(request.tools, _SEPARATOR.join(hosted)) if hosted else request.tools


@memoize
def _without(specs: tuple[ToolSpec, ...], names: str) -> tuple[ToolSpec, ...]:
    left_out = names.split(_SEPARATOR)
    if not any(spec.name in left_out for spec in specs):
        return specs
    return tuple(spec for spec in specs if spec.name not in left_out)
