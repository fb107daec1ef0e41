"""The built-in tools as declared to a model: shipped data, so that declaring them imports nothing.

`contracts.json` is generated from the argument models and the `.md` file of each tool by
`python -m tests.support.contracts`; the tests compare the three.
"""

import json
from functools import cache
from pathlib import Path

from agentcli.types.tools import ToolSpec

BUILT_IN = ("read_file", "write_file", "edit_file", "grep", "find_files", "bash")
"""The tools that are always declared."""
USUAL = (*BUILT_IN, "delegate")
"""The tools that a session declares by default."""
INPUT_TOOL = "write_stdin"
"""The tool that is declared once bash keeps a command on a terminal."""
ALSO = (
    *("delegate", "search_tools", "run_program", "symbols", "web_fetch", "web_search"),
    *("ask_user", "computer", "recall", INPUT_TOOL),
)
"""The tools declared only if they are of use and the user has not switched them off."""

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
