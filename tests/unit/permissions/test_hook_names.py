import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcli.permissions.hook_names import COMMON_NAMES, OwnCall, describe_call, fits_some_tool
from agentcli.permissions.hook_process import HookProblem
from agentcli.permissions.hooks import Hook, HookContext, HookRunner
from agentcli.permissions.subject import KNOWN_TOOLS
from agentcli.types.messages import Json
from tests.unit.permissions.court import prepare

PATCH = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
CALLS = (
    *(OwnCall(tool=tool, input={"path": "a", "patch": PATCH}) for tool in sorted(KNOWN_TOOLS)),
    OwnCall(tool="edit_file", input={"path": "a", "edits": [{"old_text": "a", "new_text": "b"}]}),
    OwnCall(tool="edit_file", input={"path": "a", "edits": ["no edit"]}),
    OwnCall(tool="github__create", input={}, server="github", server_tool="create"),
    OwnCall(tool="my_fs__a_b_1f2e3d", input={}, server="my fs", server_tool="a.b"),
    OwnCall(tool="of_a_plugin", input={}),
)


def _forms(name: str) -> Iterator[str]:
    """Every way in which people write that they mean a tool."""
    yield from (name, f"^{name}$", f"{name}.*", f"({name}|Other)", f"(?i){name}", f"^{name[:-1]}.")
    yield from (f"{name}|Other", f"Other|{name}", f"Other, {name}", f" {name} ", f".*{name[1:]}")


def _decide(tmp_path: Path, matcher: str, call: OwnCall) -> str:
    ground = HookContext(
        session_id="s", cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, own_call=lambda *_: call
    )
    hook = Hook(event="PreToolUse", command="exit 2", matcher=matcher)
    return asyncio.run(HookRunner([hook], ground).run_before(prepare(call.tool))).decision


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.tool)
def test_hook_that_denies_everything_denies_the_call_whatever_its_matcher(
    call: OwnCall, tmp_path: Path
) -> None:
    names = (call.tool, *call.common_names)
    matchers = ["", "*", " ", ".*", ".", *(form for name in names for form in _forms(name))]

    assert {one: _decide(tmp_path, one, call) for one in matchers} == dict.fromkeys(
        matchers, "deny"
    )


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.tool)
@pytest.mark.parametrize("matcher", ["", "*", ".*", "^.+$"])
def test_hook_for_every_tool_is_told_a_common_name(call: OwnCall, matcher: str) -> None:
    told = [one.tool_name for one in describe_call(matcher, call, root=Path("/w"))]

    assert told
    assert set(told) <= set(call.common_names or (call.tool,))


def test_several_edits_are_told_each_or_all_under_the_common_names() -> None:
    edits: list[Json] = [
        {"old_text": "a", "new_text": "b"},
        {"old_string": "c", "newText": "d", "replace_all": True},
    ]
    call = OwnCall(tool="edit_file", input={"path": "f", "edits": edits})
    first: Json = {"old_string": "a", "new_string": "b"}
    second: Json = {"old_string": "c", "new_string": "d", "replace_all": True}
    each = describe_call("Edit", call, root=Path("/w"))
    assert [one.tool_input for one in each] == [
        {"file_path": "/w/f", **one} for one in (first, second) if isinstance(one, dict)
    ]
    (whole,) = describe_call("MultiEdit", call, root=Path("/w"))
    assert whole.tool_input == {"file_path": "/w/f", "edits": [first, second]}
    assert not any(one.takes_changes for one in (*each, whole))


def test_names_of_a_server_are_told_as_its_own_matcher_has_them() -> None:
    call = OwnCall(tool="github__create", input={"a": 1}, server="github", server_tool="create")

    def told(matcher: str) -> list[str]:
        return [one.tool_name for one in describe_call(matcher, call, root=Path("/w"))]

    assert told("mcp__github__.*") == told("mcp__.*") == told("*") == ["mcp__github__create"]
    assert told("github__.*") == told("github__create") == ["github__create"]
    assert told("mcp__github") == told("mcp__gitlab__.*") == []


def test_every_common_name_fits_and_others_are_known_not_to() -> None:
    names = [name for names in COMMON_NAMES.values() for name in names]
    assert [one for one in names if not fits_some_tool(one, ())] == ["prompt_input_exit"]
    assert fits_some_tool("of_a_plugin", ["of_a_plugin"])
    assert fits_some_tool("mcp__server__.*", ())
    assert fits_some_tool("WebFetch|mcp__server__fetch", ())
    for idle in ("WebFetch", "WebFetch|TodoWrite", "mcp__server", "^Notebook", "Bash(rm *)"):
        assert not fits_some_tool(idle, ())


CHANGES: list[tuple[str, dict[str, Json], dict[str, Json], dict[str, Json]]] = [
    ("bash", {"command": "a", "timeout": 7}, {"command": "b", "timeout": 7000}, {"timeout": 7}),
    ("bash", {"command": "a"}, {"command": "b", "timeout": 1500}, {"timeout": 2}),
    ("bash", {"command": "a"}, {"command": "b", "run_in_background": True}, {"background": True}),
    ("bash", {"command": "a"}, {"command": "b", "description": "x"}, {}),
    ("bash", {"command": "a"}, {"command": "b", "timeout": "x"}, {"timeout": "x"}),
    (
        "bash",
        {"command": "a"},
        {"command": "b", "timeout": float("inf")},
        {"timeout": float("inf")},
    ),
]


@pytest.mark.parametrize(("tool", "given", "changed", "expected"), CHANGES)
def test_changes_come_back_in_our_names_and_units(
    tool: str, given: dict[str, Json], changed: dict[str, Json], expected: dict[str, Json]
) -> None:
    (view,) = describe_call("*", OwnCall(tool=tool, input=given), root=Path("/w"))

    assert view.translate_back(changed) == {"command": "b", **expected}


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("bash", {"command": "a", "timeout": 7, "background": True}),
        ("read_file", {"path": "a", "offset": 1, "limit": 2}),
        ("write_file", {"path": "../a", "content": "x"}),
        ("edit_file", {"path": "a", "old_text": "x", "new_text": "y", "replace_all": True}),
        ("grep", {"pattern": "x", "path": ".", "glob": "*", "mode": "files", "ignore_case": True}),
        ("find_files", {"glob": "*", "path": "src", "limit": 3}),
        ("delegate", {"task": "x", "role": "y"}),
    ],
)
def test_what_a_hook_hands_back_unchanged_is_the_same_call(
    tool: str, given: dict[str, Json]
) -> None:
    (view,) = describe_call("", OwnCall(tool=tool, input=given), root=Path("/w"))

    assert isinstance(view.tool_input, dict)
    assert view.translate_back(dict(view.tool_input)) == given


def test_two_values_for_one_argument_are_no_change() -> None:
    (view,) = describe_call("", OwnCall(tool="read_file", input={"path": "a"}), root=Path("/w"))

    with pytest.raises(HookProblem, match="twice"):
        view.translate_back({"file_path": "/w/a", "path": "/w/b"})
