import json
import os
import threading
from pathlib import Path

import pytest

from tests.support.program import agentcli, script
from tests.support.repl import live, says


@pytest.mark.parametrize("name", ["edit_file", "write_file"])
def test_pipe_in_the_workspace_is_not_edited(home: Path, workspace: Path, name: str) -> None:
    os.mkfifo(workspace / "pipe")
    arguments = {
        "edit_file": {"path": "pipe", "old_text": "a", "new_text": "b"},
        "write_file": {"path": "pipe", "content": "b\n"},
    }
    model = script(home / "s.json", [{"calls": [{name: arguments[name]}]}, "Done."])
    options = ("--mode", "auto-edit", "-o", "stream-json")
    ran = agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    (result,) = [event for event in ran.events if event["type"] == "tool.finished"]
    assert "pipe is a named pipe (FIFO), not a regular file." in result["model_text"]


@pytest.mark.parametrize(
    "name", ["settings.toml", "rules.toml", "hooks.json", "mcp.json", "keys.toml"]
)
def test_pipe_in_place_of_a_setting_ends_the_start(home: Path, workspace: Path, name: str) -> None:
    pipe = home / ".config/agentcli" / name
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    model = "anthropic/claude-opus-5-5" if name == "keys.toml" else script(home / "s.json", ["Hi."])
    ran = agentcli("run", "--model", model, "go", home=home, cwd=workspace)
    assert (ran.code, ran.out) == (3, "")
    assert str(pipe) in ran.err
    assert "Not a regular file" in ran.err


def test_pipe_in_place_of_a_tool_of_the_user_is_left_out(home: Path, workspace: Path) -> None:
    pipe = home / ".config/agentcli/tools/mine.py"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    model = script(home / "s.json", ["Hi."])
    ran = agentcli("run", "--model", model, "go", home=home, cwd=workspace)
    assert (ran.code, ran.out) == (0, "Hi.\n")
    assert "Not a regular file" in ran.err


def test_pipe_named_by_an_option_is_read(home: Path, workspace: Path) -> None:
    given = {
        "--policy": '[[rule]]\ndecision = "deny"\nrule = "bash"\n',
        "--mcp-config": '{"mcpServers": {}}',
        "--schema": json.dumps({"type": "object"}),
    }
    writers = []
    for option, text in given.items():
        pipe = home / option
        os.mkfifo(pipe)
        writers.append(threading.Thread(target=pipe.write_text, args=(text,)))
    for writer in writers:
        writer.start()
    options = [word for option in given for word in (option, home / option)]
    model = script(
        home / "s.json", [{"calls": [{"bash": {"command": "ls"}}]}, '{"a": 1}', '{"a": 1}']
    )
    ran = agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    assert "denied" in ran.err, ran.err
    assert json.loads(ran.out) == {"a": 1}
    for writer in writers:
        writer.join()


def test_nothing_is_added_to_a_pipe_in_place_of_instructions(tmp_path: Path) -> None:
    with live(tmp_path, [says("Hello.")]) as session:
        session.term.ready()
        os.mkfifo(session.project / "AGENTS.md")
        session.term.send("/memory add --project Be brief")
        session.term.wait("error: cannot write")
        session.term.send("hi")
        session.term.wait("Hello.")
        assert (session.project / "AGENTS.md").is_fifo()
