import json
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentcli.log.audit import audit_log
from tests.support import anthropic_streams as anthropic
from tests.support.program import PROGRAM, Ran, agentcli, environment, script, session_log
from tests.support.repl import live
from tests.support.terminal import until

pytestmark = pytest.mark.usefixtures("verified_logs")

BASE = "".join(f"line {number}\n" for number in range(1, 13))


def git(directory: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    ran = subprocess.run(
        ["git", *identity, *words], cwd=directory, check=True, capture_output=True, text=True
    )
    return ran.stdout


@pytest.fixture
def repository(workspace: Path) -> Path:
    (workspace / "a.txt").write_text(BASE)
    (workspace / "b.txt").write_text("b\n")
    git(workspace, "init", "-q", "-b", "main")
    git(workspace, "add", ".")
    git(workspace, "commit", "-q", "-m", "one")
    return workspace


def change(old: str, new: str, path: str = "a.txt") -> list[dict[str, Any]]:
    return [
        {"read_file": {"path": path}},
        {"edit_file": {"path": path, "old_text": old, "new_text": new}},
    ]


def run(home: Path, workspace: Path, *calls: dict[str, Any], name: str = "fix") -> Ran:
    model = script(home / "s.json", [*({"calls": [call]} for call in calls), "Done."])
    options = ("--mode", "auto", "--sandbox", "off", "--model", model)
    return agentcli("run", "-C", workspace, "-w", name, *options, "go", home=home)


def worktree(home: Path, repository: Path, *words: str) -> Ran:
    return agentcli("worktree", *words, "-C", repository, home=home)


def list_trees(home: Path) -> list[Path]:
    return sorted(home.rglob("agentcli-worktrees/*/*.json"))


def find_tree(home: Path) -> Path:
    return Path(json.loads(list_trees(home)[0].read_text())["tree"])


def test_run_in_a_worktree_is_merged_with_what_the_user_did_meanwhile(
    home: Path, repository: Path
) -> None:
    (repository / "b.txt").write_text("b\nuncommitted\n")
    ran = run(
        home,
        repository,
        *change("line 2\n", "line two\n"),
        {"write_file": {"path": "new/c.txt", "content": "c\n"}},
        {"bash": {"command": "rm b.txt; git status --short"}},
    )
    assert ran.code == 0, ran.err
    assert "1 uncommitted change in " in ran.err and "not in the worktree" in ran.err
    assert "worktree fix: 3 files changed, kept" in ran.err
    assert (repository / "a.txt").read_text() == BASE
    assert not find_tree(home).is_relative_to(repository)
    (repository / "a.txt").write_text(BASE.replace("line 11\n", "line eleven\n"))
    (repository / "b.txt").write_text("b\n")
    before = git(repository, "status", "--porcelain"), git(repository, "rev-parse", "HEAD")

    merged = worktree(home, repository, "merge", "fix")

    assert merged.code == 0, merged.out + merged.err
    assert f"Merged 3 files into {repository}: a.txt, b.txt, new/c.txt\n" in merged.out
    both = BASE.replace("line 2\n", "line two\n").replace("line 11\n", "line eleven\n")
    assert (repository / "a.txt").read_text() == both
    assert (repository / "new" / "c.txt").read_text() == "c\n"
    assert not (repository / "b.txt").exists()
    assert git(repository, "rev-parse", "HEAD") == before[1]
    assert git(repository, "diff", "--cached", "--name-only") == ""
    assert git(repository, "worktree", "list").count("\n") == 1
    assert "agentcli" not in git(repository, "branch", "--list")
    assert list_trees(home) == []
    assert audit_log(session_log(home)).status == "intact"

    undone = agentcli("undo", "-C", repository, session_log(home).parent.name, home=home)
    assert "(worktree-" in undone.out.split("\n")[0]
    assert undone.code == 0, undone.err
    assert (repository / "a.txt").read_text() == BASE.replace("line 11\n", "line eleven\n")
    assert (repository / "b.txt").read_text() == "b\n"
    assert not (repository / "new").exists()


def test_merge_of_files_in_directories_is_undone(home: Path, repository: Path) -> None:
    (repository / "src" / "deep").mkdir(parents=True)
    (repository / "src" / "deep" / "a.txt").write_text(BASE)
    (repository / "src" / "b.txt").write_text("b\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    command = "echo more >> src/deep/a.txt; rm src/b.txt; echo new > src/deep/new.txt"
    assert run(home, repository, {"bash": {"command": command}}).code == 0
    assert worktree(home, repository, "merge", "fix").code == 0
    assert (repository / "src" / "deep" / "a.txt").read_text() == f"{BASE}more\n"

    undone = agentcli("undo", "-C", repository, session_log(home).parent.name, home=home)

    assert undone.code == 0, undone.out + undone.err
    assert git(repository, "status", "--porcelain") == ""


def test_conflict_is_shown_and_loses_neither_side(home: Path, repository: Path) -> None:
    assert run(home, repository, *change("line 5\n", "line five\n")).code == 0
    (repository / "a.txt").write_text(BASE.replace("line 5\n", "line 5 by the user\n"))
    merged = worktree(home, repository, "merge", "fix")
    assert merged.code == 7
    assert "CONFLICT a.txt: the same lines were changed" in merged.out
    marked = "<<<<<<< yours\nline 5 by the user\n=======\nline five\n>>>>>>> fix\n"
    assert marked in merged.out
    assert (repository / "a.txt").read_text() == BASE.replace("line 5\n", "line 5 by the user\n")
    assert (find_tree(home) / "a.txt").read_text() == BASE.replace("line 5\n", "line five\n")
    listed = worktree(home, repository, "list")
    assert "fix" in listed.out and "1 file changed" in listed.out
    refused = worktree(home, repository, "discard", "fix")
    assert refused.code == 2 and "1 changed file of fix would be lost" in refused.err
    assert worktree(home, repository, "discard", "fix", "--yes").code == 0
    assert list_trees(home) == [] and "agentcli" not in git(repository, "branch", "--list")


def test_file_that_became_ignored_in_the_worktree_is_not_deleted(
    home: Path, repository: Path
) -> None:
    for name in ("kept", "changed", "removed", "replaced"):
        (repository / "data").mkdir(exist_ok=True)
        (repository / "data" / name).write_text(f"{name}\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    command = (
        "echo data/ > .gitignore; echo more >> data/changed; rm data/removed data/replaced; "
        "mkdir data/replaced; echo made > data/made"
    )
    assert "4 files changed" in run(home, repository, {"bash": {"command": command}}).err

    merged = worktree(home, repository, "merge", "fix")

    assert merged.code == 0, merged.out + merged.err
    found = {path.name: path.read_text() for path in (repository / "data").iterdir()}
    assert found == {"kept": "kept\n", "changed": "changed\nmore\n"}
    undone = agentcli("undo", "-C", repository, session_log(home).parent.name, home=home)
    assert undone.code == 0, undone.out + undone.err
    assert git(repository, "status", "--porcelain") == ""


def test_worktree_is_taken_up_again_by_its_name_and_commits_stay(
    home: Path, repository: Path
) -> None:
    assert run(home, repository, *change("line 1\n", "line one\n")).code == 0
    again = run(
        home,
        repository,
        {"read_file": {"path": "a.txt"}},
        {"bash": {"command": "git -c user.name=a -c user.email=a@b commit -qam two"}},
    )
    assert again.code == 0 and "uncommitted" not in again.err
    merged = worktree(home, repository, "merge", "fix")
    assert "Its commits stay on the branch agentcli/fix." in merged.out
    assert (repository / "a.txt").read_text().startswith("line one\n")
    assert git(repository, "log", "--format=%s", "agentcli/fix").split() == ["two", "one"]
    taken = run(home, repository, *change("line 1\n", "line one\n"))
    assert taken.code != 0 and "agentcli/fix" in taken.err


COMMIT = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m"
HEADS = {
    "detached": (f"git checkout -q --detach; {COMMIT} two; {COMMIT} three", "branch agentcli/fix"),
    "on another branch": (f"git checkout -q -b theirs; {COMMIT} two", "branch theirs"),
    "beside the branch": (
        f"{COMMIT} two; git checkout -q --detach HEAD~1; {COMMIT} three",
        "branches agentcli/fix and agentcli/fix-2",
    ),
    "before the branch": (
        f"{COMMIT} two; git checkout -q --detach HEAD~1",
        "branch agentcli/fix",
    ),
    "on a branch of its own and ours": (
        f"{COMMIT} two; git checkout -q -b theirs HEAD~1; {COMMIT} three",
        "branches agentcli/fix and theirs",
    ),
    "in a rebase": (
        f"{COMMIT} two; git -c user.name=a -c user.email=a@b rebase -q --exec 'exit 1' "
        f"--keep-empty --force-rebase HEAD~1; {COMMIT} three --amend",
        "branches agentcli/fix and agentcli/fix-2",
    ),
}


@pytest.mark.parametrize("head", HEADS)
def test_branches_have_all_commits_of_a_worktree_that_is_merged(
    home: Path, repository: Path, head: str
) -> None:
    command, where = HEADS[head]
    assert run(home, repository, {"bash": {"command": f"{command}; true"}}).code == 0
    merged = worktree(home, repository, "merge", "fix")
    assert merged.code == 0, merged.err
    assert f"Its commits stay on the {where}.\n" in merged.out
    assert "commit" not in git(repository, "fsck", "--unreachable", "--no-reflogs")
    made = set(command.replace(";", "").split()) & {"two", "three"}
    assert made <= set(git(repository, "log", "--branches", "--format=%s").split())
    branches = git(repository, "branch", "--format=%(refname:short)").split()
    assert set(branches) == {"main", *where.split()[1:]} - {"and"}


def test_branch_that_the_user_has_checked_out_is_neither_moved_nor_deleted(
    home: Path, repository: Path
) -> None:
    calls = {"bash": {"command": f"git checkout -q --detach; {COMMIT} two"}}
    assert run(home, repository, calls).code == 0
    git(repository, "checkout", "-q", "agentcli/fix")
    merged = worktree(home, repository, "merge", "fix")
    assert "Its commits stay on the branch agentcli/fix-2.\n" in merged.out
    assert git(repository, "log", "-1", "--format=%s").strip() == "one"
    assert git(repository, "log", "-1", "--format=%s", "agentcli/fix-2").strip() == "two"


NESTED = f"mkdir -p sub/in; cd sub/in; git init -q; echo v1 > f; git add .; {COMMIT} v1"


def test_worktree_with_a_repository_in_it_stays_when_it_is_merged(
    home: Path, repository: Path
) -> None:
    command = f"echo two > b.txt; mkdir node_modules; git init -q node_modules/dep; {NESTED}"
    assert "kept" in run(home, repository, {"bash": {"command": command}}).err
    merged = worktree(home, repository, "merge", "fix")
    assert merged.code == 0, merged.err
    assert "Merged 2 files into" in merged.out and "b.txt, sub/in/f\n" in merged.out
    stays = (
        "The worktree stays: it has what is never merged and nowhere else: the repository sub/in."
    )
    assert stays in merged.out and "Removed" not in merged.out
    assert (repository / "sub" / "in" / "f").read_text() == "v1\n"
    assert git(find_tree(home) / "sub" / "in", "log", "--format=%s") == "v1\n"
    remedy = merged.out.partition("To remove it: agentcli ")[2].split()
    refused = worktree(home, repository, "discard", "fix")
    assert refused.code == 2 and "the repository sub/in of fix would be lost" in refused.err
    assert agentcli(*remedy, home=home).code == 0
    assert list_trees(home) == []


def test_worktree_with_nothing_but_an_empty_repository_is_not_removed(
    home: Path, repository: Path
) -> None:
    ran = run(home, repository, {"bash": {"command": "git init -q sub"}})
    assert "worktree fix: 0 files changed, kept" in ran.err
    assert (find_tree(home) / "sub" / ".git").is_dir()


@pytest.mark.parametrize("has_commits", [False, True])
def test_submodule_keeps_a_worktree_if_it_got_commits_there(
    home: Path, repository: Path, tmp_path: Path, has_commits: bool
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "o").write_text("o\n")
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "o")
    git(repository, "submodule", "--quiet", "add", str(other), "lib")
    git(repository, "commit", "-q", "-m", "two")
    command = "git -c protocol.file.allow=always submodule --quiet update --init; echo > new"
    more = f"; cd lib; {COMMIT} theirs" if has_commits else ""
    assert run(home, repository, {"bash": {"command": command + more}}).code == 0
    merged = worktree(home, repository, "merge", "fix")
    assert merged.code == 0, merged.err
    assert ("nowhere else: the repository lib.\n" in merged.out) == has_commits
    assert len(list_trees(home)) == has_commits


def test_commits_alone_are_not_discarded_without_a_word(home: Path, repository: Path) -> None:
    assert "kept" in run(home, repository, {"bash": {"command": f"{COMMIT} two"}}).err
    refused = worktree(home, repository, "discard", "fix")
    assert (refused.code, refused.err.splitlines()[0]) == (
        2,
        "error: the commits of fix would be lost",
    )
    assert worktree(home, repository, "discard", "fix", "--yes").code == 0


def test_worktree_whose_directory_was_removed_is_made_again_with_its_commits(
    home: Path, repository: Path
) -> None:
    commit = "git -c user.name=a -c user.email=a@b commit -qam two"
    run(home, repository, *change("line 2\n", "line two\n"), {"bash": {"command": commit}})
    shutil.rmtree(find_tree(home))
    assert "fix              its directory was removed" in worktree(home, repository, "list").out

    ran = run(home, repository, *change("line 9\n", "line nine\n"))
    assert ran.code == 0, ran.err
    assert "its directory was removed: made again from the branch agentcli/fix" in ran.err
    assert git(find_tree(home), "branch", "--show-current") == "agentcli/fix\n"
    assert worktree(home, repository, "merge", "fix").code == 0
    wanted = BASE.replace("line 2\n", "line two\n").replace("line 9\n", "line nine\n")
    assert (repository / "a.txt").read_text() == wanted


def test_worktree_whose_directory_was_removed_is_discarded(home: Path, repository: Path) -> None:
    run(home, repository, *change("line 2\n", "line two\n"))
    shutil.rmtree(find_tree(home))
    assert worktree(home, repository, "discard", "fix").code == 0
    assert (list_trees(home), git(repository, "branch", "--list", "agentcli/*")) == ([], "")
    assert len(git(repository, "worktree", "list").splitlines()) == 1

    commit = "git -c user.name=a -c user.email=a@b commit -qam two"
    run(home, repository, *change("line 2\n", "line two\n"), {"bash": {"command": commit}})
    shutil.rmtree(find_tree(home))
    refused = worktree(home, repository, "discard", "fix")
    assert (refused.code, refused.err.splitlines()[0]) == (
        2,
        "error: the commits on agentcli/fix would be lost",
    )
    assert "Its last commit was" in worktree(home, repository, "discard", "fix", "--yes").out


def test_branch_that_is_none_of_ours_is_left_alone(home: Path, repository: Path) -> None:
    git(repository, "branch", "agentcli/fix")
    refused = run(home, repository)
    assert refused.code == 2
    assert "the branch agentcli/fix exists, but belongs to no worktree" in refused.err
    git(repository, *refused.err.splitlines()[1].split()[4:])
    assert run(home, repository).code == 0


def test_worktree_without_changes_goes(home: Path, repository: Path) -> None:
    ran = run(home, repository, {"read_file": {"path": "a.txt"}})
    assert "nothing was changed, so it was removed" in ran.err
    assert list_trees(home) == [] and "agentcli" not in git(repository, "branch", "--list")


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("no git", "is not in a git repository"),
        ("no commit", "has no commit yet"),
        ("new directory", "does not have"),
        ("bad name", "cannot name a worktree"),
        ("command", "it is a command"),
    ],
)
def test_worktree_that_cannot_be_made_says_why(
    home: Path, workspace: Path, case: str, words: str
) -> None:
    where, name = workspace, "fix"
    if case != "no git":
        git(workspace, "init", "-q")
    if case in ("new directory", "bad name", "command"):
        (workspace / "a").write_text("a\n")
        git(workspace, "add", ".")
        git(workspace, "commit", "-q", "-m", "one")
    if case == "new directory":
        where = workspace / "new"
        where.mkdir()
    if case in ("bad name", "command"):
        name = "../x" if case == "bad name" else "merge"
    ran = run(home, where, name=name)
    assert ran.code in (2, 3) and words in ran.err and "Traceback" not in ran.err
    assert list_trees(home) == []


def test_detached_head_subdirectory_and_submodule(
    home: Path, repository: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / "o").write_text("o\n")
    git(other, "add", ".")
    git(other, "commit", "-q", "-m", "o")
    git(repository, "submodule", "--quiet", "add", str(other), "lib")
    below = repository / "src"
    below.mkdir()
    (below / "s.txt").write_text("s\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    git(repository, "checkout", "-q", "--detach")
    ran = run(home, below, *change("s\n", "S\n", "s.txt"))
    assert ran.code == 0, ran.err
    assert "HEAD is detached: the worktree begins at " in ran.err
    assert "git submodule update --init" in ran.err
    assert worktree(home, below, "merge", "fix").code == 0
    assert (below / "s.txt").read_text() == "S\n"
    assert git(repository, "status", "--porcelain") == " M src/s.txt\n"
    assert (repository / "lib" / "o").read_text() == "o\n"


def test_merge_that_is_killed_loses_nothing_and_can_be_finished_and_undone(
    home: Path, repository: Path
) -> None:
    names = [f"f{number:03}.txt" for number in range(80)]
    for name in names:
        (repository / name).write_text(BASE)
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "many")
    command = "for f in f*.txt; do sed -i 's/^line 2$/line two/' $f; done"
    assert run(home, repository, {"bash": {"command": command}}).code == 0
    mine = BASE.replace("line 11\n", "line eleven\n")
    both = mine.replace("line 2\n", "line two\n")
    for name in names:
        (repository / name).write_text(mine)
    merging = subprocess.Popen(
        [PROGRAM, "worktree", "merge", "fix", "-C", repository],
        env=environment(home),
        stdout=subprocess.DEVNULL,
    )
    first = repository / names[0]
    until(lambda: first.read_text() == both, "the first file is merged", every_s=0.002)
    merging.send_signal(signal.SIGKILL)
    assert merging.wait() == -signal.SIGKILL
    found = [(repository / name).read_text() for name in names]
    assert set(found) == {mine, both}
    assert list_trees(home)
    assert audit_log(session_log(home)).status == "intact"

    finished = worktree(home, repository, "merge", "fix")
    assert finished.code == 0, finished.out + finished.err
    assert {(repository / name).read_text() for name in names} == {both}
    session = session_log(home).parent.name
    for _ in range(2):
        assert agentcli("undo", "-C", repository, session, home=home).code == 0
    assert {(repository / name).read_text() for name in names} == {mine}


def test_session_moves_into_a_worktree_and_back(tmp_path: Path) -> None:
    write = {"path": "new.txt", "content": "new\n"}
    replies = [
        anthropic.says("Hello."),
        anthropic.calls(anthropic.call("toolu_1", "write_file", write)),
        anthropic.says("Written."),
        anthropic.says("I remember."),
    ]
    files = {"a.txt": BASE}
    with live(tmp_path, replies, files=files, arguments=("--mode", "auto-edit")) as it:
        for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "one")):
            git(it.project, *words)
        it.term.wait("auto-edit · claude-")
        it.term.send("/worktree")
        it.term.wait("Not in a worktree.")
        it.term.send("hello")
        it.term.wait("Hello.")
        it.term.send("/worktree fix")
        it.term.wait("agentcli/fix")
        it.term.wait("auto-edit · claude-")
        it.term.send("write it")
        it.term.wait("Written.")
        assert not (it.project / "new.txt").exists()
        assert "[The user moved the session into the git worktree fix" in str(it.model.bodies[-1])
        it.term.send("/worktree merge")
        it.term.wait_for((it.project / "new.txt").exists, "it is merged")
        it.term.wait_gone("agentcli/fix")
        it.term.send("and?")
        it.term.wait("I remember.")
        assert "write it" in str(it.model.bodies[-1])
        assert "[The user merged the worktree fix and went back to" in str(it.model.bodies[-1])
        it.term.send("/undo")
        it.term.wait("Undid")
        assert not (it.project / "new.txt").exists()
    assert list_trees(tmp_path / "home") == []


def test_quitting_in_a_worktree_asks_what_becomes_of_it(tmp_path: Path) -> None:
    write = {"path": "new.txt", "content": "new\n"}
    replies = [
        anthropic.calls(anthropic.call("toolu_1", "write_file", write)),
        anthropic.says("Written."),
    ]
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "a.txt").write_text(BASE)
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "one")):
        git(tmp_path / "project", *words)
    with live(tmp_path, replies, arguments=("--mode", "auto-edit", "-w")) as it:
        it.term.wait("auto-edit · claude-")
        it.term.send("write it")
        it.term.wait("Written.")
        it.term.send("/quit")
        it.term.wait("Worktree work-1 has 1 changed file. [k]eep [m]erge [d]iscard")
        it.term.send("m")
        it.term.gone()
        assert (it.project / "new.txt").read_text() == "new\n"
    assert list_trees(tmp_path / "home") == []


def test_tracked_files_that_rules_or_limits_leave_out_are_not_lost_with_the_worktree(
    home: Path, repository: Path
) -> None:
    for name in ("dist/app.js", "node_modules/one.js"):
        (repository / name).parent.mkdir()
        (repository / name).write_text("one\n")
    (repository / ".gitignore").write_text("dist/\n")
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-q", "-m", "two")
    command = "echo two > dist/app.js; echo two > node_modules/one.js"
    ran = run(home, repository, {"bash": {"command": command}})
    assert "1 file changed, kept" in ran.err
    assert "nowhere else: node_modules/one.js" in ran.err

    merged = worktree(home, repository, "merge", "fix")

    assert merged.code == 0, merged.out + merged.err
    assert (repository / "dist" / "app.js").read_text() == "two\n"
    assert "The worktree stays: it has what is never merged" in merged.out
    (tree,) = list_trees(home)
    assert (tree.with_suffix("") / "node_modules" / "one.js").read_text() == "two\n"


def test_conflict_without_text_names_the_other_version(home: Path, repository: Path) -> None:
    run(home, repository, {"bash": {"command": "ln -sf b.txt a.txt"}})
    (repository / "a.txt").write_text("mine\n")

    merged = worktree(home, repository, "merge", "fix")

    assert "CONFLICT a.txt" in merged.out
    (saved,) = (home / ".local/state/agentcli/sessions").rglob("conflicts/*/*")
    assert saved.read_text().endswith("The other version: " + str(find_tree(home) / "a.txt") + "\n")
    assert (repository / "a.txt").read_text() == "mine\n"


def test_rule_about_a_path_of_the_repository_holds_for_its_copy(
    home: Path, repository: Path
) -> None:
    link = home / "link"
    link.symlink_to(repository)
    for name in ("keys", "notes"):
        (repository / name).mkdir()
        (repository / name / "one").write_text("the value\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "two")
    calls = [
        {"read_file": {"path": "keys/one"}},
        {"grep": {"pattern": "value"}},
        {"edit_file": {"path": "a.txt", "old_text": "a", "new_text": "b"}},
    ]
    model = script(home / "s.json", [*({"calls": [call]} for call in calls), "Done."])
    ran = agentcli(
        *("run", "-C", repository, "-w", "fix", "-o", "stream-json", "--model", model),
        *("--deny", f"read({link}/keys/**)", "--deny", f"edit({repository}/*.txt)", "go"),
        home=home,
    )
    told = [one["model_text"] for one in ran.events if one["type"] == "tool.finished"]
    assert f"rule deny read({link}/keys/**) (--deny) forbids it" in told[0]
    assert "keys" not in told[1]
    assert "notes/one" in told[1]
    assert f"rule deny edit({repository}/*.txt) (--deny) forbids it" in told[2]
