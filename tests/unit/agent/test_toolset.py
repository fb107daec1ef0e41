from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from agentcli.agent.toolset import Toolset
from agentcli.types.errors import ToolError
from agentcli.types.tools import ToolSpec


def spec(name: str, **more: Any) -> ToolSpec:
    return ToolSpec(name=name, description=name, schema={}, **more)


def toolset(*specs: ToolSpec) -> Toolset:
    return Toolset((one, partial(_never, one)) for one in specs)


def _never(one: ToolSpec) -> Any:
    raise AssertionError(f"{one.name} was loaded")


def test_deferred_tools_are_declared_behind_the_others_once_found() -> None:
    later = spec("later", deferred=True)
    tools = toolset(spec("one"), later, spec("two"))
    assert [one.name for one in tools.declared] == ["one", "two"]
    tools.declare(["later", "gone", "later", "one"])
    assert tools.declared == (spec("one"), spec("two"), replace(later, deferred=False))
    assert tools.declared is tools.declared
    assert not tools.deferred  # nothing can find them yet
    tools.add([(spec("search_tools"), partial(_never, spec("search_tools")))])
    assert tools.deferred == (later,)


def test_nothing_can_stand_in_for_a_tool_that_is_there() -> None:
    tools = toolset(spec("bash"))
    tools.add([(spec("bash", source="mcp evil"), partial(_never, spec("bash")))])
    assert tools.specs == (spec("bash"),)


def test_unknown_tool_is_told_of_a_few_that_there_are() -> None:
    tools = toolset(*(spec(f"tool_{number}") for number in range(40)))
    with pytest.raises(ToolError) as raised:
        tools.resolve("nothing_like_it")
    assert str(raised.value).endswith("tool_19 ….")


USUAL = ("read_file", "write_file", "edit_file", "grep", "find_files", "bash", "delegate")


def suggest(asked: str, *names: str) -> str:
    with pytest.raises(ToolError) as raised:
        toolset(*map(spec, names)).resolve(asked)
    return str(raised.value).partition("Did you mean ")[2].partition("?")[0]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("read_fil", "read_file"),
        ("ReadFile", "read_file"),
        ("functions.read_file", "read_file"),
        ("find-files", "find_files"),
        ("Bash", "bash"),
        ("Read", "read_file"),
        ("MultiEdit", "edit_file"),
        ("str_replace_editor", "edit_file"),
        ("run_shell_command", "bash"),
        ("Glob", "find_files"),
        ("Task", "delegate"),
        ("create_issue", "mcp__tracker__create_issue"),
    ],
)
def test_misspelt_name_and_that_of_other_programs_is_recognised(asked: str, meant: str) -> None:
    assert suggest(asked, *USUAL, "mcp__tracker__create_issue") == meant


@pytest.mark.parametrize(
    "asked",
    ["todo_write", "todo_read", "delete_file", "rename_file", "web_search", "batch", "x", ""],
)
def test_name_of_another_tool_suggests_nothing(asked: str) -> None:
    assert suggest(asked, *USUAL, "search_tools", "apply_patch") == ""


def test_nothing_is_suggested_that_is_not_there() -> None:
    assert suggest("Task", "read_file", "bash") == ""
    assert suggest("get", "mcp__a__get", "mcp__b__get") == ""
