import os
from pathlib import Path
from typing import Any

import pytest

from agentcli.system.workspace import Workspace
from agentcli.tools.find_files import FindFiles, FindFilesArgs
from agentcli.tools.search.ripgrep import Ripgrep
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, Matches
from tests.support.searching import ENGINES, answer, find, plant

pytestmark = [
    pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.command[0]),
    pytest.mark.usefixtures("nobodys_home"),
]


@pytest.fixture
def nobodys_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have rules of their own for all repositories."""
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def plant_in_order(root: Path, *names: str) -> None:
    """Each changed a second after the one before it."""
    plant(root, {name: "" for name in names})
    for second, name in enumerate(names, 1_000_000):
        os.utime(root / name, (second, second))


def test_newest_come_first_and_then_by_path(tmp_path: Path, engine: Ripgrep) -> None:
    plant_in_order(tmp_path, "c.py", "a.py", "sub/b.py")
    os.utime(tmp_path / "c.py", (1_000_001, 1_000_001))
    assert find(tmp_path, engine, glob="*.py") == "sub/b.py\na.py\nc.py"


def test_note_tells_how_many_there_are(tmp_path: Path, engine: Ripgrep) -> None:
    plant_in_order(tmp_path, *(f"{number}.py" for number in range(5)))
    assert find(tmp_path, engine, glob="*.py", limit=2) == (
        "4.py\n3.py\n[first 2 of 5 files; narrow the glob]"
    )
    assert find(tmp_path, engine, glob="*.py", limit=5) == "4.py\n3.py\n2.py\n1.py\n0.py"


def test_output_is_bounded_in_bytes(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {f"{number:03}{'x' * 200}": "" for number in range(500)})
    shown = find(tmp_path, engine, glob="*", limit=1000)
    assert shown.endswith("\n[first 245 of 500 files; narrow the glob]")
    assert len(shown.encode()) <= 50_100


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"glob": "*.py"}, ["src/a.py", "src/lib/b.py"]),
        ({"glob": "src/*.py"}, ["src/a.py"]),
        ({"glob": "*.py", "path": "src/lib"}, ["src/lib/b.py"]),
        ({"glob": "lib/*", "path": "src"}, ["src/lib/b.py", "src/lib/é.txt"]),
        ({"glob": "src/**/*.py", "path": "src"}, ["src/a.py", "src/lib/b.py"]),
        ({"glob": "**/lib/**"}, ["src/lib/b.py", "src/lib/é.txt"]),
        ({"glob": "?.txt"}, ["src/lib/é.txt"]),
        ({"glob": "{.env,a.py}"}, [".env", "src/a.py"]),
        ({"glob": "!*.py"}, [".env", ".gitignore", "src/lib/é.txt"]),
        ({"glob": "gen/*"}, ["gen/out.py"]),
        ({"glob": "*", "path": "gen"}, ["gen/out.py"]),
        ({"glob": "a[.]p?"}, ["src/a.py"]),
        ({"glob": "/src/a.py"}, ["src/a.py"]),
    ],
)
def test_glob_selects(
    tmp_path: Path, engine: Ripgrep, arguments: dict[str, Any], found: list[str]
) -> None:
    plant(tmp_path, {".gitignore": "gen\n", "gen/out.py": "", ".git/config": "", ".env": ""})
    plant(tmp_path, {"src/a.py": "", "src/lib/b.py": "", "src/lib/é.txt": ""})
    assert sorted(find(tmp_path, engine, **arguments).split("\n")) == found


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"glob": "app/[slug]/page.tsx"}, "app/[slug]/page.tsx"),
        ({"glob": "app/[slug]/*"}, "app/[slug]/page.tsx"),
        ({"glob": "**/[slug]/*.[jt]s*"}, "app/[slug]/page.tsx"),
        ({"glob": "[slug]/page.tsx", "path": "app"}, "app/[slug]/page.tsx"),
        ({"glob": "page.tsx", "path": "app/[slug]"}, "app/[slug]/page.tsx"),
        ({"glob": "app/[[...all]]/{page,x}.tsx"}, "app/[[...all]]/page.tsx"),
        ({"glob": "app/[user-id]/**"}, "app/[user-id]/page.tsx"),
        ({"glob": "[id].ts"}, "api/[id].ts"),
        ({"glob": "[[...all]].ts"}, "api/[[...all]].ts"),
        ({"glob": "app/[slug]"}, "It is a directory: use app/[slug]/**."),
        ({"glob": "[slug]"}, "There are some deeper: use **/[slug]/**."),
        ({"glob": "[slug]/page.tsx"}, "There are some deeper: use **/[slug]/page.tsx."),
        ({"glob": "plain/*.tsx"}, "There are some deeper: use **/plain/*.tsx."),
        ({"glob": "none/page.tsx"}, "There is no directory none."),
    ],
)
def test_names_with_brackets_are_found_as_they_are_written(
    tmp_path: Path, engine: Ripgrep, arguments: dict[str, Any], found: str
) -> None:
    for name in ("[slug]", "[[...all]]", "[user-id]", "plain"):
        plant(tmp_path, {f"app/{name}/page.tsx": ""})
    plant(tmp_path, {"api/[id].ts": "", "api/[[...all]].ts": ""})
    assert find(tmp_path, engine, **arguments).endswith(found)
    assert "\n" not in find(tmp_path, engine, **arguments)


def test_glob_may_be_an_absolute_path_in_the_workspace(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"src/a.py": ""})
    assert find(tmp_path, engine, glob=f"{tmp_path.resolve()}/src/*.py") == "src/a.py"


def test_strange_file_names_are_escaped(tmp_path: Path, engine: Ripgrep) -> None:
    strange = os.fsencode(tmp_path) + b"/bad\xff\nname"
    with open(strange, "wb"):  # noqa: PTH123 - the name is bytes
        pass
    assert find(tmp_path, engine, glob="bad*") == "bad\\xff\\nname"


def test_links_and_pipes_are_no_files(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": ""})
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    assert find(tmp_path, engine, glob="*") == "a"


@pytest.mark.parametrize(
    ("glob", "told"),
    [
        ("*.rs", "No files match *.rs in src."),
        ("readme.md", "No files match readme.md in src. Case counts: did you mean src/README.md?"),
        (
            "*.log",
            "No files match *.log in src. "
            "src/a.log does, but is ignored: set path to its directory.",
        ),
        ("lib", "No files match lib in src. It is a directory: use lib/**."),
    ],
)
def test_nothing_found_is_an_answer_with_a_hint(
    tmp_path: Path, engine: Ripgrep, glob: str, told: str
) -> None:
    plant(tmp_path, {".gitignore": "*.log", "src/a.log": "", "src/README.md": "", "src/lib/b": ""})
    assert find(tmp_path, engine, glob=glob, path="src") == told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"glob": ""}, "Invalid input: glob"),
        ({"glob": "*", "limit": -5}, "Invalid input: limit"),
        ({"glob": "*", "limit": 1001}, "Invalid input: limit"),
        ({"glob": "[a"}, "[a is not a glob: a [ is not closed; write \\[ for the character."),
        ({"glob": "a/../b"}, "a/../b is not a glob: it cannot go up with ..; set path instead."),
        ({"glob": "!"}, "! is not a glob: nothing stands after the !."),
        ({"glob": "*", "path": "a.py"}, "a.py is a file, not a directory."),
        ({"glob": "*", "path": "/"}, "/ is outside the workspace."),
    ],
)
def test_what_cannot_be_listed_is_refused(
    tmp_path: Path, engine: Ripgrep, arguments: dict[str, Any], told: str
) -> None:
    plant(tmp_path, {"a.py": ""})
    with pytest.raises(ToolError) as raised:
        find(tmp_path, engine, **arguments)
    assert str(raised.value).startswith(told)


def test_details_tell_people_what_was_found(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a.py": "", "b.py": ""})
    tool = FindFiles(workspace=Workspace(tmp_path), engine=engine)
    raw: Json = {"pattern": "*.py", "max_results": 1}
    args = tool.parse(raw)
    assert args == FindFilesArgs(glob="*.py", limit=1)
    assert tool.effect(args) is Effect.READ
    output = answer(tool, {"pattern": "*.py", "max_results": 1})
    assert output.details == Matches(target="*.py", path=".", matches=2, files=2, more=True)
    assert output.truncated
