"""Tools that a provider loads when a search finds them, and hides until then.

A found tool stays hidden as long as the result that names it is in the conversation. Compaction
removes that result and begins a new prompt: then the tool is declared like any other.
"""

from collections.abc import Iterator, Sequence

from agentcli.providers.dialect import Model
from agentcli.providers.incremental import memoize
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolSpec

_SEPARATOR = "\n"
"""A separator that occurs in no tool name."""


def find_hidden_tools(request: Request, model: Model) -> tuple[ToolSpec, ...]:
    """Return the hidden tools; empty if the model does not load tools.

    Returns the same object as long as nothing changes.
    """
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
