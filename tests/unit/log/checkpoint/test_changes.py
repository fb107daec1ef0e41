import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentcli.log.checkpoint import trees
from agentcli.log.checkpoint.changes import ChangedFile
from agentcli.log.checkpoint.keep import CheckpointKeeper
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.tools.search.ignore import IgnoreRules
from agentcli.types.events import Checkpointed


def sh(command: str, cwd: Path) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "HOME": str(cwd)}
    ran = subprocess.run(
        ["bash", "-ec", command], cwd=cwd, env=env, check=True, capture_output=True, text=True
    )
    return ran.stdout


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\ntwo\n")
    (workspace / "sub").mkdir()
    (workspace / "sub/b.txt").write_text("b\n")
    return workspace


def open_keeper(workspace: Path, kept: Path) -> CheckpointKeeper:
    return CheckpointKeeper(
        ObjectStore(kept),
        session="s",
        root=workspace,
        scope=lambda: IgnoreRules.for_workspace(workspace),
    )


@pytest.fixture
def keeper(workspace: Path, tmp_path: Path) -> Iterator[CheckpointKeeper]:
    with closing(open_keeper(workspace, tmp_path / "kept.git")) as made:
        yield made


def start(keeper: CheckpointKeeper) -> str:
    return keeper.begin_checkpoint("", None).tree


def find_patch(keeper: CheckpointKeeper, since: str) -> str:
    return "".join(file.patch for file in keeper.find_changes((), since=since))


def list_paths(files: tuple[ChangedFile, ...]) -> list[str]:
    return [file.path for file in files]


def change(workspace: Path) -> None:
    (workspace / "a.txt").write_bytes(b"one\r\n2")
    (workspace / "sub/b.txt").unlink()
    (workspace / "sub/ü.bin").write_bytes(bytes(range(256)))
    (workspace / 'with "quotes" \\ and\ttab').write_text("x\n")
    (workspace / "with blanks.txt").write_text("x\n")
    (workspace / "latin").write_bytes("dé\n".encode("latin-1"))
    (workspace / "empty").touch()


def change_kinds(workspace: Path) -> None:
    (workspace / "a.txt").unlink()
    (workspace / "a.txt").symlink_to("sub/b.txt")
    (workspace / "sub/b.txt").chmod(0o755)
    (workspace / "long").write_text("a line of text\n" * 50_000)


@pytest.mark.parametrize("changed", [change, change_kinds])
def test_patch_makes_the_old_state_the_new_one(
    keeper: CheckpointKeeper, workspace: Path, tmp_path: Path, changed: object
) -> None:
    sh("cp -r work before; cp -r work back", tmp_path)
    since = start(keeper)
    assert callable(changed)
    changed(workspace)
    (tmp_path / "p.diff").write_text(find_patch(keeper, since), newline="")
    apply = "git apply --whitespace=nowarn"
    sh(f"cd before; {apply} ../p.diff", tmp_path)
    assert sh("diff -r --no-dereference before work || true", tmp_path) == ""
    assert os.access(tmp_path / "before/sub/b.txt", os.X_OK) == (changed is change_kinds)
    sh(f"cd before; {apply} -R ../p.diff", tmp_path)
    assert sh("diff -r before back || true", tmp_path) == ""


def test_lines_are_counted(keeper: CheckpointKeeper, workspace: Path) -> None:
    (workspace / "latin").write_bytes("é\nb\n".encode("latin-1"))
    (workspace / "wide").write_bytes("é\nb\n".encode("utf-16"))
    since = start(keeper)
    (workspace / "a.txt").write_text("one\n2\n3\n")
    (workspace / "sub/b.txt").unlink()
    (workspace / "new.bin").write_bytes(b"\0")
    (workspace / "latin").write_bytes("é\nb\nc\n".encode("latin-1"))
    (workspace / "wide").write_bytes("é\n2\n".encode("utf-16"))
    files = keeper.find_changes((), since=since)
    assert [(file.path, file.added, file.removed) for file in files] == [
        ("a.txt", 2, 1),
        ("latin", 1, 0),
        ("new.bin", 0, 0),
        ("sub/b.txt", 0, 1),
        ("wide", 1, 1),
    ]


def test_nothing_changed_is_an_empty_patch(keeper: CheckpointKeeper, workspace: Path) -> None:
    since = start(keeper)
    (workspace / "a.txt").touch()
    (workspace / "a.txt").chmod(0o600)  # git knows no such change
    (workspace / "nothing in it").mkdir()
    assert keeper.find_changes((), since=since) == ()


def test_what_was_there_before_is_not_part_of_the_patch(
    keeper: CheckpointKeeper, workspace: Path
) -> None:
    (workspace / "mine.txt").write_text("mine\n")
    since = start(keeper)
    (workspace / "new.txt").write_text("theirs\n")
    assert list_paths(keeper.find_changes((), since=since)) == ["new.txt"]


def test_ignored_files_and_caches_are_not_part_of_the_patch(
    keeper: CheckpointKeeper, workspace: Path
) -> None:
    (workspace / ".gitignore").write_text("*.log\n")
    since = start(keeper)
    (workspace / "x.log").write_text("noise\n")
    (workspace / "sub/__pycache__").mkdir()
    (workspace / "sub/__pycache__/m.pyc").write_bytes(b"\0")
    assert keeper.find_changes((), since=since) == ()


def test_file_that_a_new_rule_ignores_does_not_look_deleted(
    keeper: CheckpointKeeper, workspace: Path
) -> None:
    since = start(keeper)
    (workspace / ".gitignore").write_text("*.txt\n")
    assert list_paths(keeper.find_changes((), since=since)) == [".gitignore"]


def test_what_a_repository_above_ignores_is_ignored_too(workspace: Path, tmp_path: Path) -> None:
    sh("git init -q; echo '*.secret' >> .git/info/exclude", workspace)
    (workspace / ".gitignore").write_text("# lists\nnode_modules/\n*.log\n/sub/only-here\n")
    with closing(open_keeper(workspace / "sub", tmp_path / "kept.git")) as keeper:
        since = start(keeper)
        for name in ("node_modules/x.js", "deep/y.log", "z.secret", "new.txt", "only-here"):
            file = workspace / "sub" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text("x\n")
        assert list_paths(keeper.find_changes((), since=since)) == ["new.txt"]


def test_file_without_stored_content_is_named_and_the_rest_applies(
    keeper: CheckpointKeeper, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "LIMIT_BYTES", 10)
    sh("cp -r work before", tmp_path)
    since = start(keeper)
    (workspace / "large").write_text("x" * 11)
    (workspace / "small").write_text("x")
    patch = find_patch(keeper, since)
    assert "# not in this patch, too large or unreadable: large\n" in patch
    (tmp_path / "p.diff").write_text(patch)
    sh("cd before; git apply ../p.diff", tmp_path)
    assert (tmp_path / "before/small").read_text() == "x"


def run_call(keeper: CheckpointKeeper, workspace: Path, name: str, text: str) -> Checkpointed:
    before = keeper.begin_checkpoint(name, [os.fsencode(name)])
    (workspace / name).write_text(text)
    fact = keeper.finish_checkpoint(before)
    assert fact is not None
    return fact


def test_changes_of_calls_are_compared_with_the_disk(
    keeper: CheckpointKeeper, workspace: Path
) -> None:
    facts = [
        run_call(keeper, workspace, "a.txt", "one\n"),
        run_call(keeper, workspace, "a.txt", "one\n2\n3\n"),
        run_call(keeper, workspace, "gone.txt", "for a moment\n"),
    ]
    (workspace / "gone.txt").unlink()
    (workspace / "sub/b.txt").write_text("no call did this\n")
    (file,) = keeper.find_changes(facts, since=None)
    assert (file.path, file.added, file.removed) == ("a.txt", 2, 1)


def test_ignored_file_that_a_call_named_is_part_of_both(
    keeper: CheckpointKeeper, workspace: Path
) -> None:
    (workspace / ".gitignore").write_text("*.log\n")
    since = start(keeper)
    fact = run_call(keeper, workspace, "x.log", "wanted\n")
    assert list_paths(keeper.find_changes([fact], since=since)) == ["x.log"]
