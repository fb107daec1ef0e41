"""The tools of a request: which of ours it declares, which it hides, and which are the provider's.

A provider runs most of its own tools itself. One that rejects such a tool is asked again without
it. Some providers load a tool of ours when a search finds it, and hide it until then. A found tool
stays hidden as long as the result that names it is in the conversation. Compaction removes that
result and begins a new prompt: then the tool is declared like any other.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from agentcli.providers.dialect import Model
from agentcli.providers.incremental import memoize
from agentcli.system.lazy import compile_later
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolSpec

_SEPARATOR = "\n"
"""A separator that occurs in no tool name."""


class RequestTools(NamedTuple):
    own: tuple[ToolSpec, ...]
    """Our tools. A hosted tool wins over ours of its name: a model takes each name once."""
    hidden: tuple[ToolSpec, ...]
    """Those of ours that the model does not see until a result names them."""
    hosted: list[str]
    """The tools that the provider runs itself, as far as they are asked for and it has them."""
    has_computer: bool
    """True if the provider's own computer tool is declared."""


def find_request_tools(request: Request, model: Model) -> RequestTools:
    """Return the tools to declare. `own` and `hidden` are the same objects until they change."""
    hosted = [name for name in request.hosted if name in model.hosted]
    return RequestTools(
        own=_without(request.tools, _SEPARATOR.join(hosted)) if hosted else request.tools,
        hidden=_find_hidden(request) if model.loads_tools and request.deferred else (),
        hosted=hosted,
        has_computer=request.computer and model.computer,
    )


def _find_hidden(request: Request) -> tuple[ToolSpec, ...]:
    named = set(_find_loaded(request.messages))
    deferred = {spec.name for spec in request.deferred}
    lost = [it.name for it in request.tools if it.name in deferred and it.name not in named]
    return _without(request.deferred, _SEPARATOR.join(lost)) if lost else request.deferred


def _find_loaded(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, ToolMessage):
            yield from _list_found(message)


@memoize
def _list_found(message: ToolMessage) -> list[str]:
    return [name for result in message.results for name in result.found]


@memoize
def _without(specs: tuple[ToolSpec, ...], names: str) -> tuple[ToolSpec, ...]:
    left_out = names.split(_SEPARATOR)
    if not any(spec.name in left_out for spec in specs):
        return specs
    return tuple(spec for spec in specs if spec.name not in left_out)


# Tools that a provider rejects


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
    declared = find_request_tools(request, model)
    rejected = {name for name in declared.hosted if _NAMES[name].search(message)}
    is_computer = declared.has_computer and bool(_COMPUTER_NAMES.search(message))
    left = replace(
        model, hosted=model.hosted - rejected, computer=model.computer and not is_computer
    )
    names = [*sorted(rejected), *(["computer"] if is_computer else [])]
    return left, " and ".join(names)
