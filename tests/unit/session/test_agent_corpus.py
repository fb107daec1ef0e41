from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentcli.features.doctor.project_table import collect_rows
from agentcli.session.prompt_commands import load_prompt_commands
from agentcli.system.agent_files import NOT_READ
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
    assert [file for file in files if count_rows(named, file) != 1] == []
    assert all(row.note for row in rows if row.state == "left out")
    unusable = [
        (row.kind, row.note)
        for row in rows
        if row.state == "left out" and not row.note.endswith(" wins")
    ]
    kinds = Counter(kind for kind, _ in unusable)
    assert kinds == {"command": 3, "rule": 1, "file": len(NOT_READ)}


def count_rows(named: Sequence[str], file: str) -> int:
    """A file that is not read is named by itself, or by its folder."""
    return sum(where == file or file == f"{where}/x.md" for where in named)


def test_shapes_of_whole_repositories(repository: Path, tmp_path: Path) -> None:
    (repository / "CLAUDE.md").symlink_to("AGENTS.md")
    files: dict[str, bytes] = {
        "AGENTS.md": b"\xef\xbb\xbfRoot.\r\n@docs/a.md\r\n",
        "docs/a.md": b"A.\n@b.md\n",
        "docs/b.md": b"B.\n@a.md\n",
        ".claude/rules/wide.md": "Wide.".encode("utf-16"),
        ".claude/rules/noise.md": b"\0\1\2",
        ".claude/rules/huge.md": b"x" * 10_000_000,
        ".claude/rules/bell\x07.md": b"Ring.\x1b[2J",
        ".claude/agents/team/plain-0.md": b"---\nname: agent-plain-0\ndescription: d\n---\n",
        ".vscode/mcp.json": b'{"servers": {"v": {"command": "x", "env": {"K": "${input:k}"}}}}',
        "packages/web/CLAUDE.md": b"Web.",
        "packages/web/.cursor/rules/x.mdc": b"X.",
        "packages/web/.mcp.json": b"{}",
        "packages/web/node_modules/lib/AGENTS.md": b"Not ours.",
    }
    for name, data in files.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_bytes(data)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x.md").write_text("Not ours.")
    (repository / ".claude/rules/out.md").symlink_to(tmp_path / "outside/x.md")
    (repository / ".gemini/skills").symlink_to(tmp_path / "outside")
    rows = {row.where: row for row in collect_rows(Settings(workspace=repository))}
    for name, state, note in (
        ("AGENTS.md", "used", ""),
        ("CLAUDE.md", "left out", "says what another file says"),
        (".claude/rules/wide.md", "used", "always"),
        (".claude/rules/noise.md", "left out", "not a text file"),
        (".claude/rules/huge.md", "used", "only its first 32000 bytes"),
        (".claude/rules/bell\x07.md", "used", ""),
        (".claude/rules/out.md", "left out", "leads out of the repository"),
        (".gemini/skills", "left out", "leads out of the repository"),
        (".vscode/mcp.json", "left out", "only an editor can ask for ${input:k}"),
        ("packages/web/CLAUDE.md", "used", "when a file in packages/web is worked on"),
        ("packages/web/.cursor/rules", "used", "when a file in packages/web is worked on"),
        ("packages/web/.mcp.json", "left out", "it holds for a session in packages/web"),
    ):
        assert (rows[name].state, note in rows[name].note) == (state, True), rows[name]
    assert not any("node_modules" in where for where in rows)


def test_all_commands_and_skills_can_be_called(repository: Path) -> None:
    settings = Settings(workspace=repository, trust_project=True)
    found = load_prompt_commands(settings)
    names = [one.command.name for one in found.commands]
    assert len(names) == len(set(names)) > 230
    for one in found.commands:
        assert one.command.build_prompt("a b c d")
