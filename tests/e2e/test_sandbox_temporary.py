"""Temporary files: what a command puts into its /tmp, the file tools reach, and the other way."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.context_notes import describe_reach
from agentcli.system.workspace import Workspace
from agentcli.tools.find_files import FindFiles
from agentcli.tools.grep import Grep
from agentcli.types.errors import ToolError
from tests.support.confined import LAYERS, Confined, confined
from tests.support.files import Bench, bench, refusal, text_of
from tests.support.program import agentcli, script
from tests.support.searching import ENGINES, answer

pytestmark = pytest.mark.parametrize("layer", LAYERS)


def open_tools(place: Confined) -> tuple[Bench, str]:
    temporary = place.sandbox.temporary
    return bench(place.workspace, temporary=temporary), str(temporary.names[0])


def search(place: Confined, tool: type[Grep] | type[FindFiles], **arguments: Any) -> str:
    temporary = place.sandbox.temporary
    workspace = Workspace(place.workspace, find_temporary=lambda: temporary)
    return text_of(answer(tool(workspace=workspace, engine=ENGINES[0]), arguments))


def test_tools_and_commands_share_temporary_files(layer: str, tmp_path: Path) -> None:
    with confined(layer, tmp_path) as place:
        tools, tmp = open_tools(place)
        place.run(f"echo one > {tmp}/a.txt")
        assert text_of(tools.read(f"{tmp}/a.txt")) == "1\tone"
        assert text_of(tools.write(f"{tmp}/new/b.py", "print(1)\n")).startswith("Created")
        assert text_of(tools.edit(f"{tmp}/new/b.py", "1", "2")).startswith("Edited")
        assert place.run(f"python3 {tmp}/new/b.py").output == "2\n"
        assert refusal(tools.read, f"{tmp}/none") == f"No such file: {tmp}/none."


def test_commands_may_write_where_the_model_is_told(layer: str, tmp_path: Path) -> None:
    told = describe_reach((), has_sandbox=True)
    writable = told.partition("write: workspace, ")[2].partition(";")[0]
    with confined(layer, tmp_path) as place:
        assert place.run(f"echo one > {writable}/a.txt && cat {writable}/a.txt").output == "one\n"


@pytest.mark.skipif(not ENGINES, reason="no ripgrep here")
def test_searches_name_temporary_files_as_commands_do(layer: str, tmp_path: Path) -> None:
    with confined(layer, tmp_path) as place:
        _, tmp = open_tools(place)
        place.run(f"mkdir {tmp}/sub; echo hit > {tmp}/sub/a.txt")
        assert f"{tmp}/sub/a.txt" in search(place, Grep, pattern="hit", path=tmp)
        assert f"{tmp}/sub/a.txt" in search(place, Grep, pattern="hit", path=tmp, glob="sub/*.txt")
        assert f"{tmp}/sub/a.txt" in search(place, FindFiles, glob="*.txt", path=f"{tmp}/sub")


@pytest.mark.parametrize("way", ["{tmp}/link", "{tmp}/../outside", "{tmp}/gone/secret.txt"])
def test_links_lead_no_tool_out_of_temporary_files(layer: str, way: str, tmp_path: Path) -> None:
    with confined(layer, tmp_path) as place:
        tools, tmp = open_tools(place)
        at = place.sandbox.temporary.at
        place.run(f"ln -s {place.secret} {tmp}/link; ln -s {place.outside} {tmp}/gone")
        place.run(f"mv {at} {at}2 && ln -s {place.outside} {at}")
        told = refusal(tools.read, way.format(tmp=tmp))
        assert "is outside the workspace" in told or "No such file" in told
        with suppress(ToolError):
            tools.write(f"{tmp}/secret.txt", "changed")
        assert place.secret.read_text() == "the secret outside"


def test_session_runs_a_script_from_its_temporary_files(
    layer: str, tmp_path: Path, home: Path, workspace: Path
) -> None:
    if layer != "bubblewrap":
        pytest.skip("without a mount namespace there is no /tmp, only TMPDIR")
    replies = [
        {"calls": [{"write_file": {"path": "/tmp/probe.py", "content": "print(6 * 7)\n"}}]},
        {"calls": [{"bash": {"command": "python3 /tmp/probe.py > /tmp/out.txt; cd /tmp"}}]},
        {"calls": [{"bash": {"command": "mkdir d && cd d; mkdir /tmp/d && cd /tmp/d"}}]},
        {"calls": [{"read_file": {"path": "/tmp/out.txt"}}]},
        "Done.",
    ]
    model = script(home / "s.json", replies)
    options = ("--model", model, "--mode", "auto", "-o", "stream-json")
    ran = agentcli("run", "-C", workspace, *options, "go", home=home)
    assert ran.code == 0, ran.err
    assert "1\\t42" in ran.out
    assert "[/tmp/d is outside the workspace; the next command starts in" in ran.out
    assert not Path("/tmp/probe.py").exists()


def test_temporary_files_count_neither_as_changed_nor_as_unchecked(
    layer: str, home: Path, workspace: Path
) -> None:
    if layer != "bubblewrap":
        pytest.skip("without a mount namespace there is no /tmp, only TMPDIR")
    replies = [
        {"calls": [{"write_file": {"path": "/tmp/a.txt", "content": "a\n"}}]},
        {"calls": [{"edit_file": {"path": "/tmp/a.txt", "old_text": "a", "new_text": "b"}}]},
        {"calls": [{"read_file": {"path": "/tmp/a.txt"}}]},
        "Done.",
    ]
    model = script(home / "s.json", replies)
    options = ("--model", model, "--mode", "auto", "-o", "json")
    ran = agentcli("run", "-C", workspace, *options, "go", home=home)
    assert ran.code == 0, ran.err
    assert (ran.events[0]["files_changed"], ran.events[0]["verification"]) == ([], None)
    assert "agentcli undo" not in ran.err
    assert "could check it" not in ran.err
