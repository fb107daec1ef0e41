"""The tools that a provider has of its own: which of them a request declares.

Most are run by the provider itself. A provider that rejects one is asked again without it.
"""

import re
from dataclasses import replace

from agentcli.providers.dialect import Model
from agentcli.providers.incremental import memoize
from agentcli.system.lazy import compile_later
from agentcli.types.provider import Request
from agentcli.types.tools import ToolSpec

_SEPARATOR = "\n"
"""A separator that occurs in no tool name."""


def find_hosted(request: Request, model: Model) -> list[str]:
    """Return the hosted tools that are asked for and that the model has."""
    return [name for name in request.hosted if name in model.hosted]


def has_computer(request: Request, model: Model) -> bool:
    """Return whether the provider's own computer tool is declared."""
    return request.computer and model.computer


_NAMES = {
    "web_search": compile_later(r"web_search|google_?search", re.IGNORECASE),
    "web_fetch": compile_later(r"web_fetch|url_?context", re.IGNORECASE),
    "code_execution": compile_later(r"code_?execution|code_?interpreter", re.IGNORECASE),
}
_COMPUTER_NAMES = compile_later(r"\bcomputer|browser_toolset", re.IGNORECASE)
"""What providers call these tools when they reject them."""


def drop_rejected(model: Model, request: Request, message: str) -> tuple[Model, str]:
    """Return the model without the tools that an error message names, and their names.

    Only tools that the request declares count. The names are empty if none of them is meant."""
    rejected = {name for name in find_hosted(request, model) if _NAMES[name].search(message)}
    is_computer = has_computer(request, model) and bool(_COMPUTER_NAMES.search(message))
    left = replace(
        model, hosted=model.hosted - rejected, computer=model.computer and not is_computer
    )
    names = [*sorted(rejected), *(["computer"] if is_computer else [])]
    return left, " and ".join(names)


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
