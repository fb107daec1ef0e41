from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

from agentcli.sandbox.reading import start_reading
from tests.support.searching import CAN_HOLD

pytestmark = pytest.mark.skipif(not CAN_HOLD, reason="this kernel has no Landlock")


def said(cwd: Path, *argv: str, readable: list[Path]) -> str:
    child = start_reading(
        argv, cwd=cwd, env={"LC_ALL": "C"}, stdout=PIPE, stderr=STDOUT, readable=readable
    )
    return child.communicate()[0].decode()


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "mine").write_text("mine\n")
    (tmp_path / "secret").write_text("secret\n")
    (inside / "link").symlink_to(tmp_path / "secret")
    return inside


def test_only_what_is_given_can_be_read(inside: Path) -> None:
    assert said(inside, "/bin/cat", "mine", "link", "../secret", readable=[inside]) == (
        "mine\n/bin/cat: link: Permission denied\n/bin/cat: ../secret: Permission denied\n"
    )


def test_nothing_can_be_changed(inside: Path) -> None:
    told = said(inside, "/bin/sh", "-c", "echo > mine", readable=[inside])
    assert "Permission denied" in told
    assert (inside / "mine").read_text() == "mine\n"


def test_directory_it_is_started_in_is_not_given_by_that(inside: Path) -> None:
    assert "Permission denied" in said(inside.parent, "/bin/ls", ".", readable=[inside])
