from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.session.configuration import Configuration, load_rules
from agentcli.session.context_sources import ProjectInstructions, find_skill_folders
from agentcli.types.events import CallFinished, CallJudged, ContextNote, Event, Fact, Warned
from agentcli.types.messages import Json, ToolCall
from agentcli.types.settings import Settings
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


def instructions(settings: Settings, past: Sequence[Fact] = ()) -> ProjectInstructions:
    configuration = Configuration(settings=settings, rules=load_rules(settings))
    return ProjectInstructions(configuration, past=past)


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
    briefing = instructions(settings)
    assert told_after(briefing, judged(**given)) == ["Write short sentences."]
    assert told_after(briefing, judged(**given)) == []


@pytest.mark.parametrize(
    ("command", "folder"), [("cat docs/a.md", ""), ("cd docs && ls", ""), ("ls", "docs")]
)
def test_command_that_names_a_directory_brings_its_instructions(
    settings: Settings, command: str, folder: str
) -> None:
    event = ran(command, settings.workspace / folder)
    assert told_after(instructions(settings), event) == ["Write short sentences."]


def test_what_names_nothing_brings_nothing(settings: Settings) -> None:
    briefing = instructions(settings)
    assert told_after(briefing, judged(path="a\0b", pattern="docs\0")) == []
    assert told_after(briefing, judged(text="see /etc/passwd, or nothing at all")) == []


def test_session_that_is_taken_up_is_not_told_again_unless_it_changed(settings: Settings) -> None:
    first = instructions(settings)
    first(judged(path="docs/a.md"))
    past = [one for one in first.collect_notes() if isinstance(one, ContextNote)]
    assert told_after(instructions(settings, past=past), judged(path="docs/a.md")) == []
    (settings.workspace / "docs/AGENTS.md").write_text("Write long sentences.")
    assert told_after(instructions(settings, past=past), judged(path="docs/a.md")) == [
        "Write long sentences."
    ]


def test_folder_of_skills_that_leads_out_of_the_workspace_is_none(settings: Settings) -> None:
    (settings.workspace / ".claude").mkdir()
    (settings.workspace / ".claude/skills").symlink_to(settings.workspace.parent)
    (settings.workspace / ".agentcli/skills").mkdir(parents=True)
    assert [
        path for path in find_skill_folders(settings, ()) if path.is_relative_to(settings.workspace)
    ] == [settings.workspace / ".agentcli/skills"]


RULES = ["read", "read(.env)", "read(**/.env)"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("way", ["@.env", "@docs/../.env", "@docs/on.md", "@link", "is a link"])
def test_includes_and_links_are_judged_as_reads(rule: str, way: str, settings: Settings) -> None:
    root = settings.workspace
    (root / ".env").write_text("PASSWORD=hunter2")
    (root / "docs/on.md").write_text("@../.env")
    (root / "link").symlink_to(".env")
    if way.startswith("@"):
        (root / "AGENTS.md").write_text(f"Be kind.\n{way}\n")
    else:
        (root / "AGENTS.md").symlink_to(".env")
    assert "hunter2" in str(instructions(settings).build_start_notes())
    notes = instructions(replace(settings, deny=(rule,))).build_start_notes()
    assert "hunter2" not in str(notes)
    assert any(f"deny {rule}" in note.message for note in notes if isinstance(note, Warned))


@pytest.mark.parametrize("way", ["@../../private/key", "@link", "is a link"])
def test_includes_and_links_stay_inside_the_workspace(way: str, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key").write_text("hunter2")
    root = tmp_path / "work/project"
    root.mkdir(parents=True)
    (root / "link").symlink_to("../../private/key")
    if way.startswith("@"):
        (root / "AGENTS.md").write_text(f"Be kind.\n{way}\n")
    else:
        (root / "AGENTS.md").symlink_to("../../private/key")
    notes = instructions(Settings(workspace=root)).build_start_notes()
    assert "hunter2" not in str(notes)
    assert any(
        "outside the workspace" in note.message for note in notes if isinstance(note, Warned)
    )


def test_file_above_the_workspace_reaches_its_own_directory(settings: Settings) -> None:
    root = settings.workspace
    (root / "CLAUDE.md").write_text("Be kind.\n@docs/a.md")
    (root / "AGENTS.md").symlink_to("CLAUDE.md")
    (root / "app").mkdir()
    (note,) = instructions(replace(settings, workspace=root / "app")).build_start_notes()
    assert isinstance(note, ContextNote)
    assert note.text.endswith("Be kind.\na")
