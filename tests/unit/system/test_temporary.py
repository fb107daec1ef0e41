import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentcli.system.temporary import TEMPORARY, create_short_directory

OUTSIDE = Path("/nonexistent")
LEAVE = """
import os, sys
from pathlib import Path
from agentcli.system.temporary import create_short_directory
made = create_short_directory(workspace=Path("/nonexistent"))
(made.path / "socket").touch()
print(made.path, flush=True)
os.kill(os.getpid(), 9)
"""


def test_directory_is_short_private_and_removed() -> None:
    made = create_short_directory(workspace=OUTSIDE)
    assert made is not None
    assert made.path.stat().st_mode & 0o777 == 0o700
    assert len(str(made.path)) < 40
    made.close()
    assert not made.path.exists()


def test_directory_of_a_killed_session_is_removed_by_the_next_and_that_of_a_living_one_is_not() -> (
    None
):
    living = create_short_directory(workspace=OUTSIDE)
    assert living is not None
    killed = subprocess.run([sys.executable, "-c", LEAVE], stdout=subprocess.PIPE, text=True)
    left = Path(killed.stdout.strip())
    assert left.name.startswith("agentcli-run-")
    made = create_short_directory(workspace=OUTSIDE)
    assert made is not None
    assert not left.exists()
    assert living.path.exists()
    made.close()
    living.close()


def test_links_and_directories_that_others_may_enter_are_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    link = TEMPORARY[0] / f"agentcli-run-{os.getpid()}"
    link.symlink_to(target)
    shared = TEMPORARY[0] / f"agentcli-run-{os.getpid()}-shared"
    shared.mkdir(mode=0o755)
    try:
        made = create_short_directory(workspace=OUTSIDE)
        assert made is not None
        made.close()
        assert target.exists()
        assert shared.exists()
    finally:
        link.unlink()
        shared.rmdir()


@pytest.mark.parametrize("workspace", ["/", "/tmp"])
def test_directory_is_not_made_in_the_workspace(workspace: str) -> None:
    made = create_short_directory(workspace=Path(workspace))
    assert made is None or not made.path.is_relative_to(workspace)
    if made is not None:
        made.close()
