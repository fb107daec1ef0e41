import ast
import re
from collections import defaultdict

from tests.support.sources import list_nodes, parse_own_modules

IRREGULAR = re.compile(
    "told|said|shown|kept|held|left|made|given|taken|had|been|seen|known|found|met|lost|sent|begun"
    "|done|gone|gotten|bound|built|grown|hidden|written|drawn|thrown"
)
VERBS = re.compile("need|feed|seed|embed|proceed|exceed|speed|succeed|shed")
NOUNS = re.compile(
    "absolute|address|ambiguous|answers|argument|arguments|blocks|body|bubblewrap|bytes"
    "|candidates|changes|child|children|choice|common|condition|config|content|continuation"
    "|conversation|current|declaration|delta|depth|details|document|duration|entrance|entry"
    "|error|failure|field|fields|first|generation|guards|head|hits|home|hook|hooks|hunks"
    "|image|images|inner|invalid|items|key|kind|landlock|last|latest|length|likeness|line"
    "|matcher|messages|missing|mode|normal|object|objects|options|origin|other|outcome"
    "|output|outside|part|parts|paths|piece|pieces|places|printable|problem|project"
    "|reasoning|refusal|result|rows|rule|rules|server|servers|session|size|socket|spans"
    "|status|strict|system|texts|thought|timeout|tls|tokens|trail|transport|tree|turns|user"
    "|verbatim|version|whole|wide|within|word|words|workspace|wrong"
)
"""Words that began the names of functions once, and say what is returned but not what is done."""
MOST_BY_POSITION = 2
CALLED_BY_POSITION = {
    "write_to_screen": "prompt-toolkit calls it",
    "_declare_tools": "its memo calls it",
    "__aexit__": "Python calls it",
    "__exit__": "Python calls it",
    "__setattr__": "Python calls it",
    "__call__": "a callback: its protocol has the names",
}
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


def is_noun(name: str) -> bool:
    return bool(NOUNS.fullmatch(name.strip("_").split("_")[0]))


def test_functions_are_verbs() -> None:
    others = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in parse_own_modules().items()
        for node in list_nodes(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_participle(node.name) or is_noun(node.name)
        if node.name not in OF_LIBRARIES and not is_property(node)
    ]
    assert others == []


def test_a_class_name_means_one_thing() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for path, tree in parse_own_modules().items():
        for node in list_nodes(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(str(path))
    twice = {name: sorted(paths) for name, paths in homes.items() if len(paths) > 1}
    assert sorted(twice) == sorted(TWICE), twice


def count_by_position(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many arguments a caller may pass by position, `self` not among them."""
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def list_handed_on() -> set[str]:
    """Return the functions that are values somewhere, and so called by whoever gets them."""
    handed_on = set()
    for tree in parse_own_modules().values():
        called = {id(node.func) for node in list_nodes(tree) if isinstance(node, ast.Call)}
        for node in list_nodes(tree):
            if isinstance(node, ast.Name | ast.Attribute) and id(node) not in called:
                handed_on.add(node.id if isinstance(node, ast.Name) else node.attr)
    return handed_on


def test_arguments_beyond_the_second_are_named() -> None:
    exempt = list_handed_on() | set(CALLED_BY_POSITION) | OF_LIBRARIES
    others = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in parse_own_modules().items()
        for node in list_nodes(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if count_by_position(node) > MOST_BY_POSITION and node.name not in exempt
    ]
    assert others == []
