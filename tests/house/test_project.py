import ast
import re
import subprocess
from pathlib import Path

import pytest

from agentcli.types.own_tools import BUILT_IN
from tests.support.sources import list_nodes, parse_own_modules

ROOT = Path(__file__).parents[2]
TOP_LEVEL = {
    "pyproject.toml",
    "agentcli",
    "tests",
    "fixtures",
    "README.md",
    "CHANGELOG.md",
    "docs",
    ".ci",
    "AGENTS.md",
    "action.yml",
    "LICENSE",
    ".gitignore",
    ".gitattributes",
}


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Path(name) for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def sources() -> list[Path]:
    return [path for path in tracked() if path.parts[0] == "agentcli" and path.suffix == ".py"]


def readme_commands(heading: str) -> list[str]:
    section = (ROOT / "README.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


def test_last_line_of_ci_is_the_readme_test_command() -> None:
    (command,) = readme_commands("Test")
    assert (ROOT / ".ci/run").read_text().rstrip("\n").split("\n")[-1] == command.strip()


def test_top_level_holds_what_the_house_says() -> None:
    assert {path.parts[0] for path in tracked()} == TOP_LEVEL


def test_page_for_a_package_index_links_to_nothing_that_is_only_in_the_repository() -> None:
    (page,) = re.findall(r'^readme = "(.*?)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    targets = re.findall(r"\]\(([^)]*)\)|(?:src|href)=\"([^\"]*)\"", (ROOT / page).read_text())
    assert [one for pair in targets for one in pair if one and "://" not in one] == []


def test_nothing_tells_to_install_a_stranger_s_package_of_our_name() -> None:
    texts = [path for path in tracked() if path.suffix in (".md", ".py", ".yml", ".toml")]
    by_name = re.compile(
        r"\b(?:pip|pipx|uv tool|uv pip|uvx)(?: -\S+)* install(?: -\S+)* ['\"]?agentcli\b"
    )
    named = [
        f"{path}: {found[0]}"
        for path in texts
        if path != Path("tests/house/test_project.py")
        for line in (ROOT / path).read_text(encoding="utf-8", errors="replace").splitlines()
        if " install" in line and (found := by_name.search(line))
    ]
    assert named == []


def test_changelog_begins_with_what_is_unreleased() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "[Unreleased]"


@pytest.mark.parametrize("name", BUILT_IN)
def test_tool_is_a_pair_of_files_with_a_test_and_a_snapshot(name: str) -> None:
    expected = [
        f"agentcli/tools/{name}.py",
        f"agentcli/tools/{name}.md",
        f"tests/unit/tools/test_{name}.py",
        f"fixtures/tools/{name}.json",
    ]
    assert [path for path in expected if not (ROOT / path).exists()] == []


def test_packages_are_empty_but_for_the_version() -> None:
    filled = [
        path for path in sources() if path.name == "__init__.py" and (ROOT / path).stat().st_size
    ]
    assert filled == [Path("agentcli/__init__.py")]


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path)
        for path in sources()
        if path.name != "__init__.py"
        and "demo" not in path.parts
        and not (ROOT / path).read_text().lstrip("r").startswith('"""')
    ]
    assert silent == []


def test_dialect_words_stay_home() -> None:
    words = re.compile(
        r"tool_use|function_call|functionCall|input_schema|thoughtSignature|encrypted_content"
    )
    strays = [
        str(path)
        for path in sources()
        if "providers" not in path.parts and words.search((ROOT / path).read_text())
    ]
    assert strays == []


def test_nothing_resolves_paths_by_methods_that_raise_runtime_errors() -> None:
    # `Path.resolve` does for a link to itself, `Path.expanduser` without a home: `system/files`
    # has functions that do not.
    found = [
        f"{path}:{node.lineno}"
        for path, tree in parse_own_modules().items()
        for node in list_nodes(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("resolve", "expanduser")
        and not node.args
    ]
    assert found == []
