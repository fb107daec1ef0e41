"""The tools as declared to a model, with source and cost."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from agentcli.agent.toolset import Toolset
from agentcli.session.context_sources import build_delegate_spec
from agentcli.session.features import list_foreign_tools
from agentcli.session.plugins import load_plugins
from agentcli.session.project import load_project
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.settings import load_settings
from agentcli.system.plain_text import show_controls
from agentcli.system.tokens import count_spec_tokens
from agentcli.tools.contracts import load_spec
from agentcli.types.own_tools import BUILT_IN
from agentcli.types.settings import Settings
from agentcli.types.tools import Tool, ToolSpec
from agentcli.ui.report import write_report


def show_tools() -> None:
    toolset, problems = list_usual_tools(load_settings({}, workspace=Path()))
    rows = list_tool_rows(toolset)
    width = max(len(name) for name, _ in rows)
    write_report([("strong", f"{name:<{width}}"), ("dim", f"  {what}")] for name, what in rows)
    for problem in problems:
        sys.stderr.write(f"warning: {show_controls(problem)}\n")
    for line in list_token_costs(toolset):
        sys.stdout.write(f"{line}\n")


def list_usual_tools(settings: Settings) -> tuple[Toolset, list[str]]:
    """Return the tools that any model gets, and problems with others."""
    specs = (
        *map(load_spec, BUILT_IN),
        build_delegate_spec(settings, load_plugins().plugins, past=()),
    )
    toolset = Toolset((spec, fail_if_called) for spec in specs)
    foreign, problems = list_foreign_tools(settings, load_project(settings.workspace))
    catalogue = ToolCatalog(toolset, window_tokens=None)
    catalogue.admit((spec, fail_if_called) for spec in foreign)
    return toolset, problems


def fail_if_called() -> Tool:
    raise AssertionError("a tool that is only listed was called")


def list_tool_rows(toolset: Toolset) -> list[tuple[str, str]]:
    """Return each tool's name with its cost, source and purpose."""
    declared = {spec.name for spec in toolset.declared}
    absent = "(found by search_tools)" if toolset.deferred else "(not declared)"
    return [
        (
            show_controls(spec.name),
            _describe_tool(spec) + ("" if spec.name in declared else f"  {absent}"),
        )
        for spec in toolset.specs
    ]


def list_token_costs(toolset: Toolset) -> Iterator[str]:
    """Yield what each source would cost, and what every request really costs."""
    costs: Counter[str] = Counter()
    for spec in toolset.specs:
        costs[spec.source] += count_spec_tokens(spec)
    if len(costs) > 1:
        yield from (f"{source}: {tokens} tokens in total" for source, tokens in costs.items())
    total = sum(map(count_spec_tokens, toolset.declared))
    yield f"about {total} tokens in every request"


def _describe_tool(spec: ToolSpec) -> str:
    first_sentence = spec.description.split(". ")[0].split("\n")[0].rstrip(".")
    return show_controls(f"{count_spec_tokens(spec):>4} tokens  {spec.source}  {first_sentence}.")
