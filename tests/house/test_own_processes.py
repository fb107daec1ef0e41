"""Who starts processes: one module for our own, and a short list of others with reasons."""

import ast
from collections.abc import Iterator

import pytest

from tests.support.sources import list_nodes, parse_program

ALLOWED = {
    "system/own_process.py": "the one place for our own helpers",
    "system/process.py": "commands: in a sandbox, or without one by the user's own yes",
    "permissions/hook_process.py": "the user's hooks; their environment is made by own_process",
    "sandbox/bubblewrap.py": "starts bubblewrap itself",
    "sandbox/kernel.py": "a copy of ourselves that makes one socket in a user namespace, and ends",
    "sandbox/enclosure.py": "a process outside of every domain, to check against",
    "features/batch/engine.py": "agentcli itself, which needs the environment it was given",
    "features/batch/ray_engine.py": "agentcli itself, on a node of a cluster",
    "features/eval/engine.py": "agentcli itself, which needs the environment it was given",
    "ui/repl/shell.py": "`!command`: typed by the user, for their own shell",
}
STARTS_COMMANDS = {
    "sandbox/reading.py": "confined to reading",
    "sandbox/bubblewrap.py": "in bubblewrap",
    "sandbox/landlock.py": "under Landlock",
    "sandbox/seatbelt.py": "in Seatbelt",
    "tools/search/ripgrep.py": "a search, where the user has turned the sandbox off",
    "ui/repl/shell.py": "`!command`: typed by the user, for their own shell",
}
"""Callers of `process.start`, which confines nothing by itself."""

OF_MODULES = {
    "subprocess": {"run", "call", "check_call", "check_output", "Popen", "getoutput"}
    | {"getstatusoutput"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "anyio": {"run_process", "open_process"},
    "webbrowser": {"open", "open_new", "open_new_tab", "get"},
    "multiprocessing": {"Process", "Pool"},
    "pty": {"spawn", "fork"},
    "platform": {"platform", "processor", "uname", "architecture"},
    "ctypes.util": {"find_library"},
    "uuid": {"getnode", "uuid1"},
    "os": {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"}
    | {f"exec{end}" for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")}
    | {f"spawn{end}" for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")},
}


def starts(tree: ast.Module) -> Iterator[str]:
    """The calls in it that start a process, under whatever name it was imported."""
    modules: dict[str, str] = {}
    names: dict[str, str] = {}
    for node in list_nodes(tree):
        if isinstance(node, ast.Import):
            modules |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module in OF_MODULES:
            known = OF_MODULES[node.module]
            names |= {
                one.asname or one.name: f"{node.module}.{one.name}"
                for one in node.names
                if one.name in known
            }
    for node in list_nodes(tree):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in names:
                yield names[name]
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                real = modules.get(module, "")
                # As an annotation `subprocess.Popen[bytes]` starts nothing; a call of it does.
                if name in OF_MODULES.get(real, ()) and _is_used(tree, node):
                    yield f"{real}.{name}"


def _is_used(tree: ast.AST, wanted: ast.Attribute) -> bool:
    return not any(
        isinstance(node, ast.Subscript) and node.value is wanted for node in list_nodes(tree)
    )


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path, tree in parse_program().items():
        yield path.relative_to("agentcli").as_posix(), tree


def test_only_listed_modules_start_processes() -> None:
    found = {name: calls for name, tree in modules() if (calls := list(starts(tree)))}
    assert {name: calls for name, calls in found.items() if name not in ALLOWED} == {}
    assert set(ALLOWED) - set(found) == set(), "no longer needed"


def test_only_listed_modules_start_commands_without_a_sandbox() -> None:
    callers = {
        name
        for name, tree in modules()
        if any(
            isinstance(node, ast.Attribute)
            and node.attr == "start"
            and isinstance(node.value, ast.Name)
            and node.value.id == "process"
            for node in list_nodes(tree)
        )
    }
    assert callers <= set(STARTS_COMMANDS)


@pytest.mark.parametrize(
    "planted",
    [
        "import subprocess\nsubprocess.run(['x'])",
        "import subprocess as s\ns.Popen(['x'])",
        "from subprocess import check_output as c\nc(['x'])",
        "import os\nos.execvp('x', ['x'])",
        "import os\nstart = os.system",
        "from os import posix_spawn\nposix_spawn('x', [], {})",
        "import asyncio\nasync def f():\n    await asyncio.create_subprocess_exec('x')",
        "import webbrowser\nwebbrowser.open('x')",
        "import platform\nplatform.platform(terse=True)",
        "def f():\n    import pty\n    pty.spawn('x')",
    ],
)
def test_a_planted_start_is_found(planted: str) -> None:
    assert list(starts(ast.parse(planted)))


def test_an_annotation_is_no_start() -> None:
    source = "import subprocess\nx: subprocess.Popen[bytes] | None = None"
    assert not list(starts(ast.parse(source)))
