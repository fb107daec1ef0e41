from mcp_types import ElicitRequestFormParams

from agentcli.features.mcp.host import make_form
from agentcli.types.forms import FormField


def test_form_takes_only_what_can_be_asked_for() -> None:
    schema = {
        "type": "object",
        "properties": {
            "plain": {"type": "string", "title": "A \x1b[2Jtitle", "maxLength": 9},
            "old": {"type": "string", "enum": ["a", "b"], "enumNames": ["Aa", "Bb"]},
            "titled": {"oneOf": [{"const": "c", "title": "Cc"}, {"const": 3}, "d"]},
            "several": {"type": "array", "items": {"enum": ["e"]}, "maxItems": 1},
            "odd": {"type": ["string", "null"], "minLength": "many", "format": "password"},
            "nonsense": "string",
        },
        "required": ["plain", 7],
    }
    params = ElicitRequestFormParams(message="Hm?", requested_schema=schema)
    assert make_form("s", params).fields == (
        FormField(name="plain", kind="text", title="A \ufffd[2Jtitle", is_required=True, most=9),
        FormField(name="old", kind="choice", choices=(("a", "Aa"), ("b", "Bb"))),
        FormField(name="titled", kind="choice", choices=(("c", "Cc"),)),
        FormField(name="several", kind="choices", choices=(("e", "e"),), most=1),
        FormField(name="odd", kind="text"),
    )
