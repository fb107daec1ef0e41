from pathlib import Path

import pytest

from agentcli.session.context_sources import ProjectInstructions, find_skill_folders
from agentcli.settings import Settings
from agentcli.types.events import CallFinished, CallJudged, ContextNote, Event
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Command, Effect, ToolResult
from agentcli.types.verdicts import Verdict


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    workspace = tmp_path / "project"
    (workspace / ".git").mkdir(parents=True)
    (workspace / "docs").mkdir()
    (workspace / "docs/AGENTS.md").write_text("Write short sentences.")
    (workspace / "docs/a.md").write_text("a")
    return Settings(workspace=workspace)


def judged(**given: Json) -> CallJudged:
    return CallJudged(
        call=ToolCall(id="c1", name="any", input=dict(given)),
        effect=Effect.READ,
        verdict=Verdict(decision="allow", by="mode", reason="reading"),
    )


def ran(command: str, cwd: Path) -> CallFinished:
    details = Command(command=command, cwd=str(cwd))
    result = ToolResult(call_id="c1", name="bash", status="ok", content=(), details=details)
    return CallFinished(result=result)


def told_after(briefing: ProjectInstructions, event: Event) -> list[str]:
    briefing(event)
    notices = briefing.collect_notes()
    return [one.text.partition("\n\n")[2] for one in notices if isinstance(one, ContextNote)]


@pytest.mark.parametrize(
    "given",
    [
        {"path": "docs/a.md"},
        {"path": "docs/new.md"},
        {"file": "docs/a.md"},
        {"patch": "*** Begin Patch\n*** Update File: docs/a.md\n*** End Patch"},
    ],
)
def test_any_tool_that_touches_a_directory_brings_its_instructions(
    settings: Settings, given: dict[str, Json]
) -> None:
    briefing = ProjectInstructions(settings)
    assert told_after(briefing, judged(**given)) == ["Write short sentences."]
    assert told_after(briefing, judged(**given)) == []


@pytest.mark.parametrize(
    ("command", "folder"), [("cat docs/a.md", ""), ("cd docs && ls", ""), ("ls", "docs")]
)
def test_command_that_names_a_directory_brings_its_instructions(
    settings: Settings, command: str, folder: str
) -> None:
    event = ran(command, settings.workspace / folder)
    assert told_after(ProjectInstructions(settings), event) == ["Write short sentences."]


def test_what_names_nothing_brings_nothing(settings: Settings) -> None:
    briefing = ProjectInstructions(settings)
    assert told_after(briefing, judged(path="a\0b", pattern="docs\0")) == []
    assert told_after(briefing, judged(text="see /etc/passwd, or nothing at all")) == []


def test_session_that_is_taken_up_is_not_told_again_unless_it_changed(settings: Settings) -> None:
    first = ProjectInstructions(settings)
    first(judged(path="docs/a.md"))
    past = [one for one in first.collect_notes() if isinstance(one, ContextNote)]
    assert told_after(ProjectInstructions(settings, past=past), judged(path="docs/a.md")) == []
    (settings.workspace / "docs/AGENTS.md").write_text("Write long sentences.")
    assert told_after(ProjectInstructions(settings, past=past), judged(path="docs/a.md")) == [
        "Write long sentences."
    ]


def test_folder_of_skills_that_leads_out_of_the_workspace_is_none(settings: Settings) -> None:
    (settings.workspace / ".claude").mkdir()
    (settings.workspace / ".claude/skills").symlink_to(settings.workspace.parent)
    (settings.workspace / ".agentcli/skills").mkdir(parents=True)
    assert [
        path for path in find_skill_folders(settings) if path.is_relative_to(settings.workspace)
    ] == [settings.workspace / ".agentcli/skills"]
