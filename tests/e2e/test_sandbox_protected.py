import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.confined import LAYERS, Confined, confined

IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}
CANARY = "evil"


def git(directory: Path, *arguments: str | Path) -> str:
    done = subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *arguments],
        cwd=directory,
        env={**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": "/dev/null"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def repository(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init", "-q", "-b", "main")
    (directory / "file").write_text("1\n")
    git(directory, "add", ".")
    git(directory, "commit", "-qm", "first")
    return directory


def settings(workspace: Path) -> dict[str, str]:
    """All that runs or redirects later: of every git directory, and our own."""
    found = {}
    for path in sorted(workspace.rglob("*")):
        names = path.relative_to(workspace).parts
        guarded = {"hooks", "config", "config.worktree", "commondir", "gitdir", ".agentcli"}
        is_pointer = path.name == ".git" and (path.is_file() or path.is_symlink())
        if is_pointer or (guarded & set(names) and (".git" in names or ".agentcli" in names)):
            if path.is_symlink():
                found[str(path)] = f"-> {path.readlink()}"
            elif path.is_file():
                found[str(path)] = path.read_text()
            else:
                found[str(path)] = "directory"
    return found


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


ATTACKS = {
    "writes a hook": "echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "changes a sample": "echo evil >> .git/hooks/pre-commit.sample",
    "renames a sample": "mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
    "links a hook": "ln -s $PWD/file .git/hooks/pre-push; ln file .git/hooks/post-commit",
    "removes the hooks": "rm -rf .git/hooks",
    "replaces the hooks": "rm -rf .git/hooks; mkdir evil; echo evil > evil/pre-commit; ln -s ../evil .git/hooks",
    "moves the hooks away": "mv .git/hooks .git/h; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
    "writes the settings": "printf '[core]\\n\\tfsmonitor = evil\\n' >> .git/config",
    "sets by git": "git config core.fsmonitor evil; git config --worktree core.pager evil",
    "replaces the settings": "cp .git/config c; echo '[alias]' >> c; mv -f c .git/config",
    "removes the settings": "rm -f .git/config",
    "links the settings": "ln -sf ../evil .git/config; echo '[core]' > evil",
    "truncates the settings": ": > .git/config; truncate -s 0 .git/config",
    "writes settings of the worktree": "echo '[core]' > .git/config.worktree",
    "redirects to another directory": "mkdir -p evil; echo ../evil > .git/commondir",
    "changes modes": "chmod 777 .git/hooks; chmod 666 .git/config; chmod 000 .git/hooks",
    "writes our settings": "mkdir -p .agentcli; echo evil > .agentcli/settings.toml",
    "links our settings": "mkdir evil; ln -s evil .agentcli",
    "puts a pipe there": "rm -f .git/config; mkfifo .git/config; mkfifo .agentcli",
    "makes it deep": "cd .git/hooks && for i in $(seq 60); do mkdir d && cd d; done",
    "makes it many": "cd .git/hooks && for i in $(seq 3000); do : > $i; done",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_settings_of_a_repository_stay_as_they_are(layer: str, tmp_path: Path, attack: str) -> None:
    repository(tmp_path / "workspace")
    before = settings(tmp_path / "workspace")
    with confined(layer, tmp_path) as place:
        place.run(ATTACKS[attack])
        assert settings(place.workspace) == before
        assert git(place.workspace, "log", "--format=%s") == "first"


BARE = {
    "writes a hook": "echo evil > hooks/post-update; chmod +x hooks/post-update",
    "replaces the hooks": "mv hooks h; mkdir hooks evil; echo evil > hooks/pre-receive",
    "removes the hooks": "rm -rf hooks",
    "writes the settings": "printf '[core]\\n\\tfsmonitor = evil\\n' >> config",
    "sets by git": "git --git-dir=. config core.pager evil",
    "redirects to another directory": "mkdir evil; cp -r hooks config evil; echo evil > commondir",
}


@pytest.mark.parametrize("attack", BARE)
def test_settings_of_a_bare_repository_stay_as_they_are(
    layer: str, tmp_path: Path, attack: str
) -> None:
    source = repository(tmp_path / "source")
    workspace = tmp_path / "workspace"
    git(tmp_path, "clone", "-q", "--bare", source, workspace)
    parts = ("hooks", "config", "commondir", "config.worktree")

    def read() -> dict[str, str]:
        paths = (one for name in parts for one in (workspace / name, *workspace.glob(f"{name}/*")))
        return {str(path): path.read_text() for path in paths if path.is_file()}

    before = read()
    with confined(layer, tmp_path) as place:
        place.run(BARE[attack])
    assert read() == before
    assert git(workspace, "log", "--format=%s") == "first"


AWAY = {
    "moves it": "mv .git moved && mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit",
    "replaces it by a link": "mv .git moved; ln -s moved .git; ln -sfn moved .git",
    "replaces it by a link outside": "rm -rf .git; ln -s {outside} .git",
    "replaces it by a pointer": "mv .git moved; echo 'gitdir: moved' > .git; rm -rf .git; echo 'gitdir: x' > .git",
    "makes another": "rm -rf .git; git init -q .; echo evil > .git/hooks/pre-commit; git config core.fsmonitor evil",
}


@pytest.mark.parametrize("attack", AWAY)
def test_false_repository_does_not_stay(layer: str, tmp_path: Path, attack: str) -> None:
    repository(tmp_path / "workspace")
    with confined(layer, tmp_path) as place:
        place.run(AWAY[attack].format(outside=place.outside))
        git_path = place.workspace / ".git"
        assert not git_path.is_symlink() and not git_path.is_file()
        assert CANARY not in "".join(settings(place.workspace).values())
        assert sorted(path.name for path in place.outside.iterdir()) == ["secret.txt"]


NEW = {
    "a hook": "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
    "settings": "git init -q .; git config core.fsmonitor evil",
    "settings by hand": "git init -q .; printf '[core]\\n fsmonitor = evil\\n' > .git/config",
    "a hook in a new repository": "git init -q .; echo evil > .git/hooks/pre-commit",
    "a redirection": "git init -q .; mkdir evil; echo ../evil > .git/commondir",
    "a pointer": "git init -q --separate-git-dir evil . ; true",
    "a link": "mkdir evil; ln -s evil .git",
    "a bare one": "git init -q --bare .; git --git-dir . config core.fsmonitor evil",
    "our settings": "mkdir .agentcli; echo evil > .agentcli/settings.toml",
    "our settings by a link": "mkdir evil; echo evil > evil/settings.toml; ln -s evil .agentcli",
}


@pytest.mark.parametrize("attack", NEW)
def test_missing_settings_are_not_made(layer: str, tmp_path: Path, attack: str) -> None:
    with confined(layer, tmp_path) as place:
        place.run(NEW[attack])
        assert CANARY not in "".join(settings(place.workspace).values())
        assert not (place.workspace / ".git").is_symlink()
        assert not (place.workspace / ".git").is_file()
        assert not (place.workspace / ".agentcli").exists()
        assert not (place.workspace / "HEAD").exists()


@pytest.mark.parametrize("has_settings", [True, False])
def test_settings_of_mercurial_stay_as_they_are(
    layer: str, tmp_path: Path, has_settings: bool
) -> None:
    hg = tmp_path / "workspace" / ".hg"
    hg.mkdir(parents=True)
    if has_settings:
        (hg / "hgrc").write_text("mine")
    with confined(layer, tmp_path) as place:
        place.run("echo evil > .hg/hgrc; echo evil > .hg/hgrc-not-shared; echo x > .hg/store")
        assert (hg / "hgrc").exists() is has_settings
        assert not has_settings or (hg / "hgrc").read_text() == "mine"
        assert not (hg / "hgrc-not-shared").exists()
        assert (hg / "store").exists()


def test_settings_of_a_new_repository_of_mercurial_are_not_made(layer: str, tmp_path: Path) -> None:
    with confined(layer, tmp_path) as place:
        made = (
            "mkdir .hg; echo evil > .hg/hgrc; echo evil > .hg/hgrc-not-shared; echo x > .hg/store"
        )
        told = place.run(made).told
        hg = place.workspace / ".hg"
        assert [path.name for path in hg.iterdir()] == ["store"]
        assert [one.split(" was made")[0] for one in told] == [".hg/hgrc", ".hg/hgrc-not-shared"]


def test_repository_can_be_made_and_used(layer: str, tmp_path: Path) -> None:
    with confined(layer, tmp_path, environ={**os.environ, **IDENTITY}) as place:
        made = place.run("git init -q . && echo 1 > a && git add a && git commit -qm one")
        used = place.run("echo 2 > a && git commit -qam two && git log --format=%s")
        assert (made.code, made.told, used.code, used.told, used.output) == (
            0,
            (),
            0,
            (),
            "two\none\n",
        )
        assert git(place.workspace, "status", "--porcelain") == ""


def test_settings_of_a_new_repository_that_run_nothing_stay(layer: str, tmp_path: Path) -> None:
    with confined(layer, tmp_path, environ={**os.environ, **IDENTITY}) as place:
        for name in (".", "new"):
            place.run(f"git init -q {name} && git -C {name} commit -q --allow-empty -m one")
        for name in (".", "new"):
            ran = place.run(
                f"cd {name} && git remote add origin https://example.org/a/b.git && "
                "git config branch.main.remote origin && git config pull.rebase true"
            )
            assert (ran.code, ran.told) == (0, ())
        told = place.run("git -C new config core.fsmonitor evil").told
        told += place.run("git config core.fsmonitor evil").told
        assert len(told) == 2
        for name in (".", "new"):
            assert git(place.workspace / name, "config", "remote.origin.url")
            assert git(place.workspace / name, "config", "pull.rebase") == "true"
            assert CANARY not in (place.workspace / name / ".git/config").read_text()


BARE_SETTINGS = """\
[core]
	repositoryformatversion = 0
	bare = false
	worktree = .
	fsmonitor = touch {}
"""
BECOMING_BARE = {
    "by commands": (
        "echo 'ref: refs/heads/main' > HEAD",
        "mkdir objects refs; cp {settings} config",
    ),
    "by a file that was there": (
        "cp {settings} config; echo 'ref: refs/heads/main' > HEAD",
        "mkdir objects refs",
    ),
}


@pytest.mark.parametrize("name", [".", "sub"])
@pytest.mark.parametrize("way", BECOMING_BARE)
def test_directory_that_becomes_a_repository_runs_nothing(
    layer: str, tmp_path: Path, name: str, way: str
) -> None:
    with confined(layer, tmp_path) as place:
        directory = place.workspace / name
        directory.mkdir(exist_ok=True)
        settings = place.workspace / "settings"
        settings.write_text(BARE_SETTINGS.format(tmp_path / "evil"))
        for command in BECOMING_BARE[way]:
            place.run(command.format(settings=settings), cwd=name)
        place.run("true")
        words = ("git", "-C", directory, "status")
        subprocess.run(words, capture_output=True, check=False)
        assert not (tmp_path / "evil").exists()


WAYS_TO_A_DIRECTORY = {
    "a branch": "git config branch.main.remote ./other.git;"
    "git config branch.main.merge refs/heads/main",
    "a file of a remote": "mkdir -p .git/remotes; echo 'URL: ./other.git' > .git/remotes/origin",
    "a file of a branch": "mkdir -p .git/branches; echo ./other.git > .git/branches/origin",
}


@pytest.mark.parametrize("name", [".", "new"])
@pytest.mark.parametrize("way", WAYS_TO_A_DIRECTORY)
def test_push_from_a_new_repository_runs_no_hook_of_a_command(
    layer: str, tmp_path: Path, name: str, way: str
) -> None:
    with confined(layer, tmp_path, environ={**os.environ, **IDENTITY}) as place:
        ran = place.run(
            f"git init -q -b main {name} && cd {name} && git commit -q --allow-empty -m one && "
            "git init -q --bare other.git && "
            f"printf '#!/bin/sh\ntouch {tmp_path}/evil\n' > other.git/hooks/pre-receive && "
            f"chmod +x other.git/hooks/pre-receive && {WAYS_TO_A_DIRECTORY[way]}"
        )
        assert ran.code == 0, ran.output
        place.run("true")
        for words in (("push",), ("push", "origin", "main")):
            pushed = ("git", "-C", place.workspace / name, *words)
            subprocess.run(pushed, capture_output=True, check=False)
        assert not (tmp_path / "evil").exists()


def test_violation_is_told(layer: str, tmp_path: Path) -> None:
    with confined(layer, tmp_path) as place:
        ran = place.run("git init -q .; echo evil > .git/hooks/pre-commit")
        [kept] = (place.private / "rejected").iterdir()
        assert ran.told == (
            ".git/hooks was made by the command, and has been removed. Git's hooks and settings, "
            f"agentcli's own and what rules deny are read-only. What was there is kept in {kept}.",
        )
        assert (kept / "pre-commit").read_text() == "evil\n"


def test_nothing_is_left_of_what_was_held(layer: str, tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    before = sorted(workspace.rglob("*"))
    with confined(layer, tmp_path) as place:
        first, output = place.start("sleep 1")
        place.run("true")
        place.run("echo evil > .git/commondir; mkdir .agentcli")
        first.wait()
        place.sandbox.finish(first)
        os.close(output)
    assert sorted(workspace.rglob("*")) == before


def test_git_works_outside_while_a_command_runs(layer: str, tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    with confined(layer, tmp_path) as place:
        process, output = place.start("sleep 5")
        (workspace / "file").write_text("2\n")
        git(workspace, "commit", "-qam", "second")
        assert git(workspace, "log", "--format=%s") == "second\nfirst"
        process.kill()
        process.wait()
        place.sandbox.finish(process)
        os.close(output)


def _submodule(base: Path) -> Path:
    repository(base / "library")
    workspace = repository(base / "workspace")
    git(workspace, "submodule", "add", "-q", str(base / "library"), "deep/er/library")
    git(workspace, "commit", "-qm", "with submodule")
    return workspace


def _nested(base: Path) -> Path:
    workspace = repository(base / "workspace")
    repository(workspace / "packages" / "inner")
    return workspace


def _worktree_inside(base: Path) -> Path:
    workspace = repository(base / "workspace")
    git(workspace, "worktree", "add", "-q", "tree")
    return workspace


def _hooks_elsewhere(base: Path) -> Path:
    workspace = repository(base / "workspace")
    git(workspace, "config", "core.hooksPath", ".githooks")
    git(workspace, "config", "include.path", "../shared.cfg")
    (workspace / "shared.cfg").write_text("[core]\n")
    return workspace


SHAPES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "submodule": (
        _submodule,
        "echo evil > .git/modules/deep/er/library/hooks/pre-commit;"
        "git -C deep/er/library config core.fsmonitor evil;"
        "echo evil >> .git/modules/deep/er/library/config;"
        "echo 'gitdir: evil' > deep/er/library/.git; rm -f deep/er/library/.git;"
        "mv .git/modules moved; mv deep moved2",
    ),
    "nested": (
        _nested,
        "echo evil > packages/inner/.git/hooks/x; git -C packages/inner config core.fsmonitor evil;"
        "mv packages moved; cp -r moved packages; echo evil > packages/inner/.git/config",
    ),
    "worktree": (
        _worktree_inside,
        "echo evil > .git/worktrees/tree/commondir; echo evil > .git/worktrees/tree/config.worktree;"
        "echo 'gitdir: evil' > tree/.git",
    ),
    "hooks elsewhere": (
        _hooks_elsewhere,
        "mkdir -p .githooks; echo evil > .githooks/pre-commit; echo '[core] fsmonitor=evil' > shared.cfg",
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_settings_of_other_repositories_stay_as_they_are(
    layer: str, tmp_path: Path, shape: str
) -> None:
    build, attack = SHAPES[shape]
    workspace = build(tmp_path)
    before = settings(workspace)
    with confined(layer, tmp_path) as place:
        place.run(attack)
    after = {path: text for path, text in settings(workspace).items() if "moved" not in path}
    if layer == "bubblewrap":
        assert after == before
    else:  # what was moved away stays away, but nothing false is in its place
        assert after.items() <= before.items()
    assert not (workspace / ".githooks").exists()
    assert CANARY not in "".join(path.read_text() for path in workspace.glob("shared.cfg"))


def _linked_worktree_with_hooks(base: Path) -> Path:
    main = repository(base / "main")
    git(main, "config", "core.hooksPath", ".githooks")
    git(main, "worktree", "add", "-q", "-b", "side", base / "workspace")
    return base / "workspace"


def _submodule_with_hooks(base: Path) -> Path:
    repository(base / "library")
    outer = repository(base / "outer")
    git(outer, "submodule", "add", "-q", base / "library", "lib")
    git(outer / "lib", "config", "core.hooksPath", ".githooks")
    (base / "workspace").symlink_to(outer / "lib")
    return base / "workspace"


def _included_with_hooks(base: Path) -> Path:
    workspace = repository(base / "workspace")
    git(workspace, "config", "include.path", "../.gitconfig")
    (workspace / ".gitconfig").write_text("[core]\n\thooksPath = .githooks\n")
    return workspace


@pytest.mark.parametrize(
    "build", [_linked_worktree_with_hooks, _submodule_with_hooks, _included_with_hooks]
)
def test_hooks_that_other_settings_name_are_not_planted(
    layer: str, tmp_path: Path, build: Callable[[Path], Path]
) -> None:
    workspace = build(tmp_path)
    with confined(layer, tmp_path) as place:
        place.run("mkdir -p .githooks; echo evil > .githooks/pre-commit")
    assert not (workspace / ".githooks").exists()


@pytest.mark.parametrize("path", ["a/b/c/d/e", "node_modules/e"])
def test_repository_that_git_status_enters_runs_nothing(
    layer: str, tmp_path: Path, path: str
) -> None:
    workspace = repository(tmp_path / "workspace")
    with confined(layer, tmp_path, environ={**os.environ, **IDENTITY}) as place:
        ran = place.run(
            f"git init -q {path} && cd {path} && git commit -q --allow-empty -m x &&"
            f"printf '#!/bin/sh\ntouch {workspace}/evil\n' > hook; chmod +x hook;"
            "git config core.fsmonitor $PWD/hook; cd -;"
            f"git update-index --add --cacheinfo 160000,$(git -C {path} rev-parse HEAD),{path};"
            f"rm -f evil"
        )
        assert ran.code == 0, ran.output
        told = place.run("true").told
    git(workspace, "status")
    assert [sentence.split(" was written")[0] for sentence in (*ran.told, *told)] == [
        f"{path}/.git/config"
    ]
    assert not (workspace / "evil").exists()


@pytest.fixture
def linked(layer: str, tmp_path: Path) -> Iterator[Confined]:
    main = repository(tmp_path / "main")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace").rmdir()
    git(main, "worktree", "add", "-q", "-b", "side", tmp_path / "workspace")
    with confined(layer, tmp_path, environ={**os.environ, **IDENTITY}) as place:
        yield place


def test_linked_worktree_commits_to_its_repository(linked: Confined) -> None:
    ran = linked.run(
        "echo 2 > file && git commit -qam second && git log --format=%s && git status -s"
    )
    assert (ran.code, ran.output, ran.told) == (0, "second\nfirst\n", ())


def test_linked_worktree_does_not_change_its_repositorys_settings(linked: Confined) -> None:
    main = linked.workspace.parent / "main"
    linked.run("true")  # placeholders are held until the first command
    before = {**settings(main), **settings(linked.workspace)}
    linked.run(
        f"echo evil > {main}/.git/hooks/x; echo evil >> {main}/.git/config; echo evil > {main}/file;"
        f"echo evil > {main}/.git/HEAD; echo evil > {main}/.git/worktrees/workspace/commondir;"
        "git config core.fsmonitor evil; echo 'gitdir: evil' > .git"
    )
    assert {**settings(main), **settings(linked.workspace)} == before
    assert (main / "file").read_text() == "1\n"
    assert (main / ".git/HEAD").read_text() == "ref: refs/heads/main\n"


def test_pointer_to_somebody_elses_repository_is_not_believed(layer: str, tmp_path: Path) -> None:
    other = repository(tmp_path / "other")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/.git").write_text(f"gitdir: {other}/.git\n")
    with confined(layer, tmp_path) as place:
        ran = place.run(f"git log; cat {other}/.git/config; touch {other}/.git/new")
        assert "first" not in ran.output and "[core]" not in ran.output
        assert not (other / ".git/new").exists()


def test_virtual_environment_of_a_repository_opens_nothing(layer: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "bin").mkdir(parents=True)
    (outside / "bin/python").write_text("#!/bin/sh\n")
    (outside / "bin/python").chmod(0o755)
    environment = tmp_path / "workspace/.venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text(f"home = {outside}/bin\n")
    (environment / "bin/python").symlink_to(outside / "bin/python")
    with confined(layer, tmp_path) as place:
        ran = place.run(f"cat {outside}/bin/python {outside}/secret.txt")
        assert "#!/bin/sh" not in ran.output and "the secret" not in ran.output


def test_links_in_a_repository_show_nothing_outside(layer: str, tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("pre-commit", "secret.txt"):
        (outside / name).write_text("the secret outside")
    for sample in (workspace / ".git/hooks").iterdir():
        sample.unlink()
    (workspace / ".git/hooks").rmdir()
    (workspace / ".git/hooks").symlink_to(outside)
    (workspace / ".agentcli").symlink_to(outside)
    with confined(layer, tmp_path) as place:
        ran = place.run(
            f"cat .git/hooks/* .agentcli/* {outside}/*; echo evil > .git/hooks/pre-commit"
        )
        assert "the secret outside" not in ran.output
        assert (outside / "pre-commit").read_text() == "the secret outside"


def test_home_directory_as_workspace_keeps_its_keys_and_its_shell(
    layer: str, tmp_path: Path
) -> None:
    if layer == "landlock" and os.geteuid() != 0:
        pytest.skip("Landlock alone cannot hide keys, and is not used")
    home = tmp_path / "workspace"
    keys = (".ssh/id_ed25519", ".netrc", ".pgpass", ".config/rclone/rclone.conf", ".my.cnf")
    for name in keys:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("the key")
    (home / ".bashrc").write_text("# mine\n")
    session = home / ".local/share/agentcli/session"
    with confined(
        layer, tmp_path, environ={**os.environ, "HOME": str(home)}, session=session
    ) as place:
        (place.kept / "1.log").write_text("kept")
        ran = place.run(f"touch new; echo evil >> .bashrc; cat .ssh/* {' '.join(keys)}; cat ~/x")
        tampered = place.run(
            f"echo evil > {place.kept}/1.log; rm -rf {place.private}/nothing; mv .local moved;"
            f"ln -s {place.outside} {place.private}/nothing; ls -la /etc/ssl/private .ssh"
        )
        assert (home / "new").exists()
        assert "the key" not in ran.output
        assert (home / ".bashrc").read_text() == "# mine\n"
        if layer == "landlock":
            pytest.skip("records of sessions cannot be taken out of a writable directory")
        assert (place.kept / "1.log").read_text() == "kept"
        assert "secret.txt" not in tampered.output
        assert (home / ".ssh/id_ed25519").read_text() == "the key"


AT_LOGIN = (
    *(".bash_profile", ".zshenv", ".gitconfig", ".ssh/authorized_keys", ".local/bin/ls"),
    *(".config/git/config", ".config/autostart/x.desktop", ".config/systemd/user/x.service"),
    *(".vimrc", ".config/nvim/init.lua", ".tmux.conf", ".npmrc", ".claude/settings.json"),
    *(".local/lib/python3.11/site-packages/usercustomize.py", ".cargo/config.toml", "bin/ls"),
)


def test_home_directory_as_workspace_gets_nothing_that_runs_at_the_login(
    layer: str, tmp_path: Path
) -> None:
    home = tmp_path / "workspace"
    home.mkdir()
    with confined(layer, tmp_path, environ={**os.environ, "HOME": str(home)}) as place:
        ran = place.run(
            f"for f in {' '.join(AT_LOGIN)}; do mkdir -p $(dirname $f); echo evil > $f; done; touch new"
        )
    assert [name for name in AT_LOGIN if (home / name).exists()] == []
    assert ".bash_profile was made by the command" in "".join(ran.told)
    assert (home / "new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root works in the files of others")
def test_root_works_in_the_workspace_of_somebody_else(layer: str, tmp_path: Path) -> None:
    workspace = repository(tmp_path / "workspace")
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, 65534, 65534)
    before = settings(workspace)
    with confined(layer, tmp_path, environ={**os.environ, **IDENTITY}) as place:
        ran = place.run(
            "echo 2 > file && mkdir new && echo 3 > new/file && git add . && git commit -qm second &&"
            "git log --format=%s; echo evil > .git/hooks/x; echo evil > .git/config; cat /etc/shadow;"
            f"cat {place.secret}; echo gone > {place.secret}; echo x > /proc/sys/kernel/hostname;"
            "grep CapEff /proc/self/status; kill -0 1 && cat /proc/1/environ"
        )
        assert ran.output.splitlines()[:2] == ["second", "first"]
        assert "0000000000000002" in ran.output
        assert "root:" not in ran.output and "the secret" not in ran.output
        assert settings(workspace) == before
        assert place.secret.read_text() == "the secret outside"
