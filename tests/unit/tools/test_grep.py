import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.rules import parse_rule
from agentcli.permissions.subject import ReachedPath
from agentcli.system.workspace import Workspace
from agentcli.tools.grep import Grep, GrepArgs
from agentcli.tools.search.ripgrep import Ripgrep
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, Matches
from tests.support.searching import ENGINES, answer, grep, plant, text_of

pytestmark = [
    pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.command[0]),
    pytest.mark.usefixtures("nobodys_home"),
]


@pytest.fixture
def nobodys_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have rules of their own for all repositories."""
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def _find_no_conditions() -> CommandConditions:
    raise AssertionError("no command is judged")


def refusal(root: Path, engine: Ripgrep, **arguments: Any) -> str:
    with pytest.raises(ToolError) as raised:
        grep(root, engine, **arguments)
    return str(raised.value)


def test_matches_are_grouped_by_file_in_path_order(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"b.py": "def f():\n", "a/z.py": "x\ndef f():\n    return f()\n", "a-b": "f("})
    assert grep(tmp_path, engine, pattern=r"f\(") == (
        "a/z.py\n  2: def f():\n  3:     return f()\na-b\n  1: f(\nb.py\n  1: def f():"
    )


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ({"before": 1}, ["2-", "3:", "--", "7-", "8:"]),
        ({"after": 2}, ["3:", "4-", "5-", "--", "8:", "9-", "10-"]),
        ({"before": 1, "after": 1}, ["2-", "3:", "4-", "--", "7-", "8:", "9-"]),
        ({"context": 1, "after": 0}, ["2-", "3:", "--", "7-", "8:"]),
        ({"context": 2, "before": 0}, ["3:", "4-", "5-", "--", "8:", "9-", "10-"]),
        ({"-B": 1, "-A": None, "limit": 1}, ["2-", "3:", "[first"]),
        ({"after": 1, "limit": 1}, ["3:", "4-", "[first"]),
    ],
)
def test_lines_before_and_after_are_asked_for_apart(
    tmp_path: Path, engine: Ripgrep, arguments: dict[str, Any], numbers: list[str]
) -> None:
    plant(tmp_path, {"a": "\n".join("hit" if n in (3, 8) else "x" for n in range(1, 12))})
    shown = grep(tmp_path, engine, pattern="hit", **arguments).splitlines()[1:]
    assert [line.split()[0] for line in shown] == numbers


def test_context_lines_are_told_from_matches(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": "1\nhit\n3\n4\n5\n6\nhit\n"})
    assert grep(tmp_path, engine, pattern="hit", context=1) == (
        "a\n  1- 1\n  2: hit\n  3- 3\n  --\n  6- 6\n  7: hit"
    )


def test_note_tells_that_there_are_more(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {f"{number}": "hit\nhit\n" for number in range(4)})
    assert grep(tmp_path, engine, pattern="hit", limit=3, context=2) == (
        "0\n  1: hit\n  2: hit\n1\n  1: hit\n"
        "[first 3 matches in 2 files; there are more: narrow the pattern, path or glob]"
    )


def test_no_note_when_the_limit_is_met_exactly(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": "hit\nhit\n"})
    assert grep(tmp_path, engine, pattern="hit", limit=2) == "a\n  1: hit\n  2: hit"


def test_output_is_bounded_in_bytes(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": ("é" * 390 + "\n") * 500})
    shown = grep(tmp_path, engine, pattern="é", limit=500)
    *_, note = shown.split("\n")
    assert note == (
        "[first 40 matches in 1 file; there are more: narrow the pattern, path or glob]"
    )
    assert len(shown.encode()) <= 32_100


def test_long_line_is_cut_around_the_match(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a.min.js": "é" * 100_000 + "needle" + "ü" * 100_000})
    assert grep(tmp_path, engine, pattern="needle") == (
        f"a.min.js\n  1: …{'é' * 197}needle{'ü' * 197}…"
    )


def test_line_of_many_matches_is_shown_once(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a.min.js": "ab" * 400_000})
    assert grep(tmp_path, engine, pattern="b") == f"a.min.js\n  1: {'ab' * 200}…"


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": b"\xff hit \x1b[31m\tred\x07\r\n"})
    assert grep(tmp_path, engine, pattern="hit") == "a\n  1: \ufffd hit \ufffd[31m\tred\ufffd"


def test_strange_file_names_are_escaped(tmp_path: Path, engine: Ripgrep) -> None:
    strange = os.fsencode(tmp_path) + b"/bad\xff\nname\x1b"
    with open(strange, "wb") as file:  # noqa: PTH123 - the name is bytes
        file.write(b"hit\n")
    assert grep(tmp_path, engine, pattern="hit") == "bad\\xff\\nname\\x1b\n  1: hit"
    assert grep(tmp_path, engine, pattern="hit", mode="count") == (
        "bad\\xff\\nname\\x1b: 1\n[1 match in 1 file]"
    )


def test_ignored_files_are_left_out_unless_named(tmp_path: Path, engine: Ripgrep) -> None:
    plant(
        tmp_path,
        {".gitignore": "build/*\n*.log\n", "build/a.py": "hit", "x.log": "hit", ".env": "hit"},
    )
    assert grep(tmp_path, engine, pattern="hit") == ".env\n  1: hit"
    assert grep(tmp_path, engine, pattern="hit", path="x.log") == "x.log\n  1: hit"
    (tmp_path / ".gitignore").write_text("build\n")
    assert grep(tmp_path, engine, pattern="hit", path="build") == "build/a.py\n  1: hit"


def test_rules_of_the_directories_above_apply(tmp_path: Path, engine: Ripgrep) -> None:
    plant(
        tmp_path,
        {
            ".gitignore": "/repo/src/gen/out\nnode_modules\n",
            "repo/.ignore": "src/gen/*.tmp\n",
            **{f"repo/src/gen/{name}": "hit" for name in ("out/a", "b.tmp", "node_modules/c", "d")},
        },
    )
    assert grep(tmp_path / "repo", engine, pattern="hit", path="src") == "src/gen/d\n  1: hit"


def test_rules_that_ignore_the_whole_workspace_do_not_count(
    tmp_path: Path, engine: Ripgrep
) -> None:
    plant(tmp_path, {".gitignore": "*\n", "repo/src/a": "hit", "repo/src/b": "hit"})
    plant(tmp_path, {"repo/.gitignore": "b\n"})
    assert grep(tmp_path / "repo", engine, pattern="hit", path="src") == "src/a\n  1: hit"


def test_git_directory_is_never_searched(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {".git/config": "hit", "sub/.git/HEAD": "hit", "sub/a": "hit"})
    assert grep(tmp_path, engine, pattern="hit") == "sub/a\n  1: hit"


def test_glob_never_brings_ignored_files_back(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {".gitignore": "gen\n*.log\n", "src/gen/a.py": "hit", "src/b.log": "hit"})
    plant(tmp_path, {"src/c.py": "hit"})
    for glob in ("src/**", "*.{py,log}", "**/*", "**"):
        assert grep(tmp_path, engine, pattern="hit", glob=glob) == "src/c.py\n  1: hit"


@pytest.mark.parametrize(
    ("path", "glob", "found"),
    [
        (".", "*.py", ["src/a.py", "src/lib/b.py"]),
        (".", "src/*.py", ["src/a.py"]),
        ("src", "lib/*", ["src/lib/b.py"]),
        ("src", "src/lib/*", ["src/lib/b.py"]),
        ("src", "!lib", ["src/a.py"]),
        (".", "!src/lib/**", ["c.md", "src/a.py"]),
        (".", "./*.md", ["c.md"]),
        (".", "src/", ["src/a.py", "src/lib/b.py"]),
        (".", "{c.md,src/*.py}", ["c.md", "src/a.py"]),
        (".", "[!c]?p[x-z]", ["src/a.py", "src/lib/b.py"]),
        ("c.md", "*.py", ["c.md"]),
    ],
)
def test_glob_narrows(
    tmp_path: Path, engine: Ripgrep, path: str, glob: str, found: list[str]
) -> None:
    plant(tmp_path, {"src/a.py": "hit", "src/lib/b.py": "hit", "c.md": "hit"})
    shown = grep(tmp_path, engine, pattern="hit", path=path, glob=glob, mode="files")
    assert shown.split("\n") == found


def test_files_and_count_modes(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": "hit hit\nhit\n", "b": "hit\n", "c": "hit\n"})
    assert grep(tmp_path, engine, pattern="hit", mode="files") == "a\nb\nc"
    assert grep(tmp_path, engine, pattern="hit", mode="count") == (
        "a: 2\nb: 1\nc: 1\n[4 matches in 3 files]"
    )
    assert grep(tmp_path, engine, pattern="hit", mode="files", limit=2) == (
        "a\nb\n[first 2 files; there are more: narrow the pattern, path or glob]"
    )


def test_pattern_may_begin_with_a_dash(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": "--files\n", "-b": "-e x\n"})
    assert grep(tmp_path, engine, pattern="--files") == "a\n  1: --files"
    assert grep(tmp_path, engine, pattern="-e x", path="-b") == "-b\n  1: -e x"
    assert grep(tmp_path, engine, pattern="--") == "a\n  1: --files"


def test_dollar_and_newline_know_crlf(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": "foo;\r\nbar\r\n", "b": "foo;\nbar\n"})
    assert grep(tmp_path, engine, pattern=";$") == "a\n  1: foo;\nb\n  1: foo;"
    both = "a\n  1: foo;\n  2: bar\nb\n  1: foo;\n  2: bar"
    assert grep(tmp_path, engine, pattern=r";\nbar") == both
    assert grep(tmp_path, engine, pattern=";\nbar", literal=True) == both


def test_match_across_many_lines_is_bounded(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": "begin\n" + "x" * 70 + "\n" * 9 + ("y" * 70 + "\n") * 1000 + "end\n"})
    shown = grep(tmp_path, engine, pattern="(?s)begin.*end")
    assert shown.startswith("a\n  1: begin\n  2: xxx")
    assert shown.endswith(
        "[first 1 match in 1 file; there are more: narrow the pattern, path or glob]"
    )
    assert len(shown.encode()) <= 32_100


def test_habits_of_other_dialects_are_understood(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": 'if (x) { print("a/b") }\n'})
    for pattern in (r"\"a\/b\"", r"\(x\) {", r"(?<name>x)\)", r"a{,2}\/b", r"x\)\ {", r"\<print\>"):
        assert grep(tmp_path, engine, pattern=pattern).startswith("a\n  1: "), pattern


def test_binary_files_are_searched_only_when_named(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a.bin": b"hit\n\0\nhit\n", "late.bin": b"hit\n" + b"x\n" * 99_999 + b"\0"})
    assert grep(tmp_path, engine, pattern="hit") == "No matches for hit in the workspace."
    assert grep(tmp_path, engine, pattern="hit", path="a.bin") == "a.bin\n  1: hit\n  3: hit"


def test_byte_order_marks_are_honoured(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": "\ufeffhit é\n".encode("utf-16-le"), "b": b"\xef\xbb\xbfhit"})
    assert grep(tmp_path, engine, pattern="^hit") == "a\n  1: hit é\nb\n  1: hit"


def test_links_are_not_followed(tmp_path: Path, engine: Ripgrep) -> None:
    outside = tmp_path / "outside"
    plant(outside, {"a": "hit"})
    workspace = tmp_path / "workspace"
    plant(workspace, {"b": "hit"})
    (workspace / "link").symlink_to(outside)
    (workspace / "file").symlink_to(outside / "a")
    assert grep(workspace, engine, pattern="hit") == "b\n  1: hit"
    assert refusal(workspace, engine, pattern="hit", path="link") == (
        "link is outside the workspace. It is a link that leads out."
    )
    assert "outside the workspace" in refusal(workspace, engine, pattern="hit", glob="link/**")


def test_read_only_root_is_searched_whatever_it_holds(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"out/.gitignore": "*", "out/17.log": b"a\0\nhit\n", "workspace/a": "hit"})
    workspace = Workspace(tmp_path / "workspace", readable=(tmp_path / "out",))
    log = tmp_path / "out/17.log"
    for path in (log, tmp_path / "out"):
        output = answer(
            Grep(workspace=workspace, engine=engine), {"pattern": "hit", "path": str(path)}
        )
        assert text_of(output) == f"{log}\n  2: hit"


def test_glob_finds_names_with_brackets(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"app/[slug]/page.tsx": "hit\n", "app/other/page.tsx": "hit\n"})
    shown = grep(tmp_path, engine, pattern="hit", glob="app/[slug]/*.tsx")
    assert shown == "app/[slug]/page.tsx\n  1: hit"


def test_nothing_found_is_an_answer(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"src/a.py": "print(x)\n"})
    for arguments, told in [
        ({"pattern": "zz", "path": "src", "glob": "*.py"}, "No matches for zz in src (*.py)."),
        ({"pattern": "zz"}, "No matches for zz in the workspace."),
        (
            {"pattern": "zz", "glob": "*.pyy"},
            "No matches for zz in the workspace (*.pyy): no file there matches the glob.",
        ),
        (
            {"pattern": "print(x)", "path": "src/a.py"},
            "No matches for print(x) in src/a.py. The text itself is there: use literal=true.",
        ),
    ]:
        assert grep(tmp_path, engine, **arguments) == told


@pytest.mark.parametrize(
    ("pattern", "meant"),
    [
        (r"\(red\|blue\) car", "(red|blue) car"),
        (r"red\|green", "red|green"),
        (r"zz\|yy", ""),
        (r"drive\(\|stop\(", r"drive\(|stop\("),
        (r"re\+d", "re+d"),
        (r"colou\?r", "colou?r"),
        (r"ca\{1,2\}r\+", "ca{1,2}r+"),
    ],
)
def test_operators_after_a_backslash_are_explained(
    tmp_path: Path, engine: Ripgrep, pattern: str, meant: str
) -> None:
    plant(tmp_path, {"a": "red car\nstop(color)\n"})
    shown = grep(tmp_path, engine, pattern=pattern)
    told = f"without one: {meant} does match." if meant else "without one, such as (a|b)+."
    assert shown.startswith(f"No matches for {pattern} in the workspace. After a backslash, ")
    assert shown.endswith(told)


@pytest.mark.parametrize("pattern", [r"red\(\)", r"a\\|zz", r"a \|\| b", r"[\|+]zz", r"zz\+"])
def test_escapes_that_mean_themselves_are_not_explained(
    tmp_path: Path, engine: Ripgrep, pattern: str
) -> None:
    plant(tmp_path, {"a": "red car\n"})
    shown = grep(tmp_path, engine, pattern=pattern)
    assert shown == f"No matches for {pattern} in the workspace."


@pytest.mark.parametrize("pattern", ["(?=a)", "(?!a)b", "(?<=a)b", "(?<!a)b", r"(a)\1"])
def test_pattern_beyond_the_engine_is_sent_to_another(
    tmp_path: Path, engine: Ripgrep, pattern: str
) -> None:
    told = refusal(tmp_path, engine, pattern=pattern)
    assert told.startswith("Bad pattern: ")
    assert told.endswith(" not supported; use grep -P in bash, or another pattern.")


@pytest.mark.parametrize("pattern", ["f(", "[a", "*a", r"\q", "a)"])
def test_bad_pattern_is_refused_with_the_way_out(
    tmp_path: Path, engine: Ripgrep, pattern: str
) -> None:
    told = refusal(tmp_path, engine, pattern=pattern)
    assert told.startswith("Bad pattern: ")
    assert told.endswith("; use literal=true to search for the text itself.")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"pattern": ""}, "Invalid input: pattern"),
        ({"pattern": "x", "limit": -1}, "Invalid input: limit"),
        ({"pattern": "x", "limit": 501}, "Invalid input: limit"),
        ({"pattern": "x", "context": 11}, "Invalid input: context"),
        ({"pattern": "x", "before": 11}, "Invalid input: before"),
        ({"pattern": "x", "after": -1}, "Invalid input: after"),
        ({"pattern": "x", "mode": "lines"}, "Invalid input: mode"),
        ({"pattern": "a\0b"}, "The pattern or glob has a NUL"),
        ({"pattern": "x", "glob": "{a"}, "{a is not a glob: a { is not closed"),
        ({"pattern": "x", "glob": "../a"}, "../a is not a glob: it cannot go up"),
        ({"pattern": "x", "path": "gone"}, "No such file: gone."),
        ({"pattern": "x", "path": ".."}, ".. is outside the workspace."),
        ({"pattern": "x", "path": "fifo"}, "fifo is neither a file nor a directory."),
    ],
)
def test_what_cannot_be_searched_is_refused(
    tmp_path: Path, engine: Ripgrep, arguments: dict[str, Any], told: str
) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert refusal(tmp_path, engine, **arguments).startswith(told)


def test_other_names_of_arguments_are_understood(tmp_path: Path, engine: Ripgrep) -> None:
    tool = Grep(workspace=Workspace(tmp_path), engine=engine)
    raw: Json = {"query": "x", "include": "*.py", "-i": True, "max_results": 5, "path": None}
    args = tool.parse(raw)
    assert args == GrepArgs(pattern="x", glob="*.py", ignore_case=True, limit=5)
    assert tool.effect(args) is Effect.READ


def test_details_tell_people_what_was_found(tmp_path: Path, engine: Ripgrep) -> None:
    plant(tmp_path, {"a": "hit\nhit\n", "b": "hit\n"})
    output = answer(
        Grep(workspace=Workspace(tmp_path), engine=engine), {"pattern": "hit", "limit": 2}
    )
    assert output.details == Matches(target="hit", path=".", matches=2, files=1, more=True)
    assert output.truncated
    assert output.error is None


def test_what_a_rule_asks_about_is_searched_if_the_call_names_it(
    tmp_path: Path, engine: Ripgrep
) -> None:
    plant(tmp_path, {"keys/one": "hit", "src/keys": "hit", "src/a.py": "hit"})
    rule = parse_rule("read(keys/**)", "ask", source="user")
    decider = PolicyDecider(rules=[rule], find_conditions=_find_no_conditions)

    def asks(path: Path, named: Sequence[Path]) -> str:
        reached, *others = (ReachedPath(one, one) for one in (path, *named))
        return str(decider.find_asking(reached, root=tmp_path, named=others) or "")

    tool = Grep(workspace=Workspace(tmp_path, asks_to_read=asks), engine=engine)

    def search(**arguments: Any) -> str:
        return text_of(answer(tool, {"pattern": "hit", "mode": "files", **arguments}))

    note = "[left out what rule ask read(keys/**) is about; to ask the user, name it in path]"
    assert search() == f"src/a.py\nsrc/keys\n{note}"
    assert search(path="src") == "src/a.py\nsrc/keys"
    for named in ({"path": "keys"}, {"path": "keys/one"}, {"glob": "keys/*"}):
        assert search(**named) == "keys/one"
