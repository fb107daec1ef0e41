import ast
import re
from collections import defaultdict

from tests.support.sources import parse_own_modules

IRREGULAR = re.compile(
    "told|said|shown|kept|held|left|made|given|taken|had|been|seen|known|found|met|lost|sent|begun"
    "|done|gone|gotten|bound|built|grown|hidden|written|drawn|thrown"
)
VERBS = re.compile("need|feed|seed|embed|proceed|exceed|speed|succeed|shed")
OF_LIBRARIES = frozenset({"preferred_width", "preferred_height"})
"""Methods that a library calls by these names."""
TWICE = {
    "Session": "also the name that a program of a user knows a session by",
    "ToolError": "also the name that a program of the model knows a failed call by",
}


def is_participle(name: str) -> bool:
    first = name.strip("_").split("_")[0]
    is_regular = re.fullmatch(r"\w{2,}ed", first) and not VERBS.fullmatch(first)
    return bool(is_regular or IRREGULAR.fullmatch(first))


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_functions_are_verbs() -> None:
    participles = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in parse_own_modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_participle(node.name) and node.name not in OF_LIBRARIES and not is_property(node)
    ]
    assert participles == []


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for path, tree in parse_own_modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(str(path))
    twice = {name: sorted(paths) for name, paths in homes.items() if len(paths) > 1}
    assert sorted(twice) == sorted(TWICE), twice
