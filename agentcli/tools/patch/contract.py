"""apply_patch as declared to a model: shipped text, so that declaring it imports nothing."""

from functools import cache
from pathlib import Path

from agentcli.types.tools import ToolSpec

_DESCRIPTION = Path(__file__).parents[1] / "apply_patch.md"
_GRAMMAR = Path(__file__).with_name("patch_grammar.lark")


@cache
def load_patch_spec() -> ToolSpec:
    return ToolSpec(
        name="apply_patch",
        description=_DESCRIPTION.read_text(encoding="utf-8").strip(),
        schema={
            "type": "object",
            "properties": {
                "patch": {
                    "description": "All of it, from *** Begin Patch to *** End Patch",
                    "type": "string",
                }
            },
            "required": ["patch"],
            "additionalProperties": False,
        },
        grammar=_GRAMMAR.read_text(encoding="utf-8"),
    )
