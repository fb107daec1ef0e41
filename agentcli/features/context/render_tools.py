"""The tools as declared to a model, with source and cost, for the user."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agentcli.agent.request_size import count_spec_tokens
from agentcli.agent.toolset import Toolset
from agentcli.features.mcp.server_files import iter_accepted_tools, read_entries
from agentcli.features.plugins.engine import load_plugins
from agentcli.session.project import load_project
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.settings import Settings, load_settings
from agentcli.system.plain_text import show_controls
from agentcli.tools.contracts import USUAL, load_spec
from agentcli.types.tools import Tool, ToolSpec


def show_tools() -> None:
    plugins = load_plugins(Path.cwd().resolve())
    toolset = Toolset((load_spec(name), _refuse_call) for name in USUAL)
    servers, problems = _load_server_tools(load_settings({}, workspace=Path()))
    catalogue = ToolCatalog(toolset, window_tokens=None)
    catalogue.admit((*plugins.iter_offers(), *((spec, _refuse_call) for spec in servers)))
    rows = list_tool_rows(toolset)
    width = max(len(name) for name, _ in rows)
    for name, what in rows:
        sys.stdout.write(f"{name:<{width}}  {what}\n")
    for warning in (*(warned.message for warned in plugins.warnings), *problems):
        sys.stderr.write(f"warning: {show_controls(warning)}\n")
    for line in list_token_costs(toolset):
        sys.stdout.write(f"{line}\n")


def _load_server_tools(settings: Settings) -> tuple[list[ToolSpec], tuple[str, ...]]:
    entries = read_entries(settings, load_project(settings.workspace))
    if entries is None:
        return [], ()
    return list(iter_accepted_tools(entries)), entries.problems


def list_tool_rows(toolset: Toolset) -> list[tuple[str, str]]:
    """Return each tool's name with its cost, source and purpose."""
    declared = {spec.name for spec in toolset.declared}
    return [
        (
            show_controls(spec.name),
            _describe_tool(spec) + ("" if spec.name in declared else "  (found by search_tools)"),
        )
        for spec in toolset.specs
    ]


def list_token_costs(toolset: Toolset) -> Iterator[str]:
    """Yield what each source would cost, and what every request really costs."""
    costs: Counter[str] = Counter()
    for spec in toolset.specs:
        costs[spec.source] += count_spec_tokens(spec)
    if len(costs) > 1:
        yield from (f"{source}: {tokens} tokens in all" for source, tokens in costs.items())
    total = sum(map(count_spec_tokens, toolset.declared))
    yield f"{total} tokens are declared in every request (estimated)"


def _refuse_call() -> Tool:
    raise AssertionError("a tool that is only listed was called")


def _describe_tool(spec: ToolSpec) -> str:
    first_sentence = spec.description.split(". ")[0].split("\n")[0].rstrip(".")
    return show_controls(f"{count_spec_tokens(spec):>4} tokens  {spec.source}  {first_sentence}.")
