import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.sandbox.protect import GuardedPath, find_pins, find_protection, guard_new_repository


def repository(root: Path, config: str = "") -> Path:
    for name in ("hooks", "objects", "refs"):
        (root / ".git" / name).mkdir(parents=True)
    (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (root / ".git/config").write_text(config)
    return root


def names(workspace: Path) -> dict[str, str]:
    found = find_protection(workspace).guarded
    return {str(one.path.relative_to(workspace)): one.kind for one in found}


OF_GIT = {
    "hooks": "directory",
    "remotes": "directory",
    "branches": "directory",
    "config": "file",
    "config.worktree": "file",
    "commondir": "file",
}


def in_directory(directory: str) -> dict[str, str]:
    return {f"{directory}/{name}": kind for name, kind in OF_GIT.items()}


def test_workspace_without_repository_has_our_settings_to_guard(tmp_path: Path) -> None:
    assert names(tmp_path) == {".agentcli": "directory"}


def test_repository_has_its_hooks_and_settings_guarded(tmp_path: Path) -> None:
    repository(tmp_path)
    assert names(tmp_path) == {".agentcli": "directory", **in_directory(".git")}


def test_common_directory_is_guarded_with_what_changes_nothing(tmp_path: Path) -> None:
    repository(tmp_path)
    [one] = [one for one in find_protection(tmp_path).guarded if one.path.name == "commondir"]
    assert one.filler == b".\n"


def test_submodules_and_their_worktrees_are_guarded(tmp_path: Path) -> None:
    repository(tmp_path)
    module = tmp_path / ".git/modules/libs/one"
    module.mkdir(parents=True)
    (module / "HEAD").touch()
    add_link(tmp_path, "a/b/c/d/e/one")
    shutil.rmtree(tmp_path / "a/b/c/d/e/one/.git")
    (tmp_path / "a/b/c/d/e/one/.git").write_text("gitdir: ../../../../../../.git/modules/libs/one")
    assert names(tmp_path) == {
        ".agentcli": "directory",
        **in_directory(".git"),
        **in_directory(".git/modules/libs/one"),
        "a/b/c/d/e/one/.git": "file",
    }


def test_nested_repositories_are_found_but_not_in_dependencies(tmp_path: Path) -> None:
    repository(tmp_path / "packages/inner")
    repository(tmp_path / "node_modules/dependency")
    repository(tmp_path / "a/b/c/d/too/deep")
    assert names(tmp_path) == {".agentcli": "directory", **in_directory("packages/inner/.git")}


def test_linked_worktrees_cannot_be_redirected(tmp_path: Path) -> None:
    repository(tmp_path)
    linked = tmp_path / ".git/worktrees/side"
    linked.mkdir(parents=True)
    (linked / "commondir").write_text("../..\n")
    (linked / "gitdir").write_text("/elsewhere/.git\n")
    guarded = names(tmp_path)
    assert {path: kind for path, kind in guarded.items() if "worktrees" in path} == {
        ".git/worktrees/side/commondir": "file",
        ".git/worktrees/side/gitdir": "file",
        ".git/worktrees/side/config.worktree": "file",
    }


def test_places_named_by_settings_are_guarded(tmp_path: Path) -> None:
    repository(
        tmp_path,
        '[core]\n\thooksPath = "tools/hooks"\n[include]\n\tpath = ../shared.cfg\n\tpath = ../none\n'
        "[core]\n\tHOOKSPATH = .husky/_ ; comment\n[core]\n\thooksPath = /elsewhere\n",
    )
    (tmp_path / "shared.cfg").touch()
    extra = names(tmp_path).items() - in_directory(".git").items()
    assert dict(extra) == {
        ".agentcli": "directory",
        "tools/hooks": "directory",
        ".husky": "directory",
        "shared.cfg": "file",
        "none": "file",
    }


def test_places_named_in_the_line_of_a_section_are_guarded(tmp_path: Path) -> None:
    repository(
        tmp_path,
        "[include] path = ../one.cfg\n  [Core]hooksPath=.myhooks\n[a] [include] path = ../two.cfg\n"
        '[includeIf "gitdir:\\"]"] path = ../three.cfg\n[include] # path = ../comment.cfg\n'
        f"{chr(10) * 60_000}",
    )
    extra = names(tmp_path).items() - in_directory(".git").items()
    assert dict(extra) == {
        ".agentcli": "directory",
        ".myhooks": "directory",
        "one.cfg": "file",
        "two.cfg": "file",
        "three.cfg": "file",
    }


def test_hooks_named_by_the_persons_settings_are_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    workspace = repository(home / "ws")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (home / ".gitconfig").write_text("[core]\n\thooksPath = .githooks\n")
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/config").write_text("[core] hooksPath = ~/ws/other\n")
    extra = names(workspace).items() - in_directory(".git").items()
    assert dict(extra) == {
        ".agentcli": "directory",
        ".githooks": "directory",
        "other": "directory",
    }


def test_links_are_guarded_with_what_they_lead_to(tmp_path: Path) -> None:
    repository(tmp_path)
    (tmp_path / ".git/hooks").rmdir()
    (tmp_path / "githooks").mkdir()
    (tmp_path / ".git/hooks").symlink_to("../githooks")
    guarded = names(tmp_path)
    assert (guarded[".git/hooks"], guarded["githooks"]) == ("entry", "directory")


def test_repository_behind_a_link_is_guarded(tmp_path: Path) -> None:
    repository(tmp_path / "real")
    (tmp_path / ".git").symlink_to("real/.git")
    assert names(tmp_path) == {
        ".agentcli": "directory",
        ".git": "entry",
        **in_directory("real/.git"),
    }


def test_pointer_outside_is_believed_only_when_it_points_back(tmp_path: Path) -> None:
    main, workspace = repository(tmp_path / "main"), tmp_path / "workspace"
    linked = main / ".git/worktrees/workspace"
    linked.mkdir(parents=True)
    workspace.mkdir()
    (workspace / ".git").write_text(f"gitdir: {linked}\n")
    (linked / "commondir").write_text("../..\n")
    (linked / "gitdir").write_text(f"{tmp_path}/another/.git\n")
    assert find_protection(workspace).writable == ()
    (linked / "gitdir").write_text(f"{workspace}/.git\n")
    believed = find_protection(workspace)
    assert believed.readable == (main / ".git",)
    assert believed.writable == (linked, main / ".git/objects", main / ".git/refs")
    (main / ".git/logs").mkdir()
    assert find_protection(workspace).writable == (*believed.writable, main / ".git/logs")
    assert GuardedPath(linked / "commondir", "file") in believed.guarded


def test_submodule_as_workspace_uses_its_directory_when_that_names_it(tmp_path: Path) -> None:
    module, workspace = tmp_path / "super/.git/modules/lib", tmp_path / "super/lib"
    for name in ("objects", "refs"):
        (module / name).mkdir(parents=True)
    (module / "HEAD").touch()
    workspace.mkdir()
    (workspace / ".git").write_text("gitdir: ../.git/modules/lib\n")
    (module / "config").write_text("[core]\n\tworktree = ../../../other\n")
    assert find_protection(workspace).writable == ()
    (module / "config").write_text("[core]\n\tworktree = ../../../lib\n")
    assert find_protection(workspace).writable == (module,)


def test_links_to_the_outside_are_guarded_but_nothing_there_is_shown(tmp_path: Path) -> None:
    workspace = repository(tmp_path / "ws", "[core]\n\thooksPath = ../keys\n")
    (tmp_path / "keys").mkdir()
    (workspace / ".git/hooks").rmdir()
    (workspace / ".git/hooks").symlink_to(tmp_path / "keys")
    (workspace / ".agentcli").symlink_to(tmp_path / "keys")
    assert names(workspace) == {
        ".agentcli": "entry",
        **in_directory(".git"),
        ".git/hooks": "entry",
    }


def test_directory_that_is_no_repository_is_not_believed(tmp_path: Path) -> None:
    workspace, keys = tmp_path / "ws", tmp_path / "keys"
    false = tmp_path / "world-writable/worktrees/ws"
    for directory in (workspace, keys, false):
        directory.mkdir(parents=True)
    (workspace / ".git").write_text(f"gitdir: {false}\n")
    (false / "gitdir").write_text(f"{workspace}/.git\n")
    for common in (keys, tmp_path / "world-writable"):
        (false / "commondir").write_text(f"{common}\n")
        assert (find_protection(workspace).readable, find_protection(workspace).writable) == (
            (),
            (),
        )


def test_places_are_guarded_as_what_they_are(tmp_path: Path) -> None:
    repository(tmp_path, "[core]\n\thooksPath = script.sh\n")
    (tmp_path / "script.sh").touch()
    (tmp_path / ".git/config.worktree").mkdir()
    (tmp_path / ".git/hooks").rmdir()
    (tmp_path / ".git/hooks").touch()
    os.mkfifo(tmp_path / ".git/commondir")
    assert names(tmp_path) == {
        ".agentcli": "directory",
        **in_directory(".git"),
        ".git/hooks": "file",
        ".git/config.worktree": "directory",
        ".git/commondir": "entry",
        "script.sh": "file",
    }


def test_any_number_of_repositories_is_bounded(tmp_path: Path) -> None:
    repository(tmp_path)
    for number in range(100):
        (tmp_path / f".git/worktrees/{number}").mkdir(parents=True)
        (tmp_path / f".git/modules/{number}").mkdir(parents=True)
        (tmp_path / f".git/modules/{number}/HEAD").touch()
        (tmp_path / f"nested/{number}/.git").mkdir(parents=True)
    (tmp_path / ".git/modules" / "/".join("d" * 300)).mkdir(parents=True)
    assert len(names(tmp_path)) < 64 * 4 * 3 + 10


def test_hostile_shapes_do_not_break_the_search(tmp_path: Path) -> None:
    (tmp_path / ".git").write_bytes(b"gitdir: \xff\xfe\0../../..\n" * 5000)
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.git").symlink_to(".git")
    assert names(tmp_path) == {".agentcli": "directory", ".git": "file", "a/.git": "entry"}


def test_pins_are_the_directories_between(tmp_path: Path) -> None:
    paths = [tmp_path / ".git/hooks", tmp_path / "a/b/c", tmp_path / "top", Path("/etc/x/y")]
    assert find_pins([tmp_path], paths) == (tmp_path / ".git", tmp_path / "a", tmp_path / "a/b")


def test_hooks_and_settings_of_all_repositories_come_before_old_addresses(tmp_path: Path) -> None:
    for name in ("one", "two"):
        repository(tmp_path / name)
    found = [one.path.name for one in find_protection(tmp_path).guarded]
    assert found[-4:] == ["remotes", "branches"] * 2


def test_new_repository_is_watched_from_its_entry_on(tmp_path: Path) -> None:
    watched = {(one.path.name, one.kind) for one in guard_new_repository(tmp_path)}
    assert watched == {(".git", "entry"), ("HEAD", "entry"), *OF_GIT.items()}


def test_hooks_named_by_included_settings_are_guarded(tmp_path: Path) -> None:
    repository(tmp_path, "[include]\n\tpath = ../.gitconfig\n")
    (tmp_path / "team").mkdir()
    (tmp_path / ".gitconfig").write_text("[include]\n\tpath = team/git\n[core] hooksPath = one\n")
    (tmp_path / "team/git").write_text("[include]\n\tpath = ../.gitconfig\n[core] hooksPath=two\n")
    (tmp_path / ".git/config.worktree").write_text("[core] hooksPath = three\n")
    extra = names(tmp_path).items() - in_directory(".git").items()
    assert dict(extra) == {
        ".agentcli": "directory",
        ".gitconfig": "file",
        "team/git": "file",
        "one": "directory",
        "two": "directory",
        "three": "directory",
    }


def test_hooks_named_by_what_the_persons_settings_include_are_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = repository(tmp_path / "ws")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "instead"))
    (tmp_path / ".gitconfig").write_text("[include]\n\tpath = ~/.gitconfig.local\n")
    (tmp_path / ".gitconfig.local").write_text("[core]\n\thooksPath = .githooks\n")
    (tmp_path / "instead").write_text("[core]\n\thooksPath = .other\n")
    guarded = names(workspace)
    assert (guarded[".githooks"], guarded[".other"]) == ("directory", "directory")


def linked_worktree(main: Path, workspace: Path) -> Path:
    linked = main / ".git/worktrees/workspace"
    linked.mkdir(parents=True)
    workspace.mkdir()
    (workspace / ".git").write_text(f"gitdir: {linked}\n")
    (linked / "HEAD").touch()
    (linked / "commondir").write_text("../..\n")
    (linked / "gitdir").write_text(f"{workspace}/.git\n")
    return linked


def test_linked_worktree_has_the_hooks_of_its_repositorys_settings_guarded(tmp_path: Path) -> None:
    main = repository(tmp_path / "main", "[core]\n\thooksPath = .husky/_\n")
    linked = linked_worktree(main, tmp_path / "ws")
    module = linked / "modules/lib"
    module.mkdir(parents=True)
    (module / "HEAD").touch()
    guarded = find_protection(tmp_path / "ws").guarded
    assert GuardedPath(tmp_path / "ws/.husky", "directory") in guarded
    assert GuardedPath(module / "hooks", "directory") in guarded


def test_linked_worktree_in_the_workspace_has_its_hooks_guarded(tmp_path: Path) -> None:
    repository(tmp_path, "[core]\n\thooksPath = .githooks\n")
    linked_worktree(tmp_path, tmp_path / "tree")
    assert names(tmp_path)["tree/.githooks"] == "directory"


def test_submodule_as_workspace_has_hooks_at_its_top_guarded(tmp_path: Path) -> None:
    module, workspace = tmp_path / "super/.git/modules/lib", tmp_path / "super/lib"
    for name in ("objects", "refs"):
        (module / name).mkdir(parents=True)
    (module / "HEAD").touch()
    workspace.mkdir()
    (workspace / ".git").write_text("gitdir: ../.git/modules/lib\n")
    (module / "config").write_text("[core]\n\tworktree=../../../lib\n\thooksPath = .githooks\n")
    assert GuardedPath(workspace / ".githooks", "directory") in find_protection(workspace).guarded


def test_part_of_a_repository_has_the_hooks_in_it_guarded(tmp_path: Path) -> None:
    repository(tmp_path, "[core]\n\thooksPath = frontend/.husky/_\n")
    (tmp_path / "frontend").mkdir()
    assert names(tmp_path / "frontend") == {".agentcli": "directory", ".husky": "directory"}


def test_linked_repositories_are_guarded_wherever_they_are(tmp_path: Path) -> None:
    git("init", "-q", tmp_path)
    for number in range(100):
        repository(tmp_path / f"decoys/{number}")
    for path in ("a/b/c/d/e", "node_modules/e", "z"):
        add_link(tmp_path, path)
    add_link(tmp_path / "z", "node_modules/inner")
    guarded = names(tmp_path)
    for path in ("a/b/c/d/e", "node_modules/e", "z", "z/node_modules/inner"):
        assert in_directory(f"{path}/.git").items() <= guarded.items()


def git(*words: object) -> None:
    subprocess.run(["git", *map(str, words)], check=True, capture_output=True)


def add_link(root: Path, path: str) -> None:
    git("init", "-q", root / path)
    entry = f"160000,{'1' * 40},{path}"
    git("-C", root, "update-index", "--add", "--cacheinfo", entry)


def test_submodule_with_a_blank_in_its_path_is_found(tmp_path: Path) -> None:
    git("init", "-q", tmp_path)
    add_link(tmp_path, "a/b/c/d/e f")
    assert names(tmp_path)["a/b/c/d/e f/.git/config"] == "file"
