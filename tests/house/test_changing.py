"""The page on changes names files and names that exist, and few files for each change."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from agentcli.types.own_tools import OWN_TOOLS
from tests.support.sources import list_nodes, parse_program

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/changing.md"
MOST_FILES = 6
MOST_REMARKS = 3
TOP_LEVEL = ("agentcli/", "tests/", "docs/", "fixtures/")
_CODE = re.compile(r"`([^`]+)`")
_STEP = re.compile(r"^\d+\. (.*)$", re.MULTILINE)
_PATH = r"`(?:agentcli|tests)/[^`]+`"
_NAMES_OF_PATHS = re.compile(rf"({_PATH}(?: and {_PATH})*): (`[^`]+`(?:, `[^`]+`)*):")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_OURS = re.compile(r"_|[a-z][A-Z]|[A-Z][a-z]|[A-Z]{3}")
"""A part of a name that a word of English does not have."""


class Change(NamedTuple):
    heading: str
    text: str

    @property
    def paths(self) -> list[str]:
        return [one for one in _CODE.findall(self.text) if one.startswith(TOP_LEVEL)]

    @property
    def product_files(self) -> set[str]:
        return {path for path in self.paths if path.startswith("agentcli/")}


def read_page() -> str:
    """Return the page with every item on one line."""
    return re.sub(r"\n +(?=\S)", " ", PAGE.read_text(encoding="utf-8"))


@cache
def list_changes() -> tuple[Change, ...]:
    sections = re.split(r"^### (.+)\n", read_page(), flags=re.MULTILINE)[1:]
    return tuple(map(Change, sections[::2], sections[1::2]))


def find_files(path: str) -> list[Path]:
    """Return the files of a path, in which NAME and PROTOCOL stand for any."""
    return list(ROOT.glob(re.sub("NAME|PROTOCOL", "*", path)))


@cache
def list_defined(path: Path) -> frozenset[str]:
    return frozenset(_iter_defined(parse_program()[path.relative_to(ROOT)]))


def _iter_defined(tree: ast.Module) -> Iterator[str]:
    for node in list_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Attribute(ctx=ast.Store()):
                yield node.attr


def list_all_defined() -> frozenset[str]:
    return frozenset().union(*(list_defined(ROOT / path) for path in parse_program()))


def has_names(path: str, names: list[str]) -> bool:
    wanted = {part for name in names for part in name.split(".")}
    return any(wanted <= list_defined(file) for file in find_files(path))


def list_parts(span: str) -> list[str]:
    """Return the parts of a name of ours; nothing for other code, and for placeholders."""
    if _NAME.fullmatch(span) is None or "NAME" in span or span.endswith((".md", ".toml")):
        return []
    return [part for part in span.split(".") if _OURS.search(part)]


def is_word_of(name: str, paths: list[str]) -> bool:
    texts = (
        file.read_text(encoding="utf-8")
        for path in paths
        for file in find_files(path)
        if file.is_file()
    )
    return any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts)


def test_every_path_exists() -> None:
    paths = [one for one in _CODE.findall(read_page()) if one.startswith(TOP_LEVEL)]
    assert paths
    assert [path for path in paths if not find_files(path)] == []


def test_names_after_a_path_are_defined_in_that_file() -> None:
    found = _NAMES_OF_PATHS.findall(read_page())
    assert len(found) > len(list_changes())
    missing = [
        f"{path}: {names}"
        for paths, names in found
        for path in _CODE.findall(paths)
        if not has_names(path, _CODE.findall(names))
    ]
    assert missing == []


def test_all_other_names_exist_in_the_program() -> None:
    defined = list_all_defined() | OWN_TOOLS.keys()
    missing = [
        f"{change.heading}: {part}"
        for change in list_changes()
        for span in _CODE.findall(change.text)
        for part in list_parts(span)
        if part not in defined and not is_word_of(part, change.paths)
    ]
    assert missing == []


@pytest.mark.parametrize("change", list_changes(), ids=lambda change: change.heading)
def test_change_has_few_files_in_order_and_its_tests(change: Change) -> None:
    steps = _STEP.findall(change.text)
    assert steps and all(step.startswith(("`agentcli/", "The part ")) for step in steps)
    assert 1 <= len(change.product_files) <= MOST_FILES
    assert len(re.findall(r"^- ", change.text, re.MULTILINE)) <= MOST_REMARKS
    assert re.search(r"^Tests: `tests/", change.text, re.MULTILINE)


def test_contents_and_links_are_those_of_the_sections() -> None:
    contents = re.findall(r"^- \[(To .+)\]\(#(.+)\)$", read_page(), re.MULTILINE)
    headings = [change.heading for change in list_changes()]
    assert [heading for heading, _ in contents] == headings
    anchors = [re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings]
    assert [anchor for _, anchor in contents] == anchors
    assert set(re.findall(r"\]\(#([^)]+)\)", read_page())) == set(anchors)
