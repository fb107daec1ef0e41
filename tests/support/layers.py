"""The sandbox layers that work here: tests name one, and are skipped where it does not."""

import tempfile
from functools import cache
from pathlib import Path

import pytest

from agentcli.sandbox.choose import SandboxScope, describe_layers

LAYERS = ("bubblewrap", "landlock")


def list_needed(item: pytest.Item) -> set[str]:
    """Return the layers that a test names, by its parameters or by `@pytest.mark.layer(NAME)`."""
    callspec = getattr(item, "callspec", None)
    values = callspec.params.values() if callspec else ()
    marked = [name for mark in item.iter_markers("layer") for name in mark.args]
    return {one for one in (*values, *marked) if isinstance(one, str) and one in LAYERS}


def is_about_sandbox(item: pytest.Item) -> bool:
    """Return whether a test runs commands in a sandbox, by its file or by the layers it names."""
    return bool(list_needed(item)) or "sandbox" in item.nodeid.partition("::")[0]


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
