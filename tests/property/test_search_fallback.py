import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentcli.machine.workspace import Workspace
from agentcli.tools.find_files import FindFiles
from agentcli.tools.grep import Grep
from agentcli.tools.searching.ripgrep import STAND_IN
from tests.support.searching import answer, installed

FOLDERS = ["a", "b", "src", "build", ".config", "é", "x y"]
FILES = ["a", "ab", "x.py", "Y.py", "z.log", "keep.log", "README.md", ".env", "é.txt", "a,b.txt"]
RULES = [
    *("*.log", "!keep.log", "build", "build/", "/build", "/a", "a/", "b/a", "/src/a", "src/*.py"),
    *("**/a", "a/**", "**/b/**", "a/**/x.py", "/*", "!/src", "!*/", "*", "!*.py", "?", "[ab]"),
    *("[!a]", "*.{py,txt}", "\\#x", "# a comment", "", " ", "x.py ", "x\\ y", "!x.py", ".*", "é*"),
    *(
        "src/**/z.log",
        "!src/a/",
        "**",
        "a*",
        "{a,b}/*",
        "[",
        "{a",
        "src//a",
        "/src/",
        "!build/x.py",
    ),
]
LINES = [
    *(b"needle", b"Needle and needle", b"  indented needle", b"needl", b"", b"f(x) = [needle]"),
    *("naïve néedle".encode(), b"\xff needle", b"need\xffle", b"tab\tneedle", b"42 needles_x"),
    *("ΣΑΣ needle ſ".encode(), b"a.b", b"{needle: 1}", b"needle\\", b"\x1b[31mneedle", b"needle "),
]
PATTERNS = [
    *("needle", "^needle$", "needle$", r"\bneedle\b", "n.*e", "nee+dle", r"\d+", r"\w+_x", "^$"),
    *(r"[^n]eedle", r"f\(x\)", "(needle|a.b)", r"\s+needle", r"\S+\s\S+", "need.le", "ſ", "σας"),
    *(r"[[:alpha:]]+ and", r"\{needle", "{needle", r"(?i)NEEDLE", r"n{1}e{2,}d", "x*", r"\bé|é\b"),
    *(r"needle\n.*needle", r"e\n+f", r"(?s)N.*f", r"needle[\s\S]*?needle", r"[\W_]x", r"\x6eee"),
    *(r"(?P<n>e)e", r"(?<n>e)e", r"\"|\/|needle", r"^\s*$", r"[\S\s]x", r"\\$", r"[]x]", r"\.b"),
]
LITERALS = ["needle", "f(x)", "a.b", "\\", "needle\nneedle", "[", "é", "Needle and"]
GLOBS = [
    *("*.py", "*.{py,txt}", "!*.py", "src/**", "a/*", "**/a/*", "!build", "!src/**", "x.py"),
    *("**/*.log", "?.txt", "[xY].py", "**", "*", "src/a/", ".env", ".*", "{src,build}/**/*.py"),
    *("é*", "a,b.txt", "!/a", "b/**/x.py", "/src/*", "./x.py"),
]

Tree = dict[str, Any]


def encoded(lines: list[bytes], newline: bytes, form: str) -> bytes:
    text = newline.join(lines)
    match form:
        case "closed":
            return text + newline
        case "nul":
            return text + b"\0" + text
        case "bom":
            return b"\xef\xbb\xbf" + text
        case "utf-16-le" | "utf-16-be":
            return ("\ufeff" + text.decode("utf-8", "replace")).encode(form)
        case _:
            return text


contents = st.builds(
    encoded,
    st.lists(st.sampled_from(LINES), min_size=1, max_size=8),
    st.sampled_from([b"\n", b"\n", b"\r\n"]),
    st.sampled_from(["closed", "closed", "open", "nul", "bom", "utf-16-le", "utf-16-be"]),
)
ignore_files = st.dictionaries(
    st.sampled_from([".gitignore", ".gitignore", ".ignore", ".rgignore"]),
    st.lists(st.sampled_from(RULES), min_size=1, max_size=4).map(
        lambda rules: "\n".join(rules).encode()
    ),
    max_size=2,
)
files = st.dictionaries(st.sampled_from(FILES), contents, min_size=1, max_size=4)
links = st.sampled_from([{}, {}, {}, {"link": Path("x.py")}, {"dir": Path("..")}])
repositories = st.sampled_from([{}, {}, {}, {".git": {"info": {"exclude": b"z.log\n"}}}])


def joined(*parts: Mapping[str, Any]) -> Tree:
    return {name: entry for part in parts for name, entry in part.items()}


leaves = st.builds(joined, files, ignore_files, links)
trees = st.recursive(
    leaves,
    lambda inner: st.builds(
        joined,
        st.dictionaries(st.sampled_from(FOLDERS), inner, min_size=1, max_size=3),
        files,
        ignore_files,
        repositories,
    ),
    max_leaves=6,
)


def plant(folder: Path, tree: Tree) -> None:
    folder.mkdir(exist_ok=True)
    for name, entry in tree.items():
        match entry:
            case dict():
                plant(folder / name, entry)
            case Path():
                (folder / name).symlink_to(entry)
            case _ if not (folder / name).exists():
                (folder / name).write_bytes(entry)
                os.utime(folder / name, ns=(len(entry) % 3, len(entry) % 3))


def folders_of(tree: Tree, prefix: str = "") -> list[str]:
    inner = [
        path
        for name, entry in tree.items()
        if isinstance(entry, dict) and name != ".git"
        for path in folders_of(entry, f"{prefix}{name}/")
    ]
    return [prefix.rstrip("/") or ".", *inner]


@st.composite
def searches(draw: st.DrawFn) -> tuple[Tree, dict[str, Any], dict[str, Any]]:
    tree = draw(trees)
    path = draw(st.sampled_from(folders_of(tree)))
    literal = draw(st.booleans())
    grep = {
        "pattern": draw(st.sampled_from(LITERALS if literal else PATTERNS)),
        "literal": literal,
        "path": path,
        "glob": draw(st.none() | st.sampled_from(GLOBS)),
        "ignore_case": draw(st.booleans()),
        "context": draw(st.sampled_from([0, 0, 1, 2])),
        "mode": draw(st.sampled_from(["content", "content", "files", "count"])),
        "limit": draw(st.sampled_from([2, 100])),
    }
    find = {"glob": draw(st.sampled_from(GLOBS)), "path": path}
    return tree, grep, find


@pytest.mark.skipif(not installed(), reason="there is no ripgrep to compare with")
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,  # the versions of ripgrep have quirks of their own, found now and then
    suppress_health_check=[HealthCheck.too_slow],
)
@given(searches())
def test_every_engine_gives_the_same_answers(
    search: tuple[Tree, dict[str, Any], dict[str, Any]],
) -> None:
    tree, grep, find = search
    with tempfile.TemporaryDirectory() as folder:
        plant(Path(folder), tree)
        workspace = Workspace(Path(folder))
        expected = answer(Grep(workspace=workspace, engine=STAND_IN), grep)
        listed = answer(FindFiles(workspace=workspace, engine=STAND_IN), find)
        for engine in installed():
            assert answer(Grep(workspace=workspace, engine=engine), grep) == expected
            assert answer(FindFiles(workspace=workspace, engine=engine), find) == listed
