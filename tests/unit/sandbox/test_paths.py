import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from agentcli.permissions.git_reads import why_not_inert
from agentcli.sandbox.paths import (
    SandboxPaths,
    SandboxScope,
    _find_hidden,
    iter_outermost,
    list_granted,
    survey_paths,
)
from agentcli.sandbox.protect import find_protection
from agentcli.types.grants import Grants


def look(base: Path, **environ: str) -> SandboxPaths:
    (base / "ws").mkdir(exist_ok=True)
    return survey_paths(
        SandboxScope(
            workspace=base / "ws",
            private=base / "private",
            readable=(base / "kept",),
            protected=(base / "ws/own", base / "elsewhere"),
        ),
        {"HOME": str(base / "home"), "PATH": "/usr/bin", **environ},
    )


def test_survey_makes_the_private_directory_ready(tmp_path: Path) -> None:
    places = look(tmp_path)
    assert stat.S_IMODE(places.home.stat().st_mode) == 0o700
    assert places.temporary.is_dir()
    assert "directory = *" in (places.home / ".gitconfig").read_text()
    assert places.variables["HOME"] == str(places.home)


def test_only_what_is_in_the_workspace_needs_protection(tmp_path: Path) -> None:
    assert look(tmp_path).protected == (tmp_path / "ws/own",)


def test_private_directory_in_the_workspace_is_protected(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    places = survey_paths(
        SandboxScope(workspace=tmp_path / "ws", private=tmp_path / "ws/private"),
        {"HOME": str(tmp_path / "home")},
    )
    assert places.protected == (tmp_path / "ws/private",)


def test_links_to_the_workspace_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "ws").symlink_to("real")
    assert look(tmp_path).workspace == tmp_path / "real"


def test_keys_are_hidden_only_where_the_home_directory_is_the_workspace(tmp_path: Path) -> None:
    home = tmp_path / "ws"
    (home / ".ssh").mkdir(parents=True)
    (home / ".bashrc").touch()
    at_home = look(tmp_path, HOME=str(home))
    assert (home / ".ssh" in at_home.hidden, at_home.is_home) == (True, True)
    assert home / ".bashrc" in at_home.protected
    elsewhere = look(tmp_path)
    assert (home / ".ssh" in elsewhere.hidden, elsewhere.is_home) == (False, False)


def test_files_that_not_everybody_may_read_are_hidden(tmp_path: Path) -> None:
    (tmp_path / "public").mkdir()
    (tmp_path / "public/open").write_text("x")
    (tmp_path / "public/key").write_text("x")
    (tmp_path / "public/key").chmod(0o600)
    (tmp_path / "public/empty").touch(0o600)
    (tmp_path / "keys").mkdir(0o700)
    (tmp_path / "link").symlink_to("public/key")
    for path in (tmp_path, tmp_path / "public", tmp_path / "public/open"):
        path.chmod(0o755)
    assert sorted(_find_hidden(tmp_path)) == [tmp_path / "keys", tmp_path / "public/key"]


def test_outermost_leaves_out_what_lies_in_another() -> None:
    paths = map(Path, ("/a/b", "/a", "/c/d", "/ab", "/e/f"))
    assert list(iter_outermost(paths, outside_of=[Path("/e")])) == [
        Path("/a"),
        Path("/ab"),
        Path("/c/d"),
    ]


def test_whole_machine_is_not_granted(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    (tmp_path / "ws").mkdir()
    (tmp_path / "other").mkdir()
    places = survey_paths(
        SandboxScope(workspace=tmp_path / "ws", private=tmp_path / "private"),
        {"HOME": str(tmp_path / "nobody")},
    )
    wanted = (Path("/"), tmp_path / "link", tmp_path / "other", tmp_path / "ws", Path("/nowhere"))
    assert list_granted(Grants(writable=wanted), places) == (tmp_path / "other",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look everywhere")
def test_forbidden_directories_of_the_path_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "closed/bin").mkdir(parents=True)
    (tmp_path / "closed").chmod(0)
    try:
        assert look(tmp_path, PATH=f"{tmp_path}/closed/bin").toolchains == ()
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_git_of_the_workspace_is_not_asked_who_commits(tmp_path: Path) -> None:
    program = tmp_path / "ws/bin/git"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    look(tmp_path, PATH=f"{program.parent}:.:/usr/bin:/bin", VIRTUAL_ENV=f"{tmp_path}/ws")
    assert not (tmp_path / "ran").exists()


USER_SETTINGS = """[user]
\tname = "A \\"B\\" C\\\\D"
[core]
\texcludesFile = ~/.gitignore_global
\tautocrlf = input
\ttrustctime = false
\tpager = evil
\thooksPath = evil
\tfsmonitor = evil
\teditor = evil
\tsshCommand = evil
[init]
\tdefaultBranch = trunk
\ttemplateDir = evil
[pull]
\trebase
[commit]
\tgpgSign = true
\ttemplate = evil
[alias]
\tst = !evil
[credential]
\thelper = evil
[filter "x"]
\tclean = evil
[merge "x"]
\tdriver = evil
[url "evil"]
\tinsteadOf = https://
"""


@pytest.fixture
def user_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    (home / ".gitconfig").write_text(USER_SETTINGS)
    return home


def ask_git(home: Path, *words: str, cwd: Path) -> str:
    env = {"HOME": str(home), "PATH": os.environ["PATH"]}
    ran = subprocess.run(["git", *words], cwd=cwd, env=env, capture_output=True, text=True)
    return ran.stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_git_of_commands_has_the_users_harmless_settings(tmp_path: Path, user_home: Path) -> None:
    (user_home / ".gitignore_global").write_text(".idea/\n")
    home = look(tmp_path).home
    settings = ask_git(home, "config", "--global", "--list", cwd=tmp_path)
    assert sorted(settings.splitlines()) == [
        "core.autocrlf=input",
        "core.trustctime=false",
        "init.defaultbranch=trunk",
        "pull.rebase=true",
        "safe.directory=*",
        'user.name=A "B" C\\D',
    ]
    repository = tmp_path / "ws"
    ask_git(home, "init", cwd=repository)
    (repository / ".idea").mkdir()
    (repository / ".idea/x").touch()
    assert ask_git(home, "status", "--short", "--branch", cwd=repository) == (
        "## No commits yet on trunk\n"
    )
    assert why_not_inert(repository, home=home) is None


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("condition", ["gitdir:{ws}/", "hasconfig:remote.*.url:https://work/**"])
def test_git_of_commands_has_the_users_settings_for_this_repository(
    tmp_path: Path, user_home: Path, condition: str
) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    ask_git(user_home, "init", cwd=workspace)
    ask_git(user_home, "remote", "add", "origin", "https://work/x", cwd=workspace)
    included = f'[includeIf "{condition.format(ws=workspace.resolve())}"]\n\tpath = work\n'
    (user_home / ".gitconfig").write_text(USER_SETTINGS + included)
    (user_home / "work").write_text("[user]\n\temail = me@work\n[core]\n\tpager = evil\n")
    (workspace / ".git/config").open("a").write("[user]\n\tname = other\n")

    settings = ask_git(look(tmp_path).home, "config", "--global", "--list", cwd=tmp_path)

    assert "user.email=me@work" in settings
    assert "evil" not in settings and "other" not in settings


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("broken", ["gitdir: /nowhere\n", "nonsense"])
def test_repository_that_git_cannot_read_does_not_take_the_users_settings(
    tmp_path: Path, user_home: Path, broken: str
) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/.git").write_text(broken)
    settings = ask_git(look(tmp_path).home, "config", "--global", "--list", cwd=tmp_path)
    assert "core.autocrlf=input" in settings


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_link_in_the_workspace_does_not_lead_to_a_secret(tmp_path: Path, user_home: Path) -> None:
    (user_home / "secret").write_text("a secret")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/ignore").symlink_to(user_home / "secret")
    (user_home / ".gitignore_global").symlink_to(tmp_path / "ws/ignore")
    home = look(tmp_path).home
    assert not (home / ".config/git/ignore").exists()


def test_what_runs_at_the_login_is_protected_before_it_exists(tmp_path: Path) -> None:
    home = tmp_path / "ws"
    home.mkdir()
    protected = look(tmp_path, HOME=str(home)).protected
    kinds = {one.path: one.kind for one in find_protection(home, protected).guarded}
    assert kinds[home / ".bash_profile"] == "file"
    assert kinds[home / ".ssh"] == "directory"
    assert kinds[home / ".config/autostart"] == "directory"
