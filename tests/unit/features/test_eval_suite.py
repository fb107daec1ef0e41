import os
from collections import Counter
from pathlib import Path

import pytest

from agentcli.features.eval.suite import (
    SHIPPED,
    find_suite,
    list_files,
    read_suite,
    write_files,
)
from agentcli.types.errors import UsageError

TASK = 'prompt = "go"\ncheck = "true"\n'


def suite(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)
    return tmp_path


def test_our_suite_has_thirty_tasks_in_five_languages_with_two_solutions_each() -> None:
    read = read_suite(SHIPPED / "basics")
    assert read.invalid == {}
    names = Counter(path.stem.partition("-")[0] for path in (SHIPPED / "basics").glob("*.toml"))
    assert names == {"py": 8, "sh": 6, "js": 6, "c": 5, "pl": 5}
    for task in read.tasks:
        assert task.language and task.needs, task.id
        assert list_files(task.hidden) and list_files(task.solution), task.id
        assert list_files(task.wrong) != list_files(task.solution), task.id
        begins_with = list_files(task.tree)
        assert not begins_with.keys() & list_files(task.hidden).keys(), task.id


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prompt = ", "not TOML: "),
        ('check = "true"', "prompt: it is missing"),
        ('prompt = "x"\ncheck = " "', "check: String should match pattern"),
        (TASK + "budget = 7", "budget: there is no such field"),
        (TASK + "timeout_s = -1", "timeout_s: Input should be greater than 0"),
        (TASK + '[tree]\n"../up" = "x"', "tree: '../up' is not a path below"),
        (TASK + '[tree]\n"/etc/x" = "x"', "'/etc/x' is not a path below"),
        (TASK + 'tree = "none"', "there is no folder"),
        (TASK + 'repository = "none"', "there is no repository"),
        ("\udcff", "not TOML: "),
    ],
)
def test_wrong_file_costs_its_own_task_alone(text: str, message: str, tmp_path: Path) -> None:
    suite(tmp_path, good=TASK)
    (tmp_path / "bad.toml").write_text(text, errors="surrogateescape")
    read = read_suite(tmp_path)
    assert [task.id for task in read.tasks] == ["good"]
    assert message in read.invalid["bad"]


def test_task_without_its_program_is_skipped_with_the_reason(tmp_path: Path) -> None:
    suite(tmp_path, a=TASK, b=TASK + 'needs = ["sh", "no-such-program"]')
    read = read_suite(tmp_path)
    assert read.skipped == {"b": "needs no-such-program, which is not installed"}
    assert [task.id for task in read.tasks] == ["a"]


def test_files_may_be_folders_and_a_changed_file_is_another_task(tmp_path: Path) -> None:
    folder = tmp_path / "a/tree/sub"
    folder.mkdir(parents=True)
    (folder / "x.txt").write_text("one")
    suite(tmp_path, a=TASK + 'tree = "a/tree"')
    (task,) = read_suite(tmp_path).tasks
    write_files(task.tree, tmp_path / "out")
    assert (tmp_path / "out/sub/x.txt").read_text() == "one"
    assert list_files(task.tree) == {"sub/x.txt": "one"}
    (folder / "x.txt").write_text("two")
    (changed,) = read_suite(tmp_path).tasks
    assert changed.fingerprint != task.fingerprint


def test_file_that_is_no_regular_one_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "gone.toml").symlink_to("nowhere")
    assert read_suite(tmp_path).invalid == {
        "gone": "cannot read gone.toml: No such file or directory",
        "pipe": "it is not a regular file",
    }


def test_suite_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no suite basic"):
        find_suite("basic")
    with pytest.raises(UsageError, match="has no tasks"):
        read_suite(tmp_path)
    with pytest.raises(UsageError, match="has no task b"):
        read_suite(suite(tmp_path, a=TASK), only=["b"])
    assert find_suite("basics") == SHIPPED / "basics"
    assert find_suite(str(tmp_path)) == tmp_path.resolve()
