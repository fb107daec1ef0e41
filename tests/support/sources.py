"""The modules of the program as syntax trees, parsed once for all tests that look at them."""

import ast
import gc
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def parse_program() -> Mapping[Path, ast.Module]:
    """Return the tree of every module, by its path below the repository, in order."""
    gc.disable()
    trees = {
        path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "agentcli").rglob("*.py"))
    }
    gc.freeze()  # they stay, and are most of all objects: no collection is to search them
    gc.enable()
    return trees


@cache
def list_nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return all nodes of a tree. To find them takes longer than to parse it."""
    return tuple(ast.walk(tree))


def parse_own_modules() -> Mapping[Path, ast.Module]:
    """Return the trees without those of the demo's sample project."""
    return {path: tree for path, tree in parse_program().items() if "project" not in path.parts}
