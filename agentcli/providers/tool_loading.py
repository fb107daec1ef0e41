"""Tools that a provider takes in where a search has found them: which ones it hides until then.

What was found stays hidden as long as the result that names it is in the conversation. Once that is
gone, summarised away, the prompt begins anew: then the tool is declared like any other.
"""

from collections.abc import Iterator, Sequence

from agentcli.providers.dialect import Model
from agentcli.providers.incremental import memoize
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolSpec

_SEPARATOR = "\n"
"""No tool's name has one."""


def find_hidden_tools(request: Request, model: Model) -> tuple[ToolSpec, ...]:
    """The same value for as long as nothing about it changes; empty where nobody loads tools."""
    if not model.loads_tools or not request.deferred:
        return ()
    named = set(_find_loaded(request.messages))
    deferred = {spec.name for spec in request.deferred}
    lost = [it.name for it in request.tools if it.name in deferred and it.name not in named]
    return _without(request.deferred, _SEPARATOR.join(lost)) if lost else request.deferred


def _find_loaded(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, ToolMessage):
            for result in message.results:
                yield from result.found


@memoize
def _without(specs: tuple[ToolSpec, ...], names: str) -> tuple[ToolSpec, ...]:
    left_out = set(names.split(_SEPARATOR))
    return tuple(spec for spec in specs if spec.name not in left_out)
