import json
from pathlib import Path

from agentcli.ui.repl.input_history import ProjectHistory, find_project_directory


def mask(text: str) -> str:
    return text.replace("hunter2", "***")


def test_history_keeps_masked_text_privately_and_in_order(tmp_path: Path) -> None:
    history = ProjectHistory(tmp_path / "a" / "history", mask=mask)
    for text in ("first", "with hunter2", " not kept", "  ", "first"):
        history.store_string(text)
    path = tmp_path / "a" / "history"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == [
        "first",
        "with ***",
        "first",
    ]
    assert list(history.load_history_strings()) == ["first", "with ***"]


def test_history_reads_over_what_is_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'{"text": "good"}\n\xff\xfe nonsense\n[1]\n{"text": 3}\n{"text": "half')
    assert list(ProjectHistory(path, mask=mask).load_history_strings()) == ["good"]


def test_history_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    history = ProjectHistory(tmp_path, mask=mask)
    assert list(history.load_history_strings()) == []
    assert "cannot read" in history.complaint
    history.store_string("text")
    assert "cannot write" in history.complaint


def test_projects_of_one_name_have_different_directories() -> None:
    assert find_project_directory(Path("/a/x")) != find_project_directory(Path("/b/x"))
