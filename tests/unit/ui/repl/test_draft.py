import subprocess
from pathlib import Path

from agentcli.ui.repl.input_history import Drafts


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_draft_of_a_dead_session_is_offered_once(tmp_path: Path) -> None:
    left = tmp_path / f"draft-{dead_pid()}"
    left.write_text("unsent")
    drafts = Drafts(tmp_path)
    assert drafts.take_abandoned() == "unsent"
    assert drafts.take_abandoned() == ""


def test_draft_of_a_living_session_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "draft-1").write_text("of init")
    assert Drafts(tmp_path).take_abandoned() == ""
    assert (tmp_path / "draft-1").exists()


def test_draft_is_private_and_gone_when_it_is_empty(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path / "new")
    drafts.save("text")
    (path,) = (tmp_path / "new").glob("draft-*")
    assert path.read_text() == "text"
    assert path.stat().st_mode & 0o777 == 0o600
    drafts.save("")
    assert not path.exists()


def test_draft_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    drafts = Drafts(tmp_path / "file" / "below")
    drafts.save("text")
    assert drafts.take_abandoned() == ""
    assert (tmp_path / "file").read_text() == ""
