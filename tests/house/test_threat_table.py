"""The threat table of the sandbox names files and tests that exist, and leaves no module out."""

import ast
import re
from pathlib import Path

import agentcli

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/concepts/sandbox.md"
MODULES = Path(agentcli.__file__).parent / "sandbox"
HEADER = "| threat | mechanism | file | test |"


def rows() -> list[list[str]]:
    table = PAGE.read_text(encoding="utf-8").partition(HEADER)[2].partition("\n\n")[0]
    lines = table.strip().splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def list_tests(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_row_has_a_mechanism_a_file_and_a_test() -> None:
    assert rows()
    incomplete = [row for row in rows() if len(row) != 4 or not all(row)]
    assert incomplete == []
    assert [row for row in rows() if not names(row[2]) or not names(row[3])] == []


def test_files_of_the_table_are_the_modules_of_the_sandbox() -> None:
    named = {name for row in rows() for name in names(row[2])}
    modules = {path.name for path in MODULES.glob("*.py")} - {"__init__.py"}
    assert named == modules


def test_tests_of_the_table_exist() -> None:
    named = {name for row in rows() for name in names(row[3])}
    missing = [
        name
        for name in named
        if name.partition("::")[2] not in list_tests(ROOT / "tests" / name.partition("::")[0])
    ]
    assert missing == []
