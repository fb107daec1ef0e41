"""Whatever options and words a known reader gets: if the line is proven to read, it only reads."""

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.permissions import git_reads, readers
from agentcli.permissions.reader_options import split_names
from agentcli.permissions.readonly import ReadProver, build_path_lookup
from tests.support.examples import examples

WORDS = split_names(
    """1 2 a.txt d d/n j.json new ./out HEAD HEAD~1 main v1 HEAD:a.txt stash@{0} -- - x core.bare
    core.fsmonitor alias.x origin refs/heads/main list show get-url --list -l --get --get-all --add
    update expire delete set '*.txt' {print 1p NR==1 's/a/b/' .x[0] -name -type f -print -newer -o
    = -e +%Y signature -signature name now never all %H %(refname)"""
)
LISTINGS = {
    "branch": "--list --contains -v --sort=refname new main --",
    "tag": "-l --list -n --sort=refname new main --",
    "config": "--get --list --global --local --type=path alias.x x --",
    "remote": "-v get-url add --push new origin /x --",
    "stash": "list show -p push drop stash@{0} --",
    "reflog": "show HEAD expire --all delete HEAD@{0} --",
    "worktree": "list --porcelain add prune ../new HEAD --",
    "symbolic-ref": "-q --short HEAD refs/heads/new new --",
}
"""Subcommands of git whose words decide, by their place, between listing and changing."""
OTHERS = {
    "sed": "-nEr -e: --quiet --expression:",
    "awk": "-F:",
    "date": "-uR -d: -r: -I? --date:",
    "jq": "-rcn -f: --arg --args",
    "find": " ".join(readers._FIND_ALONE | readers._FIND_VALUED),
}
ENDLESS = ("sleep", "tail", "free")
PATH = "/usr/bin:/bin"


def _forms() -> dict[str, str]:
    """Return the option list of every form: program, or `git` and its subcommand."""
    programs = {
        name: check.options if isinstance(check, readers.ReaderForm) else OTHERS.get(name, "")
        for name, check in readers.READERS.items()
        if name != "git" and name not in ENDLESS
    }
    return programs | {f"git {name}": own for name, own in git_reads._READS.items()}


FORMS = _forms()
word = st.sampled_from(sorted(WORDS))


@st.composite
def options(draw: st.DrawFn, notation: str) -> str:
    entry = draw(st.sampled_from(notation.split()))
    name = entry.rstrip(":?!#")
    if not name.startswith("--") and len(name) > 2:
        name = f"-{draw(st.sampled_from(name[1:]))}"
    join = draw(st.sampled_from(["", " ", "="]))
    return name if not entry.endswith((":", "?", "!")) else f"{name}{join}{draw(word)}"


@st.composite
def lines(draw: st.DrawFn) -> str:
    form = draw(st.sampled_from(sorted(FORMS)))
    option = options(FORMS[form]) if FORMS[form] else word
    return " ".join([form, *draw(st.lists(option | word, max_size=4))])


@st.composite
def listing_lines(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(LISTINGS)))
    words = draw(st.permutations(LISTINGS[name].split()))
    return " ".join(["git", name, *words[: draw(st.integers(1, 4))]])


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    workspace, home = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("home")
    (workspace / "d").mkdir()
    for name, text in {"a.txt": "b 2\na 1\n", "d/n": "1\n2\n", "j.json": '{"x": [1]}'}.items():
        (workspace / name).write_text(text)
    run(
        "git init -qb main; git config user.name n; git config user.email e; git add -A;"
        "git commit -qm one; git tag v1; echo x >> a.txt; git stash -q; echo y >> d/n;"
        "git config remote.origin.url /nowhere",
        workspace,
        home,
    )
    return workspace, home


def run(line: str, workspace: Path, home: Path) -> None:
    subprocess.run(
        ["bash", "--norc", "-c", line],
        cwd=workspace,
        env={"PATH": PATH, "HOME": str(home), "GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )


def state(*roots: Path) -> dict[Path, tuple[int, int, int]]:
    """All files but the index, which git refreshes while it reads."""
    found = (path for root in roots for path in root.rglob("*") if path.name != "index")
    stats = {path: path.lstat() for path in found}
    return {
        path: (one.st_mode, one.st_size, 0 if path.is_dir() else one.st_mtime_ns)
        for path, one in stats.items()
    }


@given(lines() | listing_lines())
@examples(150)
def test_line_that_is_proven_to_read_changes_nothing(places: tuple[Path, Path], line: str) -> None:
    workspace, home = places
    prover = ReadProver(
        workspace=workspace, resolve=build_path_lookup(PATH), cwd=lambda: workspace, home=home
    )
    if prover.why_not_read_only(line) is None:
        before = state(workspace, home)
        run(line, workspace, home)
        assert state(workspace, home) == before, line


def test_lines_are_drawn_of_every_program_on_the_list() -> None:
    assert {form.partition(" ")[0] for form in FORMS} | set(ENDLESS) >= set(readers.READERS)
