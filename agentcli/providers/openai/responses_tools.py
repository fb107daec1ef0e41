"""Tools in the Responses protocol: declared at the start, or loaded when they are found.

The result of a search is an item of the conversation, so everything before it stays unchanged.
"""

from collections.abc import Iterator, Sequence

from agentcli.providers.dialect import Model
from agentcli.providers.incremental import memoize
from agentcli.providers.openai.responses_items import SEARCH_TOOL
from agentcli.providers.strict import OPENAI, build_strict_schema, with_object_root
from agentcli.providers.tool_loading import find_hidden_tools
from agentcli.types.messages import Json
from agentcli.types.provider import Request, ToolChoice
from agentcli.types.tools import ToolSpec

Item = dict[str, Json]

FOUND = "found"
"""The type of our own item that holds tool names. In a request, the tools replace it."""


def declare_tools(request: Request, model: Model) -> Iterator[Json]:
    """Yield the tools, without those that the provider loads when they are found."""
    names = {spec.name for spec in find_hidden_tools(request, model)}
    for spec in request.tools:
        if names and spec.name == SEARCH_TOOL:
            yield {
                "type": "tool_search",
                "execution": "client",
                "description": spec.description,
                "parameters": with_object_root(spec.schema),
            }
        elif spec.name not in names:
            yield _tool(spec, model)


@memoize
def make_loaded_item(item: Item, deferred: tuple[ToolSpec, ...], model: Model) -> Item:
    """Return the result of a search, with the tools that are still available."""
    specs = {spec.name: spec for spec in deferred}
    names = item["names"] if isinstance(item["names"], list) else []
    found = [specs[name] for name in names if isinstance(name, str) and name in specs]
    return {
        "type": "tool_search_output",
        "call_id": item["call_id"],
        "execution": "client",
        "status": "completed",
        "tools": [{**_tool(spec, model), "defer_loading": True} for spec in found],
    }


@memoize
def _tool(spec: ToolSpec, model: Model) -> Item:
    if _is_custom(spec, model):
        grammar: Json = {"type": "grammar", "syntax": "lark", "definition": spec.grammar}
        return {
            "type": "custom",
            "name": spec.name,
            "description": spec.description,
            "format": grammar,
        }
    subset = build_strict_schema(spec, OPENAI, model)
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": with_object_root(spec.schema) if subset is None else subset,
        "strict": subset is not None,
    }


def _is_custom(spec: ToolSpec, model: Model) -> bool:
    return model.patch_tool and bool(spec.grammar)


def encode_choice(choice: ToolChoice, tools: Sequence[ToolSpec], *, model: Model) -> Json:
    if choice in ("auto", "none"):
        return choice
    if not model.forced_tool_choice:
        return "auto"
    if choice == "required":
        return choice
    is_custom = any(spec.name == choice and _is_custom(spec, model) for spec in tools)
    return {"type": "custom" if is_custom else "function", "name": choice}
