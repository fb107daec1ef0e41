import os
import shutil
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from agentcli.permissions.readonly import ReadProver, build_path_lookup
from tests.unit.permissions.attacks import DOING_MORE
from tests.unit.permissions.reads import EVERYDAY, READING


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "README.md").write_text("# a project\nb:c\nimport this\n")
    (root / "src/a.py").write_text("import os\n\ndef f():\n    return 1\n")
    (root / "src/b.py").write_text("import sys\n")
    (root / "data.json").write_text('{"a": {"b": 1}}\n')
    return root


def _prover(root: Path, *, cwd: Path | None = None) -> ReadProver:
    return ReadProver(
        workspace=root, resolve=lambda name: Path("/usr/bin", name), cwd=lambda: cwd or root
    )


def _git(root: Path, *words: str) -> None:
    identity = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_CONFIG_GLOBAL": os.devnull}
    committer = {"GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(root.parent), **identity, **committer}
    subprocess.run(["git", *words], cwd=root, env=environment, check=True, capture_output=True)


@pytest.fixture
def repository(workspace: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("needs git")
    _git(workspace, "init", "-q", "-b", "main")
    for message in ("one", "two"):
        (workspace / "src/c.py").write_text(message)
        _git(workspace, "add", ".")
        _git(workspace, "commit", "-q", "-m", message)
    return workspace


def test_everyday_reading_is_proven(workspace: Path) -> None:
    prover = _prover(workspace)

    assert {line: why for line in READING if (why := prover.why_not_read_only(line))} == {}


def test_no_everyday_line_that_reads_needs_a_question(repository: Path) -> None:
    prover = _prover(repository)

    assert len(EVERYDAY) >= 100
    assert {line: why for line in EVERYDAY if (why := prover.why_not_read_only(line))} == {}


def test_lines_that_do_more_than_read_are_not_proven(workspace: Path) -> None:
    prover = _prover(workspace)

    assert [line for line in DOING_MORE if prover.why_not_read_only(line) is None] == []


def test_proven_lines_change_nothing_when_they_run(repository: Path) -> None:
    def tree() -> dict[str, str]:
        return {
            str(path.relative_to(repository)): sha256(path.read_bytes()).hexdigest()
            for path in sorted(repository.rglob("*"))
            if path.is_file() and path != repository / ".git/index"
        }

    before = tree()
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_PAGER": "cat"}
    prover = _prover(repository)
    for line in READING:
        assert prover.why_not_read_only(line) is None
        subprocess.run(
            ["bash", "-c", line],
            cwd=repository,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
    assert tree() == before


def test_program_of_the_workspace_is_not_the_program_of_that_name(workspace: Path) -> None:
    planted = workspace / "bin/ls"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\ntouch x\n")
    linked = workspace.parent / "linked"
    linked.symlink_to(planted)
    answers = {"ls": planted, "cat": linked, "wc": Path("/home/u/.asdf/shims/wc"), "rg": None}
    prover = ReadProver(workspace=workspace, resolve=answers.get, cwd=lambda: workspace)

    assert [prover.reads(line) for line in ("ls", "cat a", "wc a", "rg a", "echo a")] == [
        *[False, False, False, False],
        True,
    ]


def test_programs_are_found_as_bash_finds_them(tmp_path: Path) -> None:
    for folder, mode in (("one", 0o644), ("two", 0o755), ("three", 0o755)):
        program = tmp_path / folder / "prog"
        program.parent.mkdir()
        program.write_text("")
        program.chmod(mode)
    one, two, three = (str(tmp_path / folder) for folder in ("one", "two", "three"))

    assert build_path_lookup(f"{one}:{two}:{three}")("prog") == Path(two, "prog")
    assert build_path_lookup(one)("prog") is None
    for relative in ("", ".", "bin"):
        assert build_path_lookup(f"{two}:{relative}")("prog") == Path(two, "prog")
        assert build_path_lookup(f"{relative}:{two}")("prog") is None


@pytest.mark.parametrize(
    "setting",
    [
        "[core]\n\tfsmonitor = touch x",
        "[core] fsmonitor = touch x",
        "[CORE]\nFSMonitor = touch x",
        "[core]\nfsmonitor",
        "[diff]\nexternal = touch x",
        '[diff "a"]\ntextconv = touch x',
        '[filter "a"]\nclean = touch x',
        '[filter "lfs"]\nclean = git-lfs clean; touch x',
        "[include]\npath = ../evil",
        '[includeIf "gitdir:/"]\npath = ../evil',
        "[core]\nhooksPath = ~/x",
        "[core]\nworktree = /",
        '[remote "origin"]\npromisor = true',
        "[log]\nshowSignature = true",
        "[gpg]\nprogram = touch",
        "[user]\nname = a\\\n[core]\nfsmonitor = touch x",
        "[a]\nb = c",
        "nonsense",
    ],
)
def test_git_is_not_proven_where_the_repository_names_programs(
    setting: str, repository: Path
) -> None:
    prover = _prover(repository)
    assert prover.reads("git status")

    with (repository / ".git/config").open("a") as config:
        config.write(f"\n{setting}\n")

    assert not prover.reads("git status")
    assert prover.why_not_read_only("cd src && git diff") is not None
    assert prover.reads("ls && git --version") is False


def test_git_is_proven_with_ordinary_settings(repository: Path) -> None:
    _git(repository, "remote", "add", "origin", "https://example.invalid/x.git")
    _git(repository, "config", "branch.main.remote", "origin")
    _git(repository, "config", "core.hooksPath", ".husky/_")
    _git(repository, "config", "filter.lfs.clean", "git-lfs clean -- %f")
    _git(repository, "config", "filter.lfs.required", "true")

    assert _prover(repository).why_not_read_only("git status && git diff | head -5") is None


def test_git_is_not_proven_where_a_hook_would_run(repository: Path) -> None:
    hook = repository / ".git/hooks/post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch x\n")

    assert not _prover(repository).reads("git status")


def test_git_is_not_proven_in_a_folder_that_passes_for_a_repository(repository: Path) -> None:
    evil = repository / "vendor/evil"
    (evil / "objects").mkdir(parents=True)
    (evil / "refs").mkdir()
    (evil / "HEAD").write_text("ref: refs/heads/main\n")
    (evil / "config").write_text("[core]\nbare = false\nfsmonitor = touch x\n")
    (repository / "vendor/link").symlink_to(repository / "src")

    prover = _prover(repository)

    assert prover.reads("git status")
    for line in (
        "cd vendor/evil && git status",
        "cd vendor\ncd evil\ngit status",
        "cd vendor/link && cd ../evil && git status",
        "git -C vendor/evil status",
        "git -C vendor -C evil status",
        "cd vendor; git -C evil log",
        "cd nothere; cd vendor/evil; git log",
    ):
        assert prover.why_not_read_only(line) is not None, line
    assert not _prover(repository, cwd=evil).reads("git status")


def _plant_settings(folder: Path) -> Path:
    """Make a git directory whose settings would run a program."""
    (folder / "objects").mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\nbare = false\nfsmonitor = touch x\n")
    return folder


def _plant_common_directory(repository: Path) -> None:
    """A folder with nothing but HEAD and a pointer to where objects and settings are."""
    _plant_settings(repository / "elsewhere")
    (repository / "src/HEAD").write_text("ref: refs/heads/main\n")
    (repository / "src/commondir").write_text("../elsewhere\n")


def _plant_pointer_with_a_blank(repository: Path) -> None:
    shutil.copytree(repository / ".git", repository / "src/harmless")
    _plant_settings(repository / "src/ harmless")
    (repository / "src/.git").write_text("gitdir:  harmless\n")


def _plant_common_directory_with_a_blank(repository: Path) -> None:
    own = repository / "src/.git"
    shutil.copytree(repository / ".git", own)
    _plant_settings(own / "harmless ")
    (own / "harmless").mkdir()
    (own / "commondir").write_text("harmless \n")


def _plant_empty_repository(repository: Path) -> None:
    """Git looks past a `.git` that is none, and takes the folder around it."""
    _plant_settings(repository / "src")
    (repository / "src/.git").mkdir()


def _plant_hooks_of_the_worktree(repository: Path) -> None:
    _git(repository, "config", "extensions.worktreeConfig", "true")
    (repository / ".git/config.worktree").write_text("[core]\n\thooksPath = evil\n")
    _plant_hook(repository)


def _plant_hooks_before_another_section(repository: Path) -> None:
    with (repository / ".git/config").open("a") as config:
        config.write("[core]\n\thooksPath = evil\n[alias]\n\thooksPath = none\n")
    _plant_hook(repository)


def _plant_hook(repository: Path) -> None:
    (repository / "evil").mkdir()
    (repository / "evil/post-index-change").write_text("#!/bin/sh\ntouch x\n")


def _plant_section_in_a_comment(repository: Path) -> None:
    """A vertical tab ends no line, so that the comment goes on."""
    with (repository / ".git/config").open("a") as config:
        config.write("[diff]\n;\x0b[alias]\n\texternal = touch x\n")


@pytest.mark.parametrize(
    "plant",
    [
        _plant_common_directory,
        _plant_pointer_with_a_blank,
        _plant_common_directory_with_a_blank,
        _plant_empty_repository,
        _plant_hooks_of_the_worktree,
        _plant_hooks_before_another_section,
        _plant_section_in_a_comment,
    ],
)
def test_git_is_not_proven_where_git_sees_another_repository_than_it_seems(
    plant: Callable[[Path], None], repository: Path
) -> None:
    prover = _prover(repository)
    assert prover.reads("git -C src status")

    plant(repository)

    assert not prover.reads("git -C src status")


def test_git_is_not_proven_where_the_configuration_lies_elsewhere(repository: Path) -> None:
    evil = repository / "evil"
    evil.mkdir()
    (evil / "config").write_text("[core]\nfsmonitor = touch x\n")
    (repository / ".git/commondir").write_text("../evil\n")

    assert not _prover(repository).reads("git status")


@pytest.mark.parametrize("name", [".gitconfig", ".config/git/config"])
@pytest.mark.parametrize("text", ["[core]\nfsmonitor = ./x\n", "[core]\nhooksPath = x\n"])
def test_git_is_not_proven_where_a_command_has_set_things_for_all_repositories(
    repository: Path, tmp_path: Path, name: str, text: str
) -> None:
    home = tmp_path / "home-of-commands"
    (home / name).parent.mkdir(parents=True)
    prover = ReadProver(
        workspace=repository,
        resolve=lambda name: Path("/usr/bin", name),
        cwd=lambda: repository,
        home=home,
    )
    (home / name).write_text('[safe]\n\tdirectory = *\n[user]\n\tname = "a"\n')
    assert prover.why_not_read_only("git status") is None

    (home / name).write_text(text)

    assert prover.why_not_read_only("git status") is not None
    assert prover.why_not_read_only("ls") is None


def test_git_is_proven_in_a_linked_working_tree(repository: Path) -> None:
    _git(repository, "worktree", "add", "-q", "../linked")
    linked = repository.parent / "linked"

    assert _prover(linked).why_not_read_only("git status") is None
    _git(repository, "config", "core.fsmonitor", "touch x")
    assert not _prover(linked).reads("git status")


def test_git_is_not_proven_over_submodules(repository: Path) -> None:
    _git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")

    assert not _prover(repository).reads("git status")


def test_git_is_not_proven_over_submodules_in_a_split_index(repository: Path) -> None:
    _git(repository, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    _git(repository, "update-index", "--split-index")

    assert not _prover(repository).reads("git status")


def test_git_is_not_proven_over_a_sparse_index(repository: Path) -> None:
    _git(repository, "sparse-checkout", "set", "--cone", "--sparse-index", "tests")

    assert not _prover(repository).reads("git status")


def test_submodule_summary_of_status_is_not_proven(repository: Path) -> None:
    assert _prover(repository).reads("git status")
    _git(repository, "config", "status.submoduleSummary", "true")

    assert not _prover(repository).reads("git status")


def test_line_that_goes_elsewhere_is_proven_but_does_not_run_beside_others(workspace: Path) -> None:
    prover = _prover(workspace)

    assert prover.why_not_read_only("cd src && ls") is None
    assert [prover.reads(line) for line in ("cd src && ls", "ls src", "cd src")] == [
        *[False, True, False]
    ]


def test_reason_names_the_word_that_is_not_known_to_read(workspace: Path) -> None:
    prover = _prover(workspace)

    assert prover.why_not_read_only("ls; sort -o x a") == "sort with option -o is not read-only"
    assert prover.why_not_read_only("ls $(pwd)") == "command substitution $(…) cannot be checked"
    assert prover.why_not_read_only("make test") == (
        "make with arguments other than --version is not read-only"
    )
    assert prover.why_not_read_only("touch x") == "touch is not read-only"
