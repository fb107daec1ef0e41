"""What we do on our own in a hostile repository runs nothing of it."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from agentcli.features.batch.trees import TaskTrees
from agentcli.features.review.review import ReviewScope, _read_change
from agentcli.log.checkpoint.keep import CheckpointKeeper
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.system import own_process
from agentcli.system.git import run_git
from agentcli.system.repository import UncommittedChanges, find_branch
from agentcli.tools.search.ignore import IgnoreRules
from agentcli.types.errors import AgentError
from agentcli.ui.repl.commands.inspect import _read_changes
from agentcli.ui.repl.completion import list_files
from tests.support import hostile
from tests.support.hostile import Traps, sh
from tests.support.program import agentcli, script


@pytest.fixture
def traps(tmp_path: Path) -> Traps:
    return Traps(tmp_path / "traps")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return home


def find_patch(workspace: Path, base: Path) -> None:
    keeper = CheckpointKeeper(
        ObjectStore(base / "kept.git"),
        session="s",
        root=workspace,
        scope=lambda: IgnoreRules.for_workspace(workspace),
    )
    with closing(keeper):
        since = keeper.begin_checkpoint("", None).tree
        (workspace / "a.txt").write_text("four\n")
        with suppress(OSError):
            (workspace / "inner/a.txt").write_text("four\n")
        assert keeper.find_changes((), since=since)


def make_tree(workspace: Path, base: Path) -> None:
    trees = TaskTrees(workspace, out=base / "out")
    assert trees.lacks_changes in (True, False)
    trees.make("one")
    trees.remove("one")


ACTIONS: dict[str, Callable[[Path, Path], object]] = {
    "branch": lambda workspace, base: find_branch(workspace),
    "work tree": lambda workspace, base: UncommittedChanges(workspace).load(),
    "review a commit": lambda workspace, base: _read_change(ReviewScope(commit="HEAD"), workspace),
    "review since a base": lambda workspace, base: _read_change(
        ReviewScope(base="HEAD~1"), workspace
    ),
    "review what is new": lambda workspace, base: _read_change(ReviewScope(), workspace),
    "diff": lambda workspace, base: _read_changes(workspace, ""),
    "mentions": lambda workspace, base: list_files(workspace),
    "batch": make_tree,
    "patch": find_patch,
}


@pytest.mark.parametrize("shape", hostile.SHAPES)
def test_nothing_of_a_hostile_repository_is_run(
    shape: str, traps: Traps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = hostile.repository(tmp_path / "work/repo")
    workspace = hostile.SHAPES[shape](repo, traps)
    monkeypatch.setenv("PATH", hostile.plant_programs(repo, traps))
    monkeypatch.chdir(workspace)
    for name, act in ACTIONS.items():
        with suppress(AgentError):  # what cannot be read so is told, and not run
            act(workspace, tmp_path)
        assert traps.sprung == set(), name


def test_traps_are_live(traps: Traps, tmp_path: Path) -> None:
    """Plain git in the same repositories does run what is planted."""
    plain = ("git status", "git diff HEAD", "git show HEAD", "git diff --submodule=diff")
    for number, shape in enumerate(
        ("settings", "signed commit", "partial clone", "nested repository")
    ):
        workspace = hostile.SHAPES[shape](hostile.repository(tmp_path / f"{number}/r"), traps)
        for command in plain:
            with suppress(subprocess.CalledProcessError):
                sh(command, workspace)
    kinds = {name.rpartition("-")[2] for name in traps.sprung}
    assert {"core.fsmonitor", "filter.evil.process", "gpg.program", "uploadpack"} <= kinds


def test_our_reading_agrees_with_plain_git(tmp_path: Path) -> None:
    repo = hostile.repository(tmp_path / "repo")
    sh("git worktree add -q --detach ../linked HEAD~1; echo x > ../linked/a.txt", repo)
    for workspace in (repo, repo / "sub", tmp_path / "linked"):
        for words in (["status", "--porcelain"], ["log", "--format=%H %s"], ["diff", "HEAD"]):
            plain = subprocess.run(
                ["git", "-c", "core.quotePath=false", *words], cwd=workspace, capture_output=True
            )
            assert run_git(*words, cwd=workspace) == plain.stdout.decode()


def test_batch_leaves_a_worktree_that_git_knows(tmp_path: Path) -> None:
    repo = hostile.repository(tmp_path / "repo")
    trees = TaskTrees(repo, out=tmp_path / "out")
    tree = trees.make("one")
    assert (tree / "a.txt").read_text() == "two\n"
    sh('git status; test -z "$(git status --porcelain)"; git commit -q --allow-empty -m x', tree)
    assert run_git("worktree", "list", "--porcelain", cwd=repo).count("worktree ") == 2
    trees.remove("one")
    assert not tree.exists() and not list((repo / ".git/worktrees").glob("*"))


@pytest.fixture
def everything(traps: Traps, tmp_path: Path) -> Path:
    repo = hostile.repository(tmp_path / "work/repo")
    for plant in (hostile.set_keys, hostile.hooks, hostile.nested):
        plant(repo, traps)
    return repo


def said(name: str, given: dict[str, str]) -> dict[str, object]:
    return {"calls": [{"name": name, "input": given}]}


def steps(repo: Path, base: Path) -> Iterator[tuple[str | Path, ...]]:
    read = said("read_file", {"path": "a.txt"})
    model = script(base / "script.json", [read, "Done."])
    make = said("write_file", {"path": "made.txt", "content": "x\n"})
    write = script(base / "write.json", [make, said("bash", {"command": "git status"}), "Done."])
    find = script(base / "find.json", [said("symbols", {"name": "x"}), read, "Done."])
    (base / "tasks.jsonl").write_text('{"id": "one", "prompt": "x"}\n')
    (base / "suite").mkdir()
    (base / "suite/one.toml").write_text('prompt = "x"\ncheck = "true"\n[tree]\n"a" = "a"\n')
    yield "run", "--model", model, "--mode", "plan", "x"
    yield "run", "--model", model, "--mode", "plan", "-C", repo / "sub", "x"
    yield "run", "--model", find, "--mode", "plan", "x"
    yield "run", "--model", write, "--mode", "auto", "--patch", base / "p.diff", "x"
    for command in ("replay", "trace", "triage", "context", "stats", "prompt"):
        yield (command,)
    yield "view", "--no-open", "-o", base / "view.html"
    logs = base.glob("home/.local/state/agentcli/sessions/*/log.jsonl")
    latest = max(logs, key=lambda path: path.stat().st_mtime_ns)
    yield "fork", latest.parent.name, "--at", "1", "y", "--model", write, "--mode", "auto"
    yield ("undo",)
    yield "review", "--model", model, "--commit", "HEAD"
    yield "review", "--model", model, "--base", "HEAD~1"
    yield "batch", base / "tasks.jsonl", "--model", write, "--mode", "auto", "--out", base / "out"
    yield "eval", base / "suite", "--model", model, "--out", base / "eval"
    yield "import", "--dry-run"
    yield ("doctor",)
    yield "doctor", "--project"
    yield "trust", "--show"
    yield "mcp", "list"
    yield "policy", "explain", "bash: git status"
    yield "sessions", "list"


def test_no_command_of_ours_runs_what_is_planted(
    everything: Path, traps: Traps, tmp_path: Path, home: Path
) -> None:
    path = hostile.plant_programs(everything, traps)
    env = {"PATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache"), "AGENTCLI_SYMBOLS": "true"}
    ended = {}
    for step in steps(everything, tmp_path):
        ran = agentcli(*step, home=home, cwd=everything, env=env)
        assert traps.sprung == set(), (step, ran.err)
        ended[step[0]] = ran.code
    assert (ended["run"], ended["undo"], ended["sessions"]) == (0, 0, 0)
    assert "made.txt" in (tmp_path / "p.diff").read_text()


@pytest.mark.parametrize("place", ["inside", "beside", "linked"])
def test_program_is_never_the_projects_own(
    place: str, traps: Traps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = hostile.repository(tmp_path / "repo")
    traps.program(repo / ".venv/bin/only-here", "only")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/only-here").symlink_to(repo / ".venv/bin/only-here")
    folder = {
        "inside": repo / ".venv/bin",
        "beside": repo / ".venv/bin",
        "linked": tmp_path / "bin",
    }
    monkeypatch.setenv("PATH", f"{folder[place]}{os.pathsep}{os.environ['PATH']}")
    workspace = repo / "sub" if place == "beside" else repo
    assert own_process.find_program("only-here", workspace=workspace) is None
    with pytest.raises(FileNotFoundError):
        own_process.run(["only-here"], workspace=workspace)


def test_environment_of_helpers_has_no_secret_and_nothing_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/usr/lib:{tmp_path}/lib")
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.setenv("PATH", f"{tmp_path}:relative:{os.environ['PATH']}")
    for env in (
        own_process.build_least_environment(tmp_path),
        own_process.build_user_environment(tmp_path),
    ):
        assert "sk-secret" not in env.values()
        assert not {"LD_LIBRARY_PATH", "PYTHONPATH"} & set(env)
        entries = env["PATH"].split(os.pathsep)
        assert all(Path(one).is_absolute() for one in entries) and str(tmp_path) not in entries
