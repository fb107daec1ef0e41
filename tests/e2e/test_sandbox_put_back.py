import os
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from agentcli.sandbox.choose import SandboxScope, choose_sandbox
from tests.e2e.test_sandbox_protected import git, repository
from tests.support.confined import LAYERS, LIMIT_S, Confined, confined
from tests.support.program import agentcli, script

PLANT = "echo evil > .git/hooks/pre-commit; echo evil > .git/hooks/pre-push"
APART_S = 0.3
"""More than the times of files may be off."""


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    workspace = repository(tmp_path / "workspace")
    (workspace / ".git/hooks/pre-commit").write_text("mine\n")
    return workspace


def hooks(repository: Path) -> dict[str, str]:
    found = (repository / ".git/hooks").iterdir()
    return {path.name: path.read_text() for path in found if path.suffix != ".sample"}


def until(path: Path) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} was not made"
        time.sleep(0.01)


def pass_the_time() -> None:
    """Until the clock shows that what was just done is before or after a command."""
    end = time.time() + APART_S
    while time.time() < end:
        time.sleep(0.01)


def end(place: Confined, started: tuple["subprocess.Popen[bytes]", int]) -> tuple[str, ...]:
    process, output = started
    process.wait(LIMIT_S)
    os.close(output)
    return place.sandbox.finish(process)


WAIT_FOR = "while ! test -e {}; do sleep 0.02; done"


@pytest.mark.parametrize("first_to_end", ["planter", "other"])
@pytest.mark.parametrize("sandboxes", [1, 2])
def test_command_that_overlaps_another_does_not_keep_what_that_did(
    layer: str, tmp_path: Path, workspace: Path, sandboxes: int, first_to_end: str
) -> None:
    with ExitStack() as stack:
        place = stack.enter_context(confined(layer, tmp_path))
        beside = (
            stack.enter_context(confined(layer, tmp_path, session=tmp_path / "second"))
            if sandboxes == 2
            else place
        )
        planter = place.start(f"{PLANT}; touch planted; {WAIT_FOR.format('end-planter')}")
        until(workspace / "planted")
        other = beside.start(f"touch begun; {WAIT_FOR.format('end-other')}")
        until(workspace / "begun")
        both = {"planter": (place, planter), "other": (beside, other)}
        for name in sorted(both, key=lambda name: name != first_to_end):
            (workspace / f"end-{name}").touch()
            end(*both[name])
            assert hooks(workspace) == {"pre-commit": "mine\n"}

        (workspace / ".git/hooks/pre-commit").write_text("mine, and changed\n")
        (workspace / ".git/hooks/post-commit").write_text("mine too\n")
        beside.run("true")
        assert place.run("true").told == ()
        assert hooks(workspace) == {
            "pre-commit": "mine, and changed\n",
            "post-commit": "mine too\n",
        }


def test_sandbox_that_is_made_while_a_command_runs_does_not_keep_what_that_did(
    tmp_path: Path, workspace: Path
) -> None:
    with confined("landlock", tmp_path) as place:
        replace = "mv .git/hooks .git/h; mkdir evil; echo evil > evil/pre-commit; ln -s ../evil .git/hooks"
        first = place.start(f"{replace}; touch planted; {WAIT_FOR.format('end')}")
        until(workspace / "planted")
        with confined("landlock", tmp_path, session=tmp_path / "second") as beside:
            second = beside.start(WAIT_FOR.format("end"))
            (workspace / "end").touch()
            end(place, first)
            end(beside, second)
    assert not (workspace / ".git/hooks").is_symlink()
    assert hooks(workspace) == {"pre-commit": "mine\n"}


def test_commands_that_nobody_finished_do_not_count_as_running(
    tmp_path: Path, workspace: Path
) -> None:
    with confined("landlock", tmp_path) as place:
        process, output = place.start(PLANT)
        process.wait(LIMIT_S)
        os.close(output)
    assert hooks(workspace) == {"pre-commit": "mine\n"}
    (workspace / ".git/hooks/pre-commit").write_text("mine, and changed\n")
    with confined("landlock", tmp_path) as place:
        assert place.run("true").told == ()
    assert hooks(workspace) == {"pre-commit": "mine, and changed\n"}


def test_repository_that_cannot_be_written_does_not_matter(
    layer: str, tmp_path: Path, workspace: Path
) -> None:
    inner = repository(workspace / "inner")
    with confined(layer, tmp_path):
        (inner / ".git").chmod(0o555)
    try:
        choose_sandbox(
            SandboxScope(workspace=workspace, private=tmp_path / "own"), only=layer
        ).close()
        with confined(layer, tmp_path) as place:
            ran = place.run("echo works; chmod u+w inner/.git && echo ../x > inner/.git/commondir")
            assert ran.output.splitlines()[0] == "works"
            assert not (inner / ".git/commondir").exists()
    finally:
        (inner / ".git").chmod(0o755)


NAMED = {
    "missing settings": ("[include]\n\tpath = ../.gitconfig\n", ".gitconfig"),
    "settings in the line of the section": ("[include] path = ../x.cfg\n", "x.cfg"),
    "hooks in the line of the section": ("[core] hooksPath = .myhooks\n", ".myhooks/pre-commit"),
}


@pytest.mark.parametrize("case", NAMED)
def test_place_that_settings_name_is_not_made(
    layer: str, tmp_path: Path, workspace: Path, case: str
) -> None:
    setting, made = NAMED[case]
    with (workspace / ".git/config").open("a") as config:
        config.write(setting)
    with confined(layer, tmp_path) as place:
        ran = place.run(f"git status --porcelain; mkdir -p .myhooks; echo evil > {made}; true")
        assert ran.output.splitlines()[:1] != [f"?? {made}"]
        assert not (workspace / made).exists()


def test_hooks_that_the_persons_settings_name_are_not_made(
    layer: str, tmp_path: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\n\thooksPath=.githooks\n")
    monkeypatch.setenv("HOME", str(home))
    with confined(layer, tmp_path) as place:
        place.run("mkdir -p .githooks; echo evil > .githooks/pre-commit")
        assert not (workspace / ".githooks/pre-commit").exists()


def test_pointer_out_of_the_workspace_is_taken_away_and_told(
    layer: str, tmp_path: Path, workspace: Path
) -> None:
    other = repository(tmp_path / "other")
    with confined(layer, tmp_path) as place:
        told = place.run(f"mkdir new; echo 'gitdir: {other}/.git' > new/.git").told
        told += place.run("true").told
        assert [one.split(",")[0] for one in told] == ["new/.git was made by the command"]
        assert not (workspace / "new/.git").exists()


def test_repository_of_the_person_is_left_alone_and_one_of_a_command_is_cleared(
    layer: str, tmp_path: Path, workspace: Path
) -> None:
    with confined(layer, tmp_path) as place:
        place.run("git init -q theirs")
        pass_the_time()
        git(workspace, "clone", "-q", ".", "mine")
        git(workspace / "mine", "config", "alias.x", "!true")
        (workspace / "mine/.git/hooks/pre-commit").write_text("mine\n")
        git(workspace / "theirs", "config", "alias.x", "!true")
        pass_the_time()

        told = place.run("git -C mine status; git init -q made; echo evil > made/.git/hooks/x").told
        told += place.run("true").told
        assert [one.split(",")[0] for one in told] == ["made/.git/hooks was made by the command"]
        assert hooks(workspace / "mine") == {"pre-commit": "mine\n"}
        assert git(workspace / "mine", "config", "alias.x") == "!true"
        assert git(workspace / "theirs", "config", "alias.x") == "!true"


def test_what_the_last_command_left_is_told_at_the_end(
    tmp_path: Path, workspace: Path, layer: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    left = "git init -q new; git -C new config core.fsmonitor evil"
    model = script(home / "s.json", [{"calls": [{"bash": {"command": left}}]}, "done"])
    ran = agentcli(
        *("run", "-o", "stream-json", "-C", workspace, "--model", model),
        *("--mode", "auto", "--sandbox", layer, "x"),
        home=home,
    )
    if ran.code == 3:
        pytest.skip(f"{layer} does not work here: {ran.err}")
    [warned] = [one for one in ran.events if one["type"] == "warning"]
    assert warned["code"] == "sandbox.undone"
    assert warned["message"].startswith("new/.git/config was written by the command")
    assert ran.events[-1]["type"] == "result"


def test_branch_that_git_could_not_set_up_is_told_although_git_succeeds(
    tmp_path: Path, workspace: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    git(workspace, "remote", "add", "origin", "https://example.org/a.git")
    git(workspace, "update-ref", "refs/remotes/origin/side", "HEAD")
    model = script(
        home / "s.json", [{"calls": [{"bash": {"command": "git checkout side"}}]}, "done"]
    )
    ran = agentcli(
        *("run", "-o", "stream-json", "-C", workspace, "--model", model),
        *("--mode", "auto", "--sandbox", "bubblewrap", "x"),
        home=home,
    )
    if ran.code == 3:
        pytest.skip(f"bubblewrap does not work here: {ran.err}")
    [told] = [one["model_text"] for one in ran.events if one["type"] == "tool.finished"]
    assert f"[{workspace}/.git/config is protected" in told
    assert "name remote and branch in each command" in told
    assert told.endswith("[exit code 0]")


def test_what_was_taken_away_is_kept_after_the_session(tmp_path: Path, workspace: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    call = {"bash": {"command": "echo evil > .git/hooks/post-merge"}}
    model = script(home / "s.json", [{"calls": [call]}, "done"])
    ran = agentcli(
        *("run", "-o", "stream-json", "-C", workspace, "--model", model),
        *("--mode", "auto", "--sandbox", "landlock", "x"),
        home=home,
    )
    if ran.code == 3:
        pytest.skip(f"landlock does not work here: {ran.err}")
    [told] = [one["model_text"] for one in ran.events if one["type"] == "tool.finished"]
    kept = Path(told.partition("What was there is kept in ")[2].splitlines()[0].rstrip(".]"))
    assert kept.is_relative_to(home / ".local/state/agentcli/sessions")
    assert (kept / "post-merge").read_text() == "evil\n"
    assert hooks(workspace) == {"pre-commit": "mine\n"}


@pytest.mark.parametrize(
    "command", ["rm -rf .git", "mv .git moved; echo x > .git", "rm -rf .git/HEAD"]
)
def test_repository_that_a_command_destroys_is_warned_of_and_keeps_its_hooks_and_settings(
    layer: str, tmp_path: Path, workspace: Path, command: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    settings = (workspace / ".git/config").read_text()
    (workspace / "x.sh").write_text(command)
    model = script(home / "s.json", [{"calls": [{"bash": {"command": "sh x.sh"}}]}, "done"])
    ran = agentcli(
        *("run", "-o", "stream-json", "-C", workspace, "--model", model),
        *("--mode", "auto", "--sandbox", layer, "x"),
        home=home,
    )
    if ran.code == 3:
        pytest.skip(f"{layer} does not work here: {ran.err}")
    warnings = [one for one in ran.events if one["type"] == "warning"]
    # What was moved away is a repository of the command's, which loses its hooks.
    warned = [one for one in warnings if one["code"] != "sandbox.undone"]
    is_moved = (workspace / ".git/HEAD").exists()  # bubblewrap holds the directory
    assert [one["code"] for one in warned] == ([] if is_moved else ["sandbox.lost"])
    assert all(str(workspace / ".git") in one["message"] for one in warned)
    assert hooks(workspace) == {"pre-commit": "mine\n"}
    assert (workspace / ".git/config").read_text() == settings


def test_repository_that_a_command_removes_with_its_directory_stays_removed(
    tmp_path: Path, workspace: Path
) -> None:
    repository(workspace / "build/fetched")
    lost: list[Path] = []
    with confined("landlock", tmp_path, report_loss=lost.append) as place:
        ran = place.run("rm -rf build")
    assert lost == [workspace / "build"]
    assert "build was removed or replaced by the command" in "".join(ran.told)
    assert not (workspace / "build").exists()


TRY = "import time\nwhile True:\n try:\n  open('.git/config', 'a').write('[core] fsmonitor = evil\\n')\n  break\n except OSError:\n  pass"


def test_command_is_stopped_when_what_is_held_is_replaced_and_its_doings_are_undone(
    tmp_path: Path, workspace: Path
) -> None:
    with confined("bubblewrap", tmp_path) as place:
        started = place.start(f'touch begun; python3 -c "{TRY}"; sleep {LIMIT_S}')
        until(workspace / "begun")
        git(workspace, "config", "branch.main.remote", "origin")
        told = end(place, started)
        assert told[0] == (
            f"Stopped: {workspace}/.git/config was replaced or removed while it ran, "
            "and could not be kept from it any more."
        )
        assert "evil" not in (workspace / ".git/config").read_text()
        ran = place.run("echo evil >> .git/config; true")
        assert "Read-only file system" in ran.output and ran.told == ()


def test_what_the_person_sets_while_a_command_runs_stays(tmp_path: Path, workspace: Path) -> None:
    git(workspace, "remote", "add", "origin", tmp_path / "other")
    with confined("bubblewrap", tmp_path) as place:
        started = place.start(f"touch begun; sleep {LIMIT_S}")
        until(workspace / "begun")
        git(workspace, "config", "branch.main.remote", "origin")
        git(workspace, "sparse-checkout", "set", "docs")
        assert len(end(place, started)) == 1
    assert git(workspace, "config", "branch.main.remote") == "origin"
    assert git(workspace, "config", "core.sparseCheckout") == "true"


def test_hidden_file_that_is_replaced_is_not_read(tmp_path: Path) -> None:
    home = tmp_path / "workspace"
    home.mkdir()
    (home / ".netrc").write_text("the old key")
    session = home / ".local/share/agentcli/session"
    environ = {**os.environ, "HOME": str(home)}
    with confined("bubblewrap", tmp_path, environ=environ, session=session) as place:
        started = place.start(f"touch begun; sleep {LIMIT_S}; cat .netrc")
        until(home / "begun")
        (home / "new").write_text("the new key")
        (home / "new").rename(home / ".netrc")
        stopped, put_back = end(place, started)
        assert stopped.startswith("Stopped: ")
        assert ".netrc was changed" in put_back and (home / ".netrc").read_text() == "the old key"
        saved = Path(put_back.rsplit(" ", 1)[-1].rstrip("."))
        assert saved.read_text() == "the new key"
        assert "key" not in place.run("cat .netrc").output
