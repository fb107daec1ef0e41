import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.history import build_messages
from agentcli.log.audit import audit_log
from agentcli.log.reader import read_log
from agentcli.types.messages import UserMessage
from tests.support.program import (
    agentcli,
    environment,
    script,
    session_log,
    write_script_command,
)

LIMITED = Path(__file__).parents[1] / "support/limited.py"


@pytest.fixture
def workspace(workspace: Path) -> Path:
    (workspace / "a.txt").write_text("one\ntwo\nthree\n")
    return workspace


def run(home: Path, workspace: Path, *calls: dict[str, Any], options: Sequence[str] = ()) -> None:
    model = script(home / "s.json", [*({"calls": [call]} for call in calls), "Done."])
    ran = agentcli(
        "run",
        "-C",
        workspace,
        "--mode",
        "auto",
        "--sandbox",
        "off",
        "--model",
        model,
        *options,
        "go",
        home=home,
    )
    assert ran.code == 0, ran.err


def files(workspace: Path) -> dict[str, str]:
    return {
        str(path.relative_to(workspace)): path.read_text()
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and ".git" not in path.parts
    }


READ = {"read_file": {"path": "a.txt"}}
EDIT = {"edit_file": {"path": "a.txt", "old_text": "two", "new_text": "2"}}
WRITE = {"write_file": {"path": "new/b.txt", "content": "b\n"}}
BASH = {"bash": {"command": "mv a.txt c.txt; echo x > d; chmod 600 c.txt"}}


def test_undo_takes_back_the_latest_call_then_the_one_before(home: Path, workspace: Path) -> None:
    before = files(workspace)
    run(home, workspace, READ, EDIT, WRITE, BASH)
    after = files(workspace)
    assert after == {"c.txt": "one\n2\nthree\n", "d": "x\n", "new/b.txt": "b\n"}
    undone = agentcli("undo", "-C", workspace, home=home)
    assert undone.code == 0
    first, *_, last = undone.out.splitlines()
    assert first == f"Undid bash {BASH['bash']['command']}"
    assert last == "2 more to undo (next: new, new/b.txt)"
    assert files(workspace) == {"a.txt": "one\n2\nthree\n", "new/b.txt": "b\n"}
    assert agentcli("undo", "-C", workspace, "--turn", "1", home=home).code == 0
    assert files(workspace) == before
    assert not (workspace / "new").exists()
    for _ in range(2):
        assert agentcli("undo", "-C", workspace, "--redo", home=home).code == 0
    assert files(workspace) == after
    assert audit_log(session_log(home)).status == "intact"


def test_session_with_an_undo_in_it_replays_as_it_was(home: Path, workspace: Path) -> None:
    run(home, workspace, READ, EDIT)
    assert agentcli("undo", "-C", workspace, home=home).code == 0
    run(home, workspace, READ, EDIT, options=["--continue"])
    assert agentcli("undo", "-C", workspace, home=home).code == 0
    ran = agentcli("replay", "--check", session_log(home).parent.name, home=home)
    assert (ran.code, ran.out.splitlines()[0].partition(": ")[2]) == (0, "same (4 same)")


def test_undo_of_one_call_leaves_later_ones_and_the_persons_edits(
    home: Path, workspace: Path
) -> None:
    run(home, workspace, READ, EDIT, WRITE)
    (workspace / "a.txt").write_text("one\n2\nthree\nfour, by the person\n")
    assert agentcli("undo", session_log(home).parent, "1", home=home).code == 0
    assert files(workspace) == {
        "a.txt": "one\ntwo\nthree\nfour, by the person\n",
        "new/b.txt": "b\n",
    }


def test_conflict_stays_as_the_person_has_it_and_nothing_is_lost(
    home: Path, workspace: Path
) -> None:
    run(home, workspace, READ, EDIT)
    (workspace / "a.txt").write_text("one\nzwei\nthree\n")
    undone = agentcli("undo", "-C", workspace, home=home)
    assert undone.code == 7
    assert undone.out.startswith("Could not undo edit_file a.txt\n")
    assert "CONFLICT a.txt: the same lines were changed since then" in undone.out
    assert files(workspace) == {"a.txt": "one\nzwei\nthree\n"}
    saved = session_log(home).parent / "conflicts" / "undo-1" / "1-a.txt"
    assert saved.read_text() == "one\ntwo\nthree\n"


def undo_on_full_disk(home: Path, *arguments: str | Path) -> tuple[int, str]:
    """With no space for a file of more than 100 KB. The exit code and what was said."""
    ran = subprocess.run(
        [*write_script_command(LIMITED), "100000", "undo", *arguments],
        env=environment(home),
        capture_output=True,
        text=True,
    )
    return ran.returncode, ran.stdout


LARGE = "a line\n" * 30_000


def test_undo_that_the_disk_did_not_take_can_be_done_again(home: Path, workspace: Path) -> None:
    (workspace / "a.txt").write_text(LARGE)
    run(home, workspace, {"bash": {"command": "echo x > a.txt"}})
    log = session_log(home).read_bytes()
    for _ in range(2):
        code, said = undo_on_full_disk(home, "-C", workspace)
        assert code == 7
        assert said.splitlines() == [
            "Could not undo bash echo x > a.txt",
            "  CONFLICT a.txt: could not be written: file too large",
            "  bash echo x > a.txt can be undone again when that is fixed",
            "1 more to undo (next: a.txt)",
        ]
        assert (files(workspace), session_log(home).read_bytes()) == ({"a.txt": "x\n"}, log)
    undone = agentcli("undo", "-C", workspace, home=home)
    assert (undone.code, files(workspace)) == (0, {"a.txt": LARGE})
    assert agentcli("undo", "-C", workspace, home=home).out == "Nothing to undo.\n"


def test_undo_of_several_calls_that_the_disk_did_not_take_goes_on_where_it_was(
    home: Path, workspace: Path
) -> None:
    (workspace / "a.txt").write_text(LARGE)
    (workspace / "b.txt").write_text("one\ntwo\n")
    before = files(workspace)
    commands = (
        "echo 1 > a.txt; echo 1 > b.txt",  # undone together with the next
        "echo 2 > a.txt; echo 2 > b.txt; echo 2 > new",
        "echo 3 > other",
    )
    run(home, workspace, *({"bash": {"command": command}} for command in commands))
    after = files(workspace)
    code, said = undo_on_full_disk(home, "-C", workspace, "--turn", "1")
    assert code == 7
    assert "  CONFLICT a.txt: could not be written: file too large\n" in said
    assert "  changes 2 (bash), 1 (bash) can be undone again when that is fixed\n" in said
    assert files(workspace) == {"a.txt": "2\n", "b.txt": "one\ntwo\n"}
    last = build_messages(entry.fact for entry in read_log(session_log(home)).entries)[-1]
    assert "Left unchanged, because they could not be written: a.txt." in str(last)
    undone = agentcli("undo", "-C", workspace, "--turn", "1", home=home)
    assert (undone.code, "CONFLICT" in undone.out, files(workspace)) == (0, False, before)
    assert undo_on_full_disk(home, "-C", workspace, "--redo")[0] == 0
    assert files(workspace) == before | {"a.txt": "2\n"}
    assert agentcli("undo", "-C", workspace, "--redo", home=home).code == 0
    assert files(workspace) == after
    assert agentcli("undo", "-C", workspace, "--redo", home=home).out == "Nothing to redo.\n"
    assert agentcli("undo", "-C", workspace, "--turn", "1", home=home).code == 0
    assert files(workspace) == before
    assert audit_log(session_log(home)).status == "intact"


def test_redo_that_the_disk_did_not_take_can_be_done_again(home: Path, workspace: Path) -> None:
    (workspace / "a.txt").write_text("x\n")
    run(home, workspace, {"bash": {"command": "yes 'a line' | head -30000 > a.txt"}})
    assert agentcli("undo", "-C", workspace, home=home).code == 0
    code, said = undo_on_full_disk(home, "-C", workspace, "--redo")
    assert (code, files(workspace)) == (7, {"a.txt": "x\n"})
    assert "can be redone again when that is fixed\n" in said
    assert agentcli("undo", "-C", workspace, "--redo", home=home).code == 0
    assert files(workspace) == {"a.txt": LARGE}


def test_dry_run_and_list_change_nothing(home: Path, workspace: Path) -> None:
    run(home, workspace, WRITE)
    log, found = session_log(home).read_bytes(), files(workspace)
    rehearsed = agentcli("undo", "-C", workspace, "--dry-run", home=home)
    assert rehearsed.out.splitlines() == [
        "Would undo write_file new/b.txt",
        "  new: removed",
        "  new/b.txt: removed",
    ]
    listed = agentcli("undo", "-C", workspace, "--list", home=home)
    session, change, paths = listed.out.splitlines()
    assert session == f"session {session_log(home).parent.name}"
    assert re.fullmatch(r"   1  \d\d:\d\d  turn 1  write_file new/b.txt", change)
    assert paths == "      new, new/b.txt"
    assert (session_log(home).read_bytes(), files(workspace)) == (log, found)


def test_dry_run_shows_every_path(home: Path, workspace: Path) -> None:
    run(home, workspace, {"bash": {"command": "touch $(seq 100)"}})
    lines = agentcli("undo", "-C", workspace, "--dry-run", home=home).out.splitlines()
    assert sorted(lines[1:]) == sorted(f"  {number}: removed" for number in range(1, 101))
    lines = agentcli("undo", "-C", workspace, home=home).out.splitlines()
    assert (len(lines), lines[-1]) == (42, "  … 60 more")


def test_model_is_told_of_an_undo(home: Path, workspace: Path) -> None:
    run(home, workspace, WRITE)
    agentcli("undo", "-C", workspace, home=home)
    last = build_messages(entry.fact for entry in read_log(session_log(home)).entries)[-1]
    assert isinstance(last, UserMessage)
    assert "undid the changes of your write_file call" in str(last.content)


def test_what_the_person_made_in_a_directory_of_the_agents_stays(
    home: Path, workspace: Path
) -> None:
    run(home, workspace, WRITE)
    (workspace / "new" / "mine.txt").write_text("mine\n")
    assert agentcli("undo", "-C", workspace, home=home).code == 0
    assert files(workspace) == {"a.txt": "one\ntwo\nthree\n", "new/mine.txt": "mine\n"}


def test_reading_leaves_no_trace_of_checkpoints(home: Path, workspace: Path) -> None:
    run(home, workspace, READ, {"bash": {"command": "cat a.txt"}})
    assert not (home / ".local/state/agentcli/checkpoints").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_persons_repository_is_not_touched(home: Path, workspace: Path) -> None:
    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=p", "-c", "user.email=p@example.org"]
        return subprocess.run(
            ["git", "-C", str(workspace), *identity, *arguments],
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    git("init", "-q")
    (workspace / ".gitignore").write_text("build/\n")
    (workspace / "build").mkdir()
    (workspace / "build" / "out").write_text("made\n")
    git("add", "-A")
    git("commit", "-qm", "first")

    def repository() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for path in sorted((workspace / ".git").rglob("*"))
            if path.is_file()
        }

    before = repository()
    change = {"bash": {"command": "echo changed > a.txt; echo lost > build/out"}}
    run(home, workspace, change)
    assert agentcli("undo", "-C", workspace, home=home).code == 0
    assert repository() == before
    assert git("status", "--porcelain") == ""
    assert (workspace / "build" / "out").read_text() == "lost\n"  # ignored, and so not kept


def test_undo_names_the_ignored_files_that_it_cannot_restore(home: Path, workspace: Path) -> None:
    (workspace / ".gitignore").write_text(".env\n*.db\n")
    (workspace / ".env").write_text("A=1\n")
    (workspace / "local.db").write_text("rows\n")
    run(home, workspace, {"bash": {"command": "echo new > b.txt; rm .env"}})
    assert "not stored: .env" in agentcli("undo", "--list", "-C", workspace, home=home).out
    undone = agentcli("undo", "-C", workspace, home=home)
    assert undone.out.startswith("Undid part of bash")
    assert "no copy was stored: .env\n" in undone.out
    assert not (workspace / "b.txt").exists()
    run(home, workspace, {"bash": {"command": "rm local.db"}})
    undone = agentcli("undo", "-C", workspace, home=home)
    assert undone.out.startswith("Could not undo bash")
    assert "no copy was stored: local.db\n" in undone.out
    assert "nothing had to be changed" not in undone.out


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_kept_states_are_a_repository_that_git_can_read(home: Path, workspace: Path) -> None:
    run(home, workspace, BASH)
    (store,) = home.glob(".local/state/agentcli/checkpoints/*.git")
    git = ["git", "--git-dir", str(store)]
    checked = subprocess.run([*git, "fsck", "--full"], capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (
        0,
        "notice: HEAD points to an unborn branch (main)\n",
    )
    fact = next(
        record["fact"]
        for record in map(json.loads, session_log(home).read_text().splitlines())
        if record["fact"]["type"] == "checkpointed"
    )
    changed = [*git, "diff", "--name-status", "--no-renames", fact["before"], fact["after"]]
    shown = subprocess.run(changed, capture_output=True, text=True, check=True).stdout
    assert shown == "D\ta.txt\nA\tc.txt\nA\td\n"


def test_undo_works_without_git(home: Path, workspace: Path, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "mv", "chmod", "env"):
        found = shutil.which(name)
        assert found is not None
        (tools / name).symlink_to(found)
    env = {"PATH": str(tools)}
    model = script(home / "s.json", [{"calls": [BASH]}, "Done."])
    flags = ["--mode", "auto", "--sandbox", "off", "--model", model]
    ran = agentcli("run", "-C", workspace, *flags, "go", home=home, env=env)
    assert ran.code == 0, ran.err
    assert agentcli("undo", "-C", workspace, home=home, env=env).code == 0
    assert files(workspace) == {"a.txt": "one\ntwo\nthree\n"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--redo"], 0, "Nothing to redo."),
        (["nosuch"], 3, "no session 'nosuch'"),
    ],
)
def test_undo_of_nothing_says_so(
    home: Path, workspace: Path, arguments: list[str], code: int, words: str
) -> None:
    run(home, workspace, READ)
    ran = agentcli("undo", "-C", workspace, *arguments, home=home)
    assert (ran.code, words in ran.out + ran.err) == (code, True)


def test_turn_that_does_not_exist_is_an_error_that_names_those_there_are(
    home: Path, workspace: Path
) -> None:
    run(home, workspace, WRITE)
    for turn in ("0", "-3", "2", "99"):
        ran = agentcli("undo", "-C", workspace, "--turn", turn, home=home)
        assert (ran.code, ran.out) == (2, "")
        assert f"there is no turn {turn} in this session (its turns: 1)" in ran.err
    run(home, workspace, READ, options=["--continue"])
    ran = agentcli("undo", "-C", workspace, "--turn", "3", "--dry-run", home=home)
    assert (ran.code, "(its turns: 1 to 2)" in ran.err) == (2, True)
    ran = agentcli("undo", "-C", workspace, "--turn", "2", home=home)
    assert (ran.code, ran.out) == (0, "Nothing to undo.\n")
    assert files(workspace)["new/b.txt"] == "b\n"


@contextmanager
def without_store(home: Path) -> Iterator[None]:
    """No state can be stored while the block lasts."""
    store = home / ".local/state/agentcli/checkpoints"
    aside = store.rename(store.with_name("aside"))
    store.write_text("a file where the directory should be")
    yield
    store.unlink()
    aside.rename(store)


def test_call_without_a_stored_state_is_named_before_an_earlier_one_is_undone(
    home: Path, workspace: Path
) -> None:
    run(home, workspace, WRITE)
    run(home, workspace, READ, EDIT, options=["--continue"])
    with without_store(home):
        run(home, workspace, {"bash": {"command": "rm a.txt"}}, options=["--continue"])
    session = session_log(home).parent.name
    after = files(workspace)
    for arguments in ([], ["--dry-run"]):
        refused = agentcli("undo", "-C", workspace, *arguments, home=home)
        assert (refused.code, refused.out) == (2, "")
        assert "error: bash rm a.txt cannot be undone: not a directory: " in refused.err
        assert "; the change before it is 2 (edit_file a.txt)\n" in refused.err
        assert refused.err.endswith(f"fix: agentcli undo {session} 2\n")
    listed = agentcli("undo", session, "--list", home=home).out.splitlines()
    assert [line[:4] for line in listed[1::2]] == ["   1", "   2", "   -"]
    assert listed[5].endswith("turn 3  bash rm a.txt  (cannot be undone)")
    assert files(workspace) == after
    undone = agentcli("undo", session, "1", home=home)
    assert (undone.code, files(workspace)) == (0, {})
    undone = agentcli("undo", session, home=home)
    assert undone.code == 7, "the user went on without it"


def test_undo_of_a_turn_names_the_calls_without_a_stored_state(home: Path, workspace: Path) -> None:
    run(home, workspace, WRITE)
    with without_store(home):
        run(home, workspace, {"bash": {"command": "rm a.txt"}}, options=["--continue"])
    undone = agentcli("undo", "-C", workspace, "--turn", "1", home=home)
    assert (undone.code, undone.out.splitlines()[-1]) == (
        0,
        "Cannot be undone, because no state was stored: bash rm a.txt",
    )


def test_undo_without_any_stored_state_is_refused(home: Path, workspace: Path) -> None:
    (home / ".local/state/agentcli").mkdir(parents=True)
    (home / ".local/state/agentcli/checkpoints").touch()
    run(home, workspace, {"bash": {"command": "rm a.txt"}})
    refused = agentcli("undo", "-C", workspace, home=home)
    assert (refused.code, refused.out) == (2, "")
    assert "bash rm a.txt cannot be undone" in refused.err
    assert "restore the files with git" in refused.err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["1", "--turn", "1"], "--turn 1 and the change 1"),
        (["1", "--redo"], "--redo and the change 1"),
        (["1", "--list"], "--list and the change 1"),
        (["--list", "--redo"], "--list and --redo"),
        (["--list", "--turn", "1"], "--list and --turn 1"),
        (["--turn", "1", "--redo", "--dry-run"], "--redo and --turn 1"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(
    home: Path, workspace: Path, arguments: list[str], named: str
) -> None:
    run(home, workspace, READ, EDIT, WRITE)
    session, after = session_log(home).parent, files(workspace)
    refused = agentcli("undo", session, *arguments, home=home)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith(f"error: {named} cannot be used together\n")
    assert files(workspace) == after


def test_directory_that_does_not_exist_is_refused(home: Path, workspace: Path) -> None:
    run(home, workspace, READ)
    ran = agentcli("undo", session_log(home).parent, "-C", workspace / "none", home=home)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: cannot open {workspace / 'none'}: No such file")


def test_path_that_two_calls_changed_and_nobody_stored_is_named_once(
    home: Path, workspace: Path
) -> None:
    enlarge = {"bash": {"command": "head -c 9000000 /dev/zero >> big"}}
    run(home, workspace, WRITE, enlarge, enlarge)
    undone = agentcli("undo", "-C", workspace, "--turn", "1", home=home)
    assert "  left as it is, because no copy was stored: big\n" in undone.out


def test_list_of_a_damaged_log_says_that_it_is_damaged(home: Path, workspace: Path) -> None:
    run(home, workspace, READ, EDIT, WRITE)
    log = session_log(home)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2] + lines[3:]))
    for option in ("--list", "--dry-run"):
        ran = agentcli("undo", log.parent, option, home=home)
        assert (ran.code, ran.out) == (3, "")
        assert f"{log}:3: the chain is broken" in ran.err


def test_undo_in_a_workspace_that_was_moved(home: Path, workspace: Path, tmp_path: Path) -> None:
    run(home, workspace, WRITE)
    moved = workspace.rename(tmp_path / "elsewhere")
    session = session_log(home).parent
    gone = agentcli("undo", session, home=home)
    assert (gone.code, "no longer exists" in gone.err) == (3, True)
    assert agentcli("undo", session, "-C", moved, home=home).code == 0
    assert files(moved) == {"a.txt": "one\ntwo\nthree\n"}


def test_deleted_session_takes_its_kept_states_along(home: Path, workspace: Path) -> None:
    run(home, workspace, WRITE)
    session = session_log(home).parent.name
    assert agentcli("sessions", "delete", session, "-y", home=home).code == 0
    assert list(home.glob(".local/state/agentcli/checkpoints/*")) == []


def test_what_git_keeps_in_a_bare_repository_is_no_change(home: Path, workspace: Path) -> None:
    subprocess.run(["git", "init", "-q", "--bare", workspace], check=True)
    run(home, workspace, {"bash": {"command": "echo x > own; echo x > refs/x; echo x > info/x"}})
    undone = agentcli("undo", "-C", workspace, home=home)
    assert undone.code == 0
    assert "  own: removed" in undone.out
    assert not (workspace / "own").exists()
    assert (workspace / "refs/x").exists() and (workspace / "info/x").exists()
