"""The sandbox layers that work here: tests name one, and are skipped where it does not."""

import tempfile
from functools import cache
from pathlib import Path

import pytest

from agentcli.sandbox.choose import SandboxScope, describe_layers

LAYERS = ("bubblewrap", "landlock")
_RUNNING_COMMANDS = (
    *("sandbox", "attacks", "boundary", "secrets", "hidden_values", "own_places", "doctor"),
    *("e2e/test_kill", "run_killed", "e2e/test_run_program", "test_shells"),
)
"""Parts of the names of test files."""


def list_needed(item: pytest.Item) -> set[str]:
    """Return the layers that a test names, by its parameters or by `@pytest.mark.layer(NAME)`."""
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec else ()
    marked = [name for mark in item.iter_markers("layer") for name in mark.args]
    return {one for one in (*values, *marked) if isinstance(one, str) and one in LAYERS}


def depends_on_layer(item: pytest.Item) -> bool:
    """Return whether a test runs commands in whichever layer was found, and names none."""
    path = item.nodeid.partition("::")[0]
    return not list_needed(item) and any(word in path for word in _RUNNING_COMMANDS)


@cache
def explain_missing(layer: str) -> str:
    """Return why a layer does not work here; empty if it does."""
    with tempfile.TemporaryDirectory() as folder:
        workspace, private = Path(folder, "workspace"), Path(folder, "private")
        workspace.mkdir()
        private.mkdir()
        scope = SandboxScope(workspace=workspace, private=private)
        found = [one for one in describe_layers(scope) if one.layer == layer]
    if found and found[0].works:
        return ""
    return f"{layer} does not work here: {found[0].reason if found else 'not for this platform'}"
