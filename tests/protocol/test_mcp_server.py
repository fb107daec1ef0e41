import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.mcp.entries import ServerEntry
from agentcli.features.mcp.server_list import open_server
from agentcli.features.mcp.tool import ContentStore, convert_result
from agentcli.log.reader import read_log
from agentcli.types.events import CallFinished, CallJudged, SessionEnded
from agentcli.types.messages import Text
from agentcli.types.settings import Settings
from tests.support.files import ignore
from tests.support.program import agentcli, script, write_fork_command

Calls = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def workspace(workspace: Path) -> Path:
    (workspace / "a.txt").write_text("one\n")
    return workspace


def answers(home: Path, workspace: Path, calls: Calls, *options: str) -> list[str]:
    """As another program would use it."""
    entry = ServerEntry(
        name="own",
        command=write_fork_command(),
        args=("mcp", "serve", *options),
        env=(("HOME", str(home)), ("XDG_STATE_HOME", ""), ("XDG_CONFIG_HOME", "")),
        is_confined=False,
    )
    keeping = ContentStore(directory=home, takes_images=lambda: True)

    async def scenario() -> list[str]:
        async with open_server(Settings(workspace=workspace), entry) as servers:
            names = [tool.name for tool in await servers.list_tools(entry)]
            assert names == [
                *("read_file", "write_file", "edit_file", "grep", "find_files", "bash"),
                *("write_stdin", "run"),
            ]
            told = []
            for name, given in calls:
                output = convert_result(
                    await servers.connect(entry).call(name, given, show=ignore), keeping
                )
                text = "".join(one.text for one in output.content if isinstance(one, Text))
                told.append(f"{'error: ' if output.error else ''}{text}")
            return told

    return asyncio.run(scenario())


def test_calls_pass_the_same_guard_and_record(home: Path, workspace: Path) -> None:
    edit = {"path": "a.txt", "old_text": "one", "new_text": "two"}
    calls: Calls = [
        ("read_file", {"path": "a.txt"}),
        ("edit_file", edit),
        ("bash", {"command": "touch b.txt"}),
        ("read_file", {"path": "/etc/shadow"}),
    ]
    told = answers(home, workspace, calls, "--mode", "auto-edit")
    assert told[0] == "1\tone"
    assert (workspace / "a.txt").read_text() == "two\n"
    assert told[2].startswith("error: Denied: no rule allows touch b.txt")
    assert told[3].startswith("error: ")

    (log,) = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    facts = [entry.fact for entry in read_log(log).entries]
    judged = [fact.verdict.decision for fact in facts if isinstance(fact, CallJudged)]
    assert judged[:3] == ["allow", "allow", "deny"]
    assert len([fact for fact in facts if isinstance(fact, CallFinished)]) == 4
    assert isinstance(facts[-1], SessionEnded)
    assert agentcli("undo", log.parent.name, "-C", workspace, home=home).code == 0
    assert (workspace / "a.txt").read_text() == "one\n"


def test_task_runs_in_a_session_of_its_own(home: Path, workspace: Path) -> None:
    model = script(home / "s.json", [{"calls": [{"read_file": {"path": "a.txt"}}]}, "It says one."])
    told = answers(home, workspace, [("run", {"task": "What does it say?"})], "--model", model)
    assert told == ["It says one."]
    assert len(list(home.glob(".local/state/agentcli/sessions/*/log.jsonl"))) == 2


def test_task_without_a_model_is_an_error_and_the_server_goes_on(
    home: Path, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    calls: Calls = [("run", {"task": "x"}), ("run", {}), ("read_file", {"path": "a.txt"})]
    first, second, third = answers(home, workspace, calls)
    assert first.startswith("error: no model")
    assert second == "error: Invalid input: task must be a string."
    assert third == "1\tone"
