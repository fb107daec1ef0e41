"""The built-in tools as declared to a model: shipped data, so that declaring them imports nothing.

`contracts.json` is generated from the argument models and the `.md` file of each tool by
`python -m tests.support.contracts`; the tests compare the three. apply_patch is shipped as its
`.md` file and the grammar of patches.
"""

import json
from functools import cache
from pathlib import Path

from agentcli.types.tools import ToolSpec

DELEGATE = "delegate"
"""The tool whose calls child agents answer. It is declared if there are roles."""
INPUT_TOOL = "write_stdin"
"""The tool that is declared once bash keeps a command on a terminal."""
_SHIPPED = Path(__file__).with_name("contracts.json")


@cache
def _load_shipped() -> dict[str, ToolSpec]:
    declared = json.loads(_SHIPPED.read_text(encoding="utf-8"))
    return {
        name: ToolSpec(name=name, description=entry["description"], schema=entry["schema"])
        for name, entry in declared.items()
    }


def load_spec(name: str) -> ToolSpec:
    return _load_shipped()[name]


# apply_patch as declared to a model: shipped text, so that declaring it imports nothing.


_DESCRIPTION = Path(__file__).with_name("apply_patch.md")
_GRAMMAR = Path(__file__).parent / "patch/patch_grammar.lark"


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
