import shutil
from pathlib import Path
from typing import Any

import pytest

from agentcli.log.audit import audit_log
from agentcli.log.checkpoint.keep import find_store
from tests.support.program import Ran, agentcli, script, session_log

pytestmark = pytest.mark.usefixtures("verified_logs", "without_sandbox")

READ_THEN_EDIT: list[Any] = [
    {"calls": [{"read_file": {"path": "a.txt"}}, {"bash": {"command": "touch ran"}}]},
    {"calls": [{"edit_file": {"path": "a.txt", "old_text": "one", "new_text": "1"}}]},
    "Made it 1.",
]
EDIT_OTHERWISE: list[Any] = [
    {"calls": [{"edit_file": {"path": "a.txt", "old_text": "two", "new_text": "2"}}]},
    "Made it 2.",
]


@pytest.fixture
def workspace(tmp_path: Path, workspace: Path) -> Path:
    (workspace / "a.txt").write_text("one\ntwo\n")
    model = script(tmp_path / "first.json", READ_THEN_EDIT)
    ran = agentcli("run", "-C", workspace, "--mode", "auto", "--model", model, "go", home=tmp_path)
    assert ran.code == 0, ran.err
    return workspace


def _model(home: Path) -> tuple[str, str]:
    return "--model", script(home / "other.json", EDIT_OTHERWISE)


def fork(home: Path, *arguments: str | Path) -> Ran:
    origin = min(home.glob(".local/state/agentcli/sessions/*")).name
    return agentcli("fork", origin, *arguments, *_model(home), home=home)


def forked_log(home: Path) -> Path:
    return _by_time(home)[-1]


def origin_log(home: Path) -> Path:
    return _by_time(home)[0]


def _by_time(home: Path) -> list[Path]:
    """Not by their names, which two of one second have in any order."""
    logs = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    return sorted(logs, key=lambda log: log.stat().st_mtime_ns)


def test_fork_before_a_turn_begins_with_the_tree_of_that_time(
    tmp_path: Path, workspace: Path
) -> None:
    ran = fork(tmp_path, "--at", "1")
    assert ran.code == 0, ran.err
    assert "Made it 1." in ran.out
    assert "Made it 2." in ran.out
    assert "-1\n-two\n+one\n+2\n" in ran.out
    assert "only in the first: ran" in ran.out
    assert (workspace / "a.txt").read_text() == "1\ntwo\n"
    assert audit_log(forked_log(tmp_path)).status == "intact"
    assert audit_log(origin_log(tmp_path)).status == "intact"


def test_fork_before_a_call_runs_it_again_under_other_rules(
    tmp_path: Path, workspace: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ndecision = "deny"\nrule = "edit_file"\n')
    ran = fork(tmp_path, "--at", "call_2_1", "--policy", rules)
    assert "1, 0 failed, 0 denied               2, 0 failed, 2 denied" in ran.out
    assert audit_log(forked_log(tmp_path)).status == "intact"


def test_fork_with_another_result_never_runs_the_call(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "result.txt").write_text("it said this instead")
    ran = fork(tmp_path, "--at", "call_1_2", "--result-file", tmp_path / "result.txt")
    assert ran.code == 0, ran.err
    assert "only in the first: ran" in ran.out
    log = forked_log(tmp_path)
    assert "it said this instead" in log.read_text()
    assert audit_log(log).status == "intact"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--at", "9"], "no turn 9: the session has 1"),
        (["--at", "call_1_3"], "no call 'call_1_3' in this session. Did you mean"),
        (["--at", "1", "--result-file", "/dev/null"], "--result-file needs a call"),
        (["--at", "1", "--result-file", "/none"], "cannot read /none"),
    ],
)
def test_fork_that_makes_no_sense_is_refused(
    tmp_path: Path, workspace: Path, arguments: list[str], complaint: str
) -> None:
    ran = fork(tmp_path, *arguments)
    assert ran.code in (2, 3)
    assert complaint in ran.err
    assert session_log(tmp_path).exists()


def test_fork_without_its_workspace_names_it_and_leaves_no_session(
    tmp_path: Path, workspace: Path
) -> None:
    workspace.rename(workspace.with_name("moved"))
    ran = fork(tmp_path, "--at", "1")
    assert (ran.code, ran.err) == (
        3,
        f"error: the workspace {workspace} no longer exists\n"
        f"  fix: put it back: ls -la {workspace.parent}\n",
    )
    assert session_log(tmp_path).exists()
    assert not list(tmp_path.rglob("agentcli-forks/*"))


def test_table_names_what_commands_changed(tmp_path: Path, workspace: Path) -> None:
    ran = fork(tmp_path, "--at", "1")
    row = next(line for line in ran.out.splitlines() if line.startswith("changed"))
    assert row.split(maxsplit=1)[1] == "a.txt +1 -1, ran +0 -0              a.txt +1 -1"


def test_undo_in_a_fork_leaves_what_its_origin_changed(tmp_path: Path, workspace: Path) -> None:
    assert fork(tmp_path, "--at", "call_2_1").code == 0
    origin, copy = (log.parent.name for log in _by_time(tmp_path))
    tree = tmp_path / ".local/state/agentcli-forks" / copy
    refused = agentcli("undo", copy, "1", home=tmp_path)
    assert (refused.code, refused.out) == (2, "")
    assert f"change 1 was made by session {origin}" in refused.err
    assert f"fix: agentcli undo {origin} 1\n" in refused.err
    assert f"(by session {origin})" in agentcli("undo", copy, "--list", home=tmp_path).out
    undone = agentcli("undo", copy, "--turn", "1", home=tmp_path)
    assert (undone.code, undone.out.splitlines()) == (
        0,
        [
            "Undid changes 3 (edit_file), 2 (edit_file)",
            "  a.txt: reverted",
            f"Session {origin} made this before the fork, so it stays: bash touch ran",
        ],
    )
    assert agentcli("undo", copy, home=tmp_path).out.splitlines() == [
        "Nothing to undo.",
        f"Session {origin} made this before the fork, so it stays: bash touch ran",
    ]
    assert (tree / "a.txt").read_text() == "one\ntwo\n"
    assert (workspace / "a.txt").read_text() == "1\ntwo\n"
    for where in (tree, workspace):
        assert (where / "ran").exists()
    assert agentcli("undo", origin, "1", home=tmp_path).code == 0
    assert not (workspace / "ran").exists()


def test_fork_does_not_redo_what_was_undone_in_its_origin(tmp_path: Path, workspace: Path) -> None:
    assert agentcli("undo", "-C", workspace, home=tmp_path).code == 0
    assert fork(tmp_path, "go on").code == 0
    copy = forked_log(tmp_path).parent.name
    ran = agentcli("undo", copy, "--redo", home=tmp_path)
    assert (ran.code, ran.out) == (0, "Nothing to redo.\n")
    assert (workspace / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("options", [[], ["--stub-tools"]])
def test_fork_is_replayed_with_the_states_of_its_origin(
    tmp_path: Path, workspace: Path, options: list[str]
) -> None:
    assert fork(tmp_path, "--at", "call_2_1").code == 0
    copy = forked_log(tmp_path).parent.name
    assert agentcli("undo", copy, home=tmp_path).code == 0
    ran = agentcli("replay", copy, *options, home=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{copy}: same (4 ")


@pytest.mark.parametrize("arguments", [("--at", "call_2_1"), ()])
def test_fork_is_replayed_after_its_origin_was_deleted(
    tmp_path: Path, workspace: Path, arguments: tuple[str, ...]
) -> None:
    origin = origin_log(tmp_path).parent.name
    assert agentcli("fork", origin, *arguments, *_model(tmp_path), home=tmp_path).code == 0
    copy = forked_log(tmp_path).parent.name
    assert agentcli("sessions", "delete", origin, "--yes", home=tmp_path).code == 0
    ran = agentcli("replay", copy, home=tmp_path)
    assert (ran.code, ran.err) == (0, "")
    assert agentcli("sessions", "delete", copy, "--yes", home=tmp_path).code == 0
    assert not list(tmp_path.glob(".local/state/agentcli/checkpoints/*"))


def test_fork_without_the_states_of_its_origin_says_that_it_was_deleted(
    tmp_path: Path, workspace: Path
) -> None:
    origin = origin_log(tmp_path).parent.name
    assert fork(tmp_path, "--at", "call_2_1").code == 0
    copy = forked_log(tmp_path).parent.name
    store = find_store(workspace, origin_log(tmp_path).parents[1])
    shutil.rmtree(store.directory / "refs/agentcli" / copy)  # as in a fork of an older version
    assert agentcli("sessions", "delete", origin, "--yes", home=tmp_path).code == 0
    ran = agentcli("replay", copy, home=tmp_path)
    assert (ran.code, ran.err) == (
        3,
        f"error: the session {origin} that it was forked from was deleted, and with it the files "
        "that it had stored\n  fix: use a copy of the files: --base DIR\n",
    )


def test_fork_of_a_fork_begins_with_the_tree_of_the_first(tmp_path: Path, workspace: Path) -> None:
    assert fork(tmp_path, "--at", "call_2_1").code == 0
    copy = forked_log(tmp_path).parent.name
    model = script(tmp_path / "last.json", ["Nothing to do."])
    ran = agentcli("fork", copy, "--at", "1", "--model", model, home=tmp_path)
    assert ran.code == 0, ran.err
    tree = tmp_path / ".local/state/agentcli-forks" / forked_log(tmp_path).parent.name
    assert (tree / "a.txt").read_text() == "one\ntwo\n"
    assert not (tree / "ran").exists()
