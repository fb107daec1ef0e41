import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import Ran, agentcli, script

EDIT = {"edit_file": {"path": "a.txt", "old_text": "two", "new_text": "2"}}
COMMAND = {
    "bash": {
        "command": "echo three >> a.txt; rm old.txt; mkdir -p new/__pycache__;"
        " printf 'x\\ny\\n' > new/b.txt; printf '\\0' > new/__pycache__/m.pyc;"
        " touch new/top.o; echo gone > gone.txt; chmod +x run.sh"
    }
}
UNDONE = {"bash": {"command": "rm gone.txt"}}
CHANGED = [
    {"path": "a.txt", "added": 2, "removed": 1},
    {"path": "new/b.txt", "added": 2, "removed": 0},
    {"path": "old.txt", "added": 0, "removed": 1},
    {"path": "run.sh", "added": 0, "removed": 0},
]


@pytest.fixture
def workspace(workspace: Path) -> Path:
    (workspace / "a.txt").write_text("one\ntwo\n")
    (workspace / "old.txt").write_text("old\n")
    (workspace / "run.sh").write_text("echo\n")
    (workspace / ".gitignore").write_text("*.o\n")
    return workspace


def run(home: Path, workspace: Path, *calls: dict[str, Any], options: tuple[Any, ...] = ()) -> Ran:
    model = script(home / "s.json", [*({"calls": [call]} for call in calls), "Done."])
    return agentcli(
        *("run", "-C", workspace, "--mode", "auto", "--sandbox", "off", "--model", model),
        *("-o", "json", *options, "go"),
        home=home,
    )


READ = {"read_file": {"path": "a.txt"}}


def test_result_names_what_commands_changed(home: Path, workspace: Path) -> None:
    (result,) = run(home, workspace, READ, EDIT, COMMAND, UNDONE).events
    assert result["files_changed"] == CHANGED


def test_result_and_patch_of_a_run_agree(home: Path, workspace: Path, tmp_path: Path) -> None:
    before, patch, out = tmp_path / "before", tmp_path / "p.diff", tmp_path / "out"
    shutil.copytree(workspace, before)
    options = ("--patch", patch, "--output-dir", out)
    (result,) = run(home, workspace, READ, EDIT, COMMAND, UNDONE, options=options).events
    assert result["files_changed"] == CHANGED
    assert json.loads((out / "result.json").read_text())["files_changed"] == CHANGED
    named = [line.split(" b/")[1] for line in patch.read_text().splitlines() if " b/" in line[5:]]
    assert [one for one in named if one] == [each["path"] for each in CHANGED]
    assert (out / "patch.diff").read_text() == patch.read_text()
    subprocess.run(["git", "apply", patch], cwd=before, check=True)
    assert (before / "a.txt").read_text() == (workspace / "a.txt").read_text()
    assert (before / "run.sh").stat().st_mode & 0o100


def test_changes_stay_known_where_no_state_can_be_kept(home: Path, workspace: Path) -> None:
    state = home / ".local/state/agentcli"
    state.mkdir(parents=True)
    (state / "checkpoints").write_text("not a directory")
    ran = run(home, workspace, READ, EDIT)
    assert ran.events[0]["files_changed"] == [{"path": "a.txt", "added": 1, "removed": 1}]
    assert "1 file changed, +1 -1\n" in ran.err  # and no offer to undo it
    refused = run(home, workspace, READ, EDIT, options=("--patch", home / "p.diff"))
    assert refused.code == 3
    assert "cannot keep the workspace's state" in refused.events[0]["error"]["message"]


def test_resumed_run_names_only_its_own_changes(home: Path, workspace: Path) -> None:
    run(home, workspace, COMMAND)
    more = {"bash": {"command": "echo more > more.txt"}}
    (result,) = run(home, workspace, more, options=("--continue",)).events
    assert result["files_changed"] == [{"path": "more.txt", "added": 1, "removed": 0}]


SAME = {"write_file": {"path": "a.txt", "content": "one\ntwo\n"}}
EMPTY = {"write_file": {"path": "empty.txt", "content": ""}}


def test_file_that_is_written_as_it_was_is_not_changed(home: Path, workspace: Path) -> None:
    (result,) = run(home, workspace, READ, SAME).events
    assert (result["files_changed"], result["verification"]) == ([], None)
    assert result["turns"] == 3  # the model is not asked to check anything


def test_new_file_without_lines_is_a_change(home: Path, workspace: Path) -> None:
    (result,) = run(home, workspace, EMPTY).events
    assert result["files_changed"] == [{"path": "empty.txt", "added": 0, "removed": 0}]
    assert result["verification"] is not None


def test_all_reports_of_a_session_name_the_same_changes(home: Path, workspace: Path) -> None:
    run(home, workspace, READ, EDIT, COMMAND, UNDONE)
    expected = {one["path"]: [one["added"], one["removed"]] for one in CHANGED}
    exported = json.loads(agentcli("export", "--format", "json", home=home, cwd=workspace).out)
    shown = json.loads(agentcli("sessions", "show", "--json", home=home, cwd=workspace).out)
    assert exported["changed"] == shown["changed"] == expected
    listed = agentcli("sessions", "show", home=home, cwd=workspace).out
    assert "  changed    old.txt +0 -1\n" in listed
    document = agentcli("export", home=home, cwd=workspace).out
    assert "a.txt +2 −1, new/b.txt +2 −0, old.txt +0 −1, run.sh +0 −0" in document
    assert agentcli("undo", home=home, cwd=workspace).code == 0
    after = json.loads(agentcli("export", "--format", "json", home=home, cwd=workspace).out)
    assert "gone.txt" in after["changed"]  # the last change alone is undone


def test_reports_fall_back_to_what_tools_said_where_the_states_are_deleted(
    home: Path, workspace: Path
) -> None:
    run(home, workspace, READ, EDIT, COMMAND)
    shutil.rmtree(home / ".local/state/agentcli/checkpoints")
    exported = json.loads(agentcli("export", "--format", "json", home=home, cwd=workspace).out)
    assert exported["changed"] == {"a.txt": [1, 1]}
    listed = agentcli("sessions", "show", home=home, cwd=workspace).out
    assert "  changed    a.txt +1 -1\n" in listed
    assert "  changed    old.txt\n" in listed


def test_result_names_what_the_patch_does_not_reproduce(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    outside, out = tmp_path / "outside", tmp_path / "out"
    outside.mkdir()
    calls = (
        {"write_file": {"path": "x.env", "content": "TEST_PASSWORD=hunter2xyz9\n"}},
        {"bash": {"command": f"head -c 8000001 /dev/zero > big; echo > {outside}/o; echo > ok"}},
    )
    options = ("--output-dir", out, "--add-dir", outside)
    (result,) = run(home, workspace, *calls, options=options).events
    assert result["not_in_patch"] == [
        {"path": "big", "reason": "too large or unreadable"},
        {"path": "x.env", "reason": "tokens stand for hidden values"},
        {"path": f"{outside}/o", "reason": "outside the workspace"},
    ]
    assert json.loads((out / "result.json").read_text())["not_in_patch"] == result["not_in_patch"]


KEY = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    "content",
    [
        b"caf\xe9 " + KEY.encode() + b"\n",
        b"\0\xe9 " + KEY.encode(),
        f"key {KEY}\n".encode("utf-16"),
    ],
)
@pytest.mark.parametrize("besides", ["", "; rm a.txt; ln -s k a.txt"])
def test_patch_holds_no_hidden_value_in_another_encoding(
    home: Path, workspace: Path, tmp_path: Path, content: bytes, besides: str
) -> None:
    out, octal = tmp_path / "out", "".join(f"\\{byte:03o}" for byte in content)
    call = {"bash": {"command": f"printf '{octal}' > k{besides}"}}
    (result,) = run(home, workspace, call, options=("--output-dir", out)).events
    why = "it has hidden values, and is not UTF-8"
    assert result["not_in_patch"] == [{"path": "k", "reason": why}]
    patch = (out / "patch.diff").read_text()
    assert f"# not in this patch, {why}: k\n" in patch
    assert "GIT binary patch" not in patch


def test_patch_has_other_files_in_any_encoding(home: Path, workspace: Path, tmp_path: Path) -> None:
    before, patch = tmp_path / "before", tmp_path / "p.diff"
    shutil.copytree(workspace, before)
    call = {"bash": {"command": "printf 'caf\\351\\n' > k; printf '\\0x' > z"}}
    (result,) = run(home, workspace, call, options=("--patch", patch)).events
    assert result["not_in_patch"] == []
    subprocess.run(["git", "apply", patch], cwd=before, check=True)
    assert ((before / "k").read_bytes(), (before / "z").read_bytes()) == (b"caf\xe9\n", b"\0x")


def test_result_of_a_workspace_that_is_too_large_says_that_the_patch_may_lack_all(
    home: Path, workspace: Path, tmp_path: Path
) -> None:
    for number in range(64):
        with (workspace / f"large-{number}").open("wb") as file:
            file.truncate(7_990_000)
    options = ("--output-dir", tmp_path / "out")
    (result,) = run(home, workspace, {"bash": {"command": "echo > new"}}, options=options).events
    (lacking,) = result["not_in_patch"]
    assert (
        lacking["path"] == "." and "it has more new content than may be kept" in lacking["reason"]
    )
