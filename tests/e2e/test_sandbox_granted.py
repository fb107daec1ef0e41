import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcli.types.grants import Grants
from tests.support.confined import LAYERS, Confined, confined

ATTACKS = {
    "a hook": "echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "a setting": "git config core.fsmonitor ./evil; echo '[core] pager = evil' >> .git/config",
    "settings replaced": "mv .git/config .git/old; echo '[core] pager = evil' > .git/config",
    "the repository replaced": "mv .git away; mkdir -p .git/hooks; echo e > .git/hooks/pre-commit",
}


@pytest.fixture(params=LAYERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Confined]:
    with confined(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def other(place: Confined) -> Path:
    """A repository beside the workspace."""
    other = place.outside / "other"
    subprocess.run(["git", "init", "-q", str(other)], check=True)
    return other


def read_settings(repository: Path) -> tuple[str, set[str]]:
    hooks = repository / ".git/hooks"
    names = {path.name for path in hooks.iterdir() if not path.name.endswith(".sample")}
    return (repository / ".git/config").read_text(), names


@pytest.mark.parametrize("attack", ATTACKS)
def test_git_settings_in_a_granted_directory_stay_as_they_are(
    place: Confined, other: Path, attack: str
) -> None:
    before = read_settings(other)
    grants = Grants(writable=(other,))
    place.run(f"cd {other}; {ATTACKS[attack]}; echo work > file", confinement=grants)
    assert read_settings(other) == before
    assert (other / "file").read_text() == "work\n"


def test_commit_in_a_granted_repository_works(place: Confined, other: Path) -> None:
    identity = "-c user.name=A -c user.email=a@example.org"
    ran = place.run(
        f"cd {other} && echo 1 > a && git add a && git {identity} commit -qm one",
        confinement=Grants(writable=(other,)),
    )
    assert (ran.code, ran.told) == (0, ())
    listed = subprocess.run(
        ["git", "-C", other, "log", "--format=%s"], capture_output=True, text=True, check=True
    )
    assert listed.stdout == "one\n"


def test_repository_made_in_a_granted_directory_runs_nothing(place: Confined, other: Path) -> None:
    grants = Grants(writable=(other,))
    made = f"cd {other} && mkdir -p new && cd new && git init -q . && git config core.pager evil"
    place.run(made, confinement=grants)
    place.run("true", confinement=grants)  # the scan is made after the command
    assert (other / "new/.git/HEAD").exists()
    assert "evil" not in (other / "new/.git/config").read_text()


def test_granted_directory_is_read_and_not_written(place: Confined, other: Path) -> None:
    (other / "notes").write_text("known\n")
    (other / "tool").write_text("#!/bin/sh\necho ran\n")
    (other / "tool").chmod(0o755)
    ran = place.run(
        f"cat {other}/notes; {other}/tool; echo new > {other}/notes || echo refused",
        confinement=Grants(readable=(other,)),
    )
    assert ran.output.splitlines()[:2] == ["known", "ran"]
    assert ran.output.endswith("refused\n")
    assert (other / "notes").read_text() == "known\n"
    assert place.run(f"cat {other}/notes").code != 0


def test_granted_directory_that_vanishes_stops_no_command(place: Confined, other: Path) -> None:
    grants = Grants(writable=(other,), readable=(place.outside / "never",))
    assert place.run(f"touch {other}/a", confinement=grants).code == 0
    shutil.rmtree(other / ".git")
    assert place.run(f"touch {other}/b", confinement=grants).code == 0
    shutil.rmtree(other)
    ran = place.run(f"echo on; touch {other}/c", confinement=grants)
    assert ran.output.startswith("on\n")
    assert not other.exists()
