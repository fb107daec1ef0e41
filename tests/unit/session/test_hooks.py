from pathlib import Path

import pytest

from agentcli.permissions.hook_names import OwnCall, describe_call
from agentcli.session.hooks import read_call
from agentcli.system.workspace import Workspace
from agentcli.tools.apply_patch import ApplyPatch
from agentcli.tools.seen import Seen
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import PreparedCall

PATCH = """*** Begin Patch
*** Add File: new.py
+token = 1
*** Update File: old.py
@@
 kept
-gone
+came
*** Update File: from.py
*** Move to: to.py
@@
-a
+b
*** Delete File: dead.py
*** End Patch"""


@pytest.fixture
def tool(tmp_path: Path) -> ApplyPatch:
    return ApplyPatch(workspace=Workspace(tmp_path.resolve()), seen=Seen())


def _read(tool: ApplyPatch, given: dict[str, Json]) -> OwnCall:
    """Read a call whose input a hook has changed to `given`."""
    call = ToolCall(id="c1", name="apply_patch", input={"patch": PATCH})
    args = tool.parse(call.input)
    prepared = PreparedCall(call=call, tool=tool, args=args, effect=tool.effect(args))
    return read_call(prepared, given)


@pytest.mark.parametrize("name", ["patch", "input", "diff"])
def test_patch_is_told_file_by_file_in_the_shape_of_each(tool: ApplyPatch, name: str) -> None:
    call = _read(tool, {name: PATCH})
    told = describe_call("Edit|Write|MultiEdit", call, root=Path("/w"))

    def without_patch(given: object) -> dict[str, object]:
        assert isinstance(given, dict)
        assert given["patch"] == PATCH
        return {key: value for key, value in given.items() if key != "patch"}

    assert [(one.tool_name, without_patch(one.tool_input)) for one in told] == [
        ("Write", {"file_path": "/w/new.py", "content": "token = 1\n"}),
        (
            "Edit",
            {
                "file_path": "/w/old.py",
                "old_string": "kept\ngone",
                "new_string": "kept\ncame",
            },
        ),
        ("Edit", {"file_path": "/w/from.py", "old_string": "a", "new_string": "b"}),
        ("Write", {"file_path": "/w/to.py", "content": "b"}),
        ("Edit", {"file_path": "/w/dead.py", "old_string": "", "new_string": ""}),
    ]


@pytest.mark.parametrize("matcher", ["Edit", "Write", "MultiEdit", "*"])
def test_hook_for_any_kind_of_edit_sees_every_file_of_a_patch(
    tool: ApplyPatch, matcher: str
) -> None:
    call = _read(tool, {"patch": PATCH})
    told = describe_call(matcher, call, root=Path("/w"))

    names = ["new.py", "old.py", "from.py", "to.py", "dead.py"]
    assert [one.file_path for one in told] == [f"/w/{name}" for name in names]
    assert all("b" in str(one.tool_input) for one in told)


def test_patch_that_its_tool_refuses_is_shown_all_the_same(tool: ApplyPatch) -> None:
    call = _read(tool, {"patch": "*** Add File: .env\nnonsense"})

    (told,) = describe_call("Write", call, root=Path("/w"))
    assert told.file_path == "/w/.env"
    assert "nonsense" in str(told.tool_input)


def test_hook_for_our_own_name_gets_the_patch_as_it_is(tool: ApplyPatch) -> None:
    call = _read(tool, {"input": PATCH})

    (told,) = describe_call("apply_patch", call, root=Path("/w"))
    assert (told.tool_name, told.tool_input) == ("apply_patch", {"patch": PATCH})
