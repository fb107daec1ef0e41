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
