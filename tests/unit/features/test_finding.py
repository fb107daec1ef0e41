from agentcli.features.insights.finding import find_target, name_call
from agentcli.types.messages import ToolCall


def test_finding_names_a_call_as_the_screen_does_and_compares_by_its_target() -> None:
    wide = ToolCall(id="1", name="grep", input={"pattern": "todo"})
    narrow = ToolCall(id="2", name="grep", input={"pattern": "todo", "glob": "*.py"})
    assert [name_call(one) for one in (wide, narrow)] == ["grep todo", "grep todo in *.py"]
    assert find_target(wide) == find_target(narrow) == "todo"
