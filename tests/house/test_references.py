import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import list_nodes, parse_own_modules


def name_module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def iter_defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module has, on whichever platform."""
    for node in list_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.alias():
                yield (node.asname or node.name).split(".")[0]


def test_names_of_other_modules_exist_on_every_platform() -> None:
    """The type checker reads the branches of one platform only."""
    trees = {name_module(path): tree for path, tree in parse_own_modules().items()}
    defined = {name: set(iter_defined(tree)) for name, tree in trees.items()}
    missing = []
    for name, tree in trees.items():
        used: dict[str, str] = {}
        own = {node.arg for node in list_nodes(tree) if isinstance(node, ast.arg)}
        own |= {
            node.id
            for node in list_nodes(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        for node in list_nodes(tree):
            if isinstance(node, ast.ImportFrom) and node.module in trees:
                for alias in node.names:
                    module = f"{node.module}.{alias.name}"
                    if module in trees:
                        used[alias.asname or alias.name] = module
                    elif alias.name not in defined[node.module]:
                        missing.append(f"{name}: {module}")
        missing += [
            f"{name}:{node.lineno} {used[node.value.id]}.{node.attr}"
            for node in list_nodes(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if node.value.id in used.keys() - own and node.attr != "__file__"
            if node.attr not in defined[used[node.value.id]]
        ]
    assert missing == []
