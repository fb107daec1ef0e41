import json
import os
import subprocess
from pathlib import Path

import pytest

from agentcli.features.batch.tasks import BadLine, Task, read_tasks
from agentcli.features.batch.trees import TaskTrees
from agentcli.types.errors import UsageError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / ".cache"))


def file_of(tmp_path: Path, *lines: str | bytes) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(b"\n".join(it if isinstance(it, bytes) else it.encode() for it in lines))
    return path


def test_line_is_a_task_with_its_options(tmp_path: Path) -> None:
    line = (
        '{"id": "a", "prompt": "go", "mode": "auto", "max_cost": 0.5, "max_turns": 3,'
        ' "allow": ["edit", "bash(ls:*)"], "verify": "pytest -q"}'
    )
    assert read_tasks(file_of(tmp_path, f"\ufeff{line}", "", '{"prompt": "go on"}\r')).tasks == (
        Task(
            id="a",
            prompt="go",
            options=(
                "--mode=auto",
                "--max-turns=3",
                "--max-cost=0.5",
                "--allow=edit",
                "--allow=bash(ls:*)",
                "--verify=pytest -q",
            ),
        ),
        Task(id="task-3", prompt="go on"),
    )


def test_task_can_have_a_workspace_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (task,) = read_tasks(file_of(tmp_path, '{"prompt": "go", "workspace": "other"}')).tasks
    assert task.workspace == tmp_path / "other"
    assert task.fingerprint != Task(id="task-1", prompt="go").fingerprint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"prompt": "x", "workspace": 7}', "workspace must be a directory, not 7"),
        ('{"prompt": "x", "workspace": "none"}', "cannot open the workspace"),
        ('{"prompt": "x", "workspace": "tasks.jsonl"}', "the workspace "),
        (b"\xff\xfe", "not JSON: 'utf-8' codec can't decode byte 0xff in position 0"),
        ("[" * 100_000, "not JSON: "),
        ("7", "not a JSON object"),
        ("{}", "no prompt"),
        ('{"prompt": " "}', "no prompt"),
        ('{"prompt": 7}', "no prompt"),
        (
            '{"prompt": "x", "colour": 1}',
            "unknown field 'colour'; the fields are id, prompt, workspace",
        ),
        ('{"prompt": "x", "id": "../up"}', "'../up' is not an id: use up to 100 letters, digits"),
        ('{"prompt": "x", "id": 5}', "5 is not an id"),
        ('{"prompt": "x", "id": "Good"}', "another task has the id good, and Good differs"),
        ('{"prompt": "x", "max_cost": true}', "max_cost must be a string or a number, not true"),
        *(
            (
                f'{{"prompt": "x", "max_cost": {given}}}',
                f"max_cost must be a number above 0, not {it}",
            )
            for given, it in (
                ("0", "'0'"),
                ("-1", "'-1'"),
                ('"abc"', "'abc'"),
                ("NaN", "'nan'"),
                ("1e999", "'inf'"),
            )
        ),
        ('{"prompt": "x", "timeout": "soon"}', "timeout must be a time above 0, like 90s"),
        ('{"prompt": "x", "tool_timeout": -5}', "tool_timeout must be a time above 0"),
        ('{"prompt": "x", "max_turns": 1.5}', "max_turns must be a whole number above 0"),
        ('{"prompt": "x", "max_tokens": "x"}', "max_tokens must be a whole number above 0"),
        ('{"prompt": "x", "mode": "fast"}', "mode must be one of plan, ask, auto-edit, auto"),
        ('{"prompt": "x", "model": " "}', "model must be a string, not ' '"),
        (
            '{"prompt": "x", "on_deny": 3}',
            "on_deny must be one of fail, continue, ignore, not '3'",
        ),
        (
            '{"prompt": "x", "model": "a\\u0000"}',
            r"model has a character that is not text: 'a\x00'",
        ),
        ('{"prompt": "x", "verify": "\\ud800"}', "verify has a character that is not text"),
        ('{"prompt": "x", "workspace": "\\ud800"}', "workspace has a character that is not text"),
        (
            json.dumps({"prompt": "x", "allow": ["bash(ls)"] * 10_000}),
            "the options are longer than 100,000 bytes in all",
        ),
        ('{"prompt": "x", "allow": [1]}', "allow must be a string or a list of strings, not [1]"),
        (
            '{"prompt": "x", "verify": {"a": 1}}',
            'verify must be a string or a list of strings, not {"a": 1}',
        ),
    ],
)
def test_wrong_line_costs_its_own_task_alone(
    line: str | bytes, message: str, tmp_path: Path
) -> None:
    file = read_tasks(file_of(tmp_path, '{"id": "good", "prompt": "x"}', line))
    assert file.tasks == (Task(id="good", prompt="x"),)
    (bad,) = file.bad
    assert bad == BadLine(number=2, message=bad.message)
    assert bad.message.startswith(message)


def test_file_without_a_task_is_an_error(tmp_path: Path) -> None:
    for path in (file_of(tmp_path, "", " "), tmp_path / "none", tmp_path):
        with pytest.raises(UsageError):
            read_tasks(path)


def git(cwd: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    return subprocess.run(
        ["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True, text=True
    ).stdout


def repository(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "sub" / "a.txt").write_text("one\n")
    git(work, "init", "--quiet")
    git(work, "add", ".")
    git(work, "commit", "--quiet", "--message", "one")
    return work


def test_tree_is_a_worktree_of_the_commit(tmp_path: Path) -> None:
    work = repository(tmp_path)
    trees = TaskTrees(work / "sub", out=tmp_path / "out")
    assert not trees.lacks_changes
    (work / "sub" / "a.txt").write_text("two\n")
    assert trees.lacks_changes
    for _ in range(2):  # the second time in the place of the first
        tree = trees.make("a")
        assert [path.name for path in tree.iterdir()] == ["a.txt"]
        assert (tree / "a.txt").read_text() == "one\n"
        (tree / "a.txt").write_text("three\n")
        (tree / "new").touch()
    assert (work / "sub" / "a.txt").read_text() == "two\n"
    trees.remove("a")
    assert (tree.exists(), git(work, "worktree", "list").count("\n")) == (False, 1)


def test_tree_without_git_is_a_copy_without_what_the_batch_writes(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "out").mkdir(parents=True)
    (work / "a.txt").write_text("one\n")
    (work / "link").symlink_to("nowhere")
    os.mkfifo(work / "pipe")
    trees = TaskTrees(work, out=work / "out")
    tree = trees.make("a")
    assert sorted(path.name for path in tree.iterdir()) == ["a.txt", "link"]
    (tree / "a.txt").write_text("two\n")
    assert (trees.commit, trees.lacks_changes) == ("", False)
    assert (work / "a.txt").read_text() == "one\n"
    trees.remove("a")
    assert not tree.exists()


def test_directory_that_the_commit_does_not_have_is_copied(tmp_path: Path) -> None:
    work = repository(tmp_path)
    (work / "new").mkdir()
    (work / "new" / "b.txt").touch()
    tree = TaskTrees(work / "new", out=tmp_path / "out").make("a")
    assert [path.name for path in tree.iterdir()] == ["b.txt"]


def test_packed_commit_makes_the_same_trees_elsewhere(tmp_path: Path) -> None:
    work = repository(tmp_path)
    (work / "sub" / "a.txt").write_text("two\n")
    git(work, "commit", "--quiet", "--all", "--message", "two")
    commit = git(work, "rev-parse", "HEAD").strip()
    clone = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{work}", str(clone))
    for source, history in ((work, 2), (clone, 1)):
        packed = TaskTrees(source / "sub", out=tmp_path / "out").pack()
        node = tmp_path / "nodes" / packed.key
        packed.unpack(node)
        trees = TaskTrees(node / packed.subdirectory, out=node)
        assert trees.commit == commit
        tree = trees.make("a")
        assert (tree / "a.txt").read_text() == "two\n"
        assert git(tree, "log", "--format=%H").count("\n") == history
        assert git(tree, "status", "--porcelain") == ""
        (tree / "a.txt").write_text("three\n")
        git(tree, "commit", "--quiet", "--all", "--message", "three")


def test_packed_directory_keeps_its_links_and_leaves_out_pipes(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "out").mkdir(parents=True)
    (work / "a.txt").write_text("one\n")
    (work / "link").symlink_to("/nowhere")
    os.mkfifo(work / "pipe")
    packed = TaskTrees(work, out=work / "out").pack()
    packed.unpack(tmp_path / "node")
    tree = TaskTrees(tmp_path / "node" / packed.subdirectory, out=tmp_path / "node-out").make("a")
    assert {path.name: path.is_symlink() for path in tree.iterdir()} == {
        "a.txt": False,
        "link": True,
    }
