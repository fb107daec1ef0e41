from pathlib import Path

import pytest

from agentcli.features.doctor.project_table import collect_rows
from agentcli.session.prompt_commands import load_prompt_commands
from agentcli.types.settings import Settings
from tests.support.agent_corpus import list_corpus


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    root = tmp_path / "repository"
    (root / ".git").mkdir(parents=True)
    for name, text in list_corpus():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return root


def test_every_file_is_used_or_named_with_a_reason(repository: Path) -> None:
    files = [name for name, _ in list_corpus()]
    rows = list(collect_rows(Settings(workspace=repository, trust_project=True)))
    assert len(files) >= 200
    named = [row.where for row in rows]
    assert [file for file in files if named.count(file) != 1] == []
    assert all(row.note for row in rows if row.state == "left out")
    unusable = [
        (row.kind, row.note)
        for row in rows
        if row.state == "left out" and not row.note.endswith(" wins")
    ]
    assert sorted(kind for kind, _ in unusable) == ["command", "command", "command", "rule"]


def test_all_commands_and_skills_can_be_called(repository: Path) -> None:
    settings = Settings(workspace=repository, trust_project=True)
    found = load_prompt_commands(settings)
    names = [one.command.name for one in found.commands]
    assert len(names) == len(set(names)) > 230
    for one in found.commands:
        assert one.command.build_prompt("a b c d")
