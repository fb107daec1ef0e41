"""The built-in tools as declared to a model: shipped data, so that declaring them imports nothing.

`contracts.json` is generated from the argument models and the `.md` beside each tool by
`python -m tests.support.contracts`; the tests compare the three.
"""

import json
from functools import cache
from pathlib import Path

from agentcli.types.tools import ToolSpec

BUILT_IN = ("read_file", "write_file", "edit_file", "grep", "find_files", "bash")
"""Declared always."""
USUAL = (*BUILT_IN, "delegate")
"""What a session declares where nothing else was set up."""
ALSO = ("delegate", "search_tools", "run_program")
"""Declared where there is a use for them, and the person has not switched them off."""

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
