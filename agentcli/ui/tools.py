"""What a model is told of its tools, where each comes from and what it costs, for people."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agentcli.agent.size import spec_tokens
from agentcli.agent.toolset import Toolset
from agentcli.app.catalogue import Catalogue
from agentcli.app.plugins import open_plugins
from agentcli.app.project import open_project
from agentcli.app.server_entries import accepted_tools, read_entries
from agentcli.machine.plain import visible
from agentcli.settings import Settings, load
from agentcli.tools.contracts import USUAL, contract
from agentcli.types.tools import Tool, ToolSpec


def show() -> None:
    plugins = open_plugins(Path.cwd().resolve())
    toolset = Toolset((contract(name), _never) for name in USUAL)
    servers, problems = _of_servers(load({}, workspace=Path()))
    catalogue = Catalogue(toolset, servers=None, window_tokens=None)
    catalogue.admit((*plugins.offers(), *((spec, _never) for spec in servers)))
    rows = tool_rows(toolset)
    width = max(len(name) for name, _ in rows)
    for name, what in rows:
        sys.stdout.write(f"{name:<{width}}  {what}\n")
    for warning in (*(warned.message for warned in plugins.warnings), *problems):
        sys.stderr.write(f"warning: {visible(warning)}\n")
    for line in sums(toolset):
        sys.stdout.write(f"{line}\n")


def _of_servers(settings: Settings) -> tuple[list[ToolSpec], tuple[str, ...]]:
    entries = read_entries(settings, open_project(settings.workspace))
    if entries is None:
        return [], ()
    return list(accepted_tools(entries)), entries.problems


def tool_rows(toolset: Toolset) -> list[tuple[str, str]]:
    """Each by its name: what it costs, where it comes from, and what it does."""
    declared = {spec.name for spec in toolset.declared}
    return [
        (
            visible(spec.name),
            _described(spec) + ("" if spec.name in declared else "  (found by search_tools)"),
        )
        for spec in toolset.specs
    ]


def sums(toolset: Toolset) -> Iterator[str]:
    """What each source would cost, and what every request really costs."""
    costs: Counter[str] = Counter()
    for spec in toolset.specs:
        costs[spec.source] += spec_tokens(spec)
    if len(costs) > 1:
        yield from (f"{source}: {tokens} tokens in all" for source, tokens in costs.items())
    total = sum(map(spec_tokens, toolset.declared))
    yield f"{total} tokens are declared in every request (estimated)"


def _never() -> Tool:
    raise AssertionError("a tool that is only listed was called")


def _described(spec: ToolSpec) -> str:
    first_sentence = spec.description.split(". ")[0].split("\n")[0].rstrip(".")
    return visible(f"{spec_tokens(spec):>4} tokens  {spec.source}  {first_sentence}.")
