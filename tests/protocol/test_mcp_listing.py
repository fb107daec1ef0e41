"""What is made of a server's list of tools, however odd it is."""

import asyncio
from pathlib import Path
from typing import Any

from agentcli.features.mcp.approvals import build_public_name
from agentcli.types.tools import Output
from tests.support.mcp_links import Nasty


def listed(mode: str, directory: Path) -> list[str]:
    async def scenario(server: Nasty) -> list[str]:
        return list(await server.link.list_tools())

    return asyncio.run(Nasty(mode, directory).use(scenario))


def test_all_pages_are_listed(tmp_path: Path) -> None:
    assert len(listed("many", tmp_path)) == 301


def test_pages_without_end_are_cut_and_that_is_said(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> tuple[int, tuple[str, ...]]:
        return len(await server.link.list_tools()), server.link.remarks

    assert asyncio.run(Nasty("endless_pages", tmp_path).use(scenario)) == (
        200,
        ("its list of tools has more than 200 pages; the rest is ignored",),
    )


def test_remarks_about_a_list_are_few(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> tuple[str, ...]:
        await server.link.list_tools()
        return server.link.remarks

    remarks = asyncio.run(Nasty("only_arrays", tmp_path).use(scenario))
    assert (len(remarks), remarks[-1]) == (11, "490 more warnings like these")


def test_tools_that_cannot_be_used_are_named_and_the_others_stay(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> tuple[dict[str, Any], tuple[str, ...], Output]:
        tools = await server.link.list_tools()
        schemas = {name: tool.schema for name, tool in tools.items()}
        return schemas, server.link.remarks, await server.call(text="still here")

    schemas, remarks, output = asyncio.run(Nasty("odd_schemas", tmp_path).use(scenario))
    named = {"type": "object", "properties": {"a": {"type": "string"}}}
    nothing = {"type": "object", "properties": {}}
    assert schemas == {
        "empty": nothing,
        "no_type": {"type": "object", "properties": {"a": {}}},
        "any_of": {**nothing, "anyOf": [named]},
        "root_ref": {**named, "$defs": {"A": named}},
        "or_null": named,
        "null": nothing,
        "true": nothing,
        "fine": named,
        "missing": nothing,
        "echo": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
    }
    assert remarks == (
        "its tool array cannot be used: its input is not an object (type 'array')",
        "its tool lost_ref cannot be used: its inputSchema refers to '#/$defs/B', which is not in "
        "it",
        "its tool circle cannot be used: its inputSchema refers to itself",
        "its tool text cannot be used: its inputSchema is not an object",
        "its tool listed cannot be used: inputSchema.properties: Input should be a valid "
        "dictionary",
        "its tool number 15 (without a name) cannot be used: it is not an object",
        "its tool number 16 (without a name) cannot be used: name: Input should be a valid string",
        "its tool wordy cannot be used: description: Input should be a valid string",
    )
    assert output == Output.of("still here")


def test_tool_that_only_runs_as_a_task_is_left_out_and_named(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> tuple[list[str], tuple[str, ...]]:
        return list(await server.link.list_tools()), server.link.remarks

    assert asyncio.run(Nasty("tasks", tmp_path).use(scenario)) == (
        ["optional_task", "forbidden_task"],
        ("its tool required_task cannot be used: it only runs as a task, which is not supported",),
    )


def test_tool_named_bash_is_known_by_its_server(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> list[str]:
        return [tool.spec("nasty").name for tool in (await server.link.list_tools()).values()]

    assert asyncio.run(Nasty("bash", tmp_path).use(scenario)) == ["nasty__bash", "nasty__echo"]


def test_what_nobody_can_see_is_taken_out_of_descriptions(tmp_path: Path) -> None:
    async def scenario(server: Nasty) -> str:
        return (await server.link.list_tools())["echo"].description

    description = asyncio.run(Nasty("hidden", tmp_path).use(scenario))
    assert description.startswith("Adds.[31mxxx")
    assert len(description) == 2_000


def test_odd_names_stay_apart(tmp_path: Path) -> None:
    names = [build_public_name("nasty", tool) for tool in listed("odd_names", tmp_path)]
    assert len(set(names)) == 7
    assert all(len(name) <= 64 for name in names)
