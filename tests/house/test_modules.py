"""A module is one idea: a short one that only its neighbour uses is a section of that neighbour."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import ROOT, parse_own_modules, parse_program

SHORT_LINES = 150

OF_EVERY_FEATURE = frozenset({"command", "render", "slash"})
"""The modules of a feature by their part: a reader looks for them by name."""

APART = {
    "agentcli.features.ask_user.ask_user": "a tool, loaded at its first call",
    "agentcli.features.batch.store": "imports fsspec, an extra",
    "agentcli.features.eval.page": "HTML alone, beside the text of the same report",
    "agentcli.features.children.delegate": "a tool, loaded at its first call",
    "agentcli.features.insights.triage": "the table of checks: a new check is a line in it",
    "agentcli.features.recall.recall": "a tool, loaded at its first call",
    "agentcli.log.validation": "imports pydantic, for facts of an unusual form only",
    "agentcli.providers.sdk_anthropic": "imports an SDK, for Bedrock and Vertex only",
    "agentcli.providers.sdk_openai": "imports an SDK, for Azure only",
    "agentcli.sandbox.enclosure": "why its signal reaches nobody else is an argument of its own",
    "agentcli.ui.oneshot.github_actions": "loaded only in GitHub Actions",
    "agentcli.ui.oneshot.pretty": "loaded only where there is a terminal",
    "agentcli.ui.repl.status_command": "loaded only with a status line of the user's own",
    "agentcli.ui.repl.terminal_guard_child": "a program of its own",
}


def modules() -> dict[str, Path]:
    return {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): path
        for path in parse_own_modules()
    }


def imports(tree: ast.Module, known: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & known.keys() or {node.module}


def find_sections() -> list[str]:
    """Return short modules with one importer, which lies beside them."""
    known = modules()
    users = defaultdict(set)
    for name, path in known.items():
        for imported in imports(parse_program()[path], known):
            users[imported].add(name)
    return [
        name
        for name, path in known.items()
        if len((ROOT / path).read_text(encoding="utf-8").splitlines()) < SHORT_LINES
        and len(users[name]) == 1
        and min(users[name]).rpartition(".")[0] == name.rpartition(".")[0]
        and not (".features." in name and name.rpartition(".")[2] in OF_EVERY_FEATURE)
    ]


def test_short_module_of_one_neighbour_is_a_section_of_it() -> None:
    assert sorted(find_sections()) == sorted(APART)
