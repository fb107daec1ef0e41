import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentcli.features.mcp.approvals import (
    OfferedTool,
    ServerTrials,
    ToolListApprovals,
    ToolListChange,
    build_public_name,
    clean_offer,
    compare_tools,
)
from agentcli.features.mcp.entries import NAME, ServerEntry
from agentcli.types.tools import ToolSpec

ENTRY = ServerEntry(name="s", command="x")


def tool(name: str, description: str = "", schema: Any = None) -> OfferedTool:
    return clean_offer(
        name=name, description=description, schema=schema or {}, says_read_only=False
    )


def test_spec_says_where_a_tool_comes_from() -> None:
    assert tool("get.user", "Gets.").spec("hub") == ToolSpec(
        name=build_public_name("hub", "get.user"),
        description="Gets. (tool of the MCP server hub)",
        schema={"type": "object", "properties": {}},
        source="mcp hub",
    )


def test_schema_that_is_too_deep_or_too_long_takes_any_object() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"properties": {"a": deep}}
    long = {"properties": {f"p{number}": {"type": "string"} for number in range(3_000)}}
    anything = {"type": "object", "properties": {}}
    assert [tool("t", schema=schema).schema for schema in (deep, long)] == [anything, anything]


def test_texts_in_a_schema_are_cleaned() -> None:
    schema = {"properties": {"a": {"description": "x\u202e\x00" + "y" * 900}}}
    cleaned: Any = tool("t", schema=schema).schema
    assert cleaned["properties"]["a"]["description"] == "x" + "y" * 498 + "…"


def test_numbers_in_a_schema_are_those_that_json_has() -> None:
    schema = {"properties": {"a": {"maximum": float("inf"), "minimum": 0.5}}}
    cleaned: Any = tool("t", schema=schema).schema
    assert cleaned["properties"]["a"] == {"maximum": "Infinity", "minimum": 0.5}


@given(st.from_regex(NAME, fullmatch=True), st.text(max_size=200))
def test_public_name_is_one_that_providers_take(server: str, name: str) -> None:
    public = build_public_name(server, name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", public)
    assert public.startswith(f"{server}__")


@given(st.lists(st.text(max_size=80), unique=True, max_size=20))
def test_public_names_of_one_server_stay_apart(names: list[str]) -> None:
    assert len({build_public_name("s", name) for name in names}) == len(names)


def test_accepted_tools_are_read_back_and_bound_to_the_command(tmp_path: Path) -> None:
    approvals, tools = ToolListApprovals(tmp_path / "a"), (tool("one", "é"), tool("two"))
    assert approvals.find(ENTRY) is None
    approvals.store(ENTRY, tools)
    assert approvals.find(ENTRY) == tools
    assert approvals.find(ServerEntry(name="s", command="y")) is None
    (kept,) = (tmp_path / "a").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_text("{}")
    assert approvals.find(ENTRY) is None
    approvals.forget(ENTRY)
    assert list((tmp_path / "a").iterdir()) == []


def test_change_names_what_is_other_than_before() -> None:
    before = (tool("same"), tool("gone"), tool("other", "a"))
    now = (tool("same"), tool("other", "b"), tool("new"))
    difference = compare_tools(before, now)
    assert difference == ToolListChange(added=("new",), changed=("other",), removed=("gone",))
    assert str(difference) == "new: new; changed: other; gone: gone"
    assert not compare_tools(now, now)


def test_failure_counts_until_a_trial_succeeds_or_it_is_forgotten(tmp_path: Path) -> None:
    trials, entry = ServerTrials(tmp_path), ServerEntry(name="a", command="x")
    assert not trials.has_failed(entry)
    for end in (partial(trials.store, entry, 3), partial(trials.forget, entry)):
        trials.store(entry, None)
        assert trials.has_failed(entry)
        assert not trials.has_failed(replace(entry, command="y"))
        end()
        assert not trials.has_failed(entry)
