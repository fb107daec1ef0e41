import asyncio
from pathlib import Path

import pytest
from prompt_toolkit.key_binding import KeyBindings

from agentcli.types.errors import SettingsError
from agentcli.types.settings import Settings
from agentcli.ui.repl.keys import build_table, list_key_labels
from agentcli.ui.repl.repl import Repl
from agentcli.ui.repl.state import GitBranch, ReplOptions
from tests.support.desk import UnseenTerminal


def bound(home: Path) -> KeyBindings:
    async def build() -> Repl:
        options = ReplOptions(model="opus", branch=GitBranch(home))
        return Repl(Settings(workspace=home), options, UnseenTerminal())

    keys = asyncio.run(build())._app.key_bindings
    assert isinstance(keys, KeyBindings)
    return keys


def test_every_key_of_the_table_is_bound(tmp_path: Path) -> None:
    keys = {
        tuple(str(getattr(key, "value", key)) for key in one.keys)
        for one in bound(tmp_path).bindings
    }
    wanted = {
        ("c-c",),
        ("c-d",),
        ("c-o",),
        ("c-l",),
        ("c-z",),
        ("c-g",),
        ("c-x", "c-e"),
        ("s-tab",),
    }
    assert wanted <= keys
    assert {(letter,) for letter in "ysanevm"} <= keys


def test_person_can_choose_other_keys() -> None:
    (row,) = [row for row in build_table([("transcript", "c-x c-t")]) if row.action == "transcript"]
    assert (row.keys, row.label) == ((("c-x", "c-t"),), "c-x c-t")


@pytest.mark.parametrize("change", [("nothing", "c-t"), ("transcript", "c-nonsense"), ("up", "")])
def test_what_cannot_be_bound_is_said(change: tuple[str, str]) -> None:
    with pytest.raises(SettingsError):
        build_table([change])


def test_no_action_of_the_table_is_without_words() -> None:
    assert all(label and does for label, does in list_key_labels())
