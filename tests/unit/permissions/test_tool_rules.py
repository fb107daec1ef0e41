import sys
from functools import partial
from pathlib import Path

import pytest

from agentcli.permissions.rules import RuleError, parse_rule
from agentcli.permissions.subject import SubjectFactory
from agentcli.types.tools import Effect
from tests.support.program import agentcli, script

WRITER = """
from agentcli.types.tools import Effect, Output, ToolSpec

class Stamp:
    spec = ToolSpec(name="stamp", description="Stamps.", schema={"type": "object"})
    def parse(self, raw): return raw
    def effect(self, args): return Effect.WRITE
    async def preview(self, args, context): return None
    async def run(self, args, context):
        (context.workspace / "stamped").write_text("x")
        return Output.of("stamped")

TOOLS = [Stamp]
"""


@pytest.mark.parametrize("word", ["tool", "plugin"])
def test_rule_of_a_tool_concerns_its_tool_alone(word: str, tmp_path: Path) -> None:
    rule = parse_rule(f"{word}(stamp)", "allow", source="user")
    factory = SubjectFactory(workspace=tmp_path, cwd=lambda: tmp_path)
    build = partial(factory.build, args={}, effect=Effect.EXECUTE)
    assert rule.permits_call(build("stamp"))
    assert not rule.permits_call(build("stamp", source="mcp stamp"))
    assert not rule.permits_call(build("stamps"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tool", r"tool: write tool\(NAME\)"),
        ("tool( )", r"write tool\(NAME\)"),
        ("tool(bash)", "write bash"),
    ],
)
def test_rule_of_no_tool_says_what_to_write(text: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        parse_rule(text, "allow", source="user")


def test_denied_tool_names_the_rule_that_permits_it(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    config = home / ("Library/Application Support" if sys.platform == "darwin" else ".config")
    (config / "agentcli" / "tools").mkdir(parents=True)
    (config / "agentcli" / "tools" / "stamp.py").write_text(WRITER)
    work.mkdir()
    model = script(tmp_path / "s.json", [{"calls": [{"stamp": {}}]}, "Done."])
    denied = agentcli("run", "--model", model, "go", home=home, cwd=work)
    assert (denied.code, (work / "stamped").exists()) == (5, False)
    assert "fix: --allow 'tool(stamp)'" in denied.err
    permitted = agentcli(
        "run", "--model", model, "--allow", "tool(stamp)", "go", home=home, cwd=work
    )
    assert (permitted.code, (work / "stamped").read_text()) == (0, "x")
    undone = agentcli("undo", home=home, cwd=work)
    assert (undone.code, (work / "stamped").exists()) == (0, False)
