import asyncio
from pathlib import Path

import pytest
from prompt_toolkit.key_binding import KeyBindings

from agentcli.types.errors import SettingsError
from agentcli.types.settings import Settings
from agentcli.ui.repl.key_table import TABLE, build_table, list_key_labels
from agentcli.ui.repl.repl import Repl
from agentcli.ui.repl.state import GitBranch, ReplOptions
from tests.support.desk import UnseenTerminal


def bound(home: Path) -> KeyBindings:
    async def build() -> Repl:
        options = ReplOptions(model="opus", branch=GitBranch(home))
        return Repl(Settings(workspace=home), options, terminal=UnseenTerminal())

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
    row = build_table([("transcript", "c-x c-t")])["transcript"]
    assert (row.keys, row.label) == ((("c-x", "c-t"),), "Ctrl-X Ctrl-T")
    assert row.hint == "ctrl+x ctrl+t"


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        ("c-t", "ctrl+t"),
        ("s-left", "shift+left"),
        ("c-s-left", "ctrl+shift+left"),
        ("escape c", "alt+c"),
        ("escape c-x", "alt+ctrl+x"),
        ("-", "-"),
        ("+", "+"),
    ],
)
def test_hints_and_lists_name_the_bound_key(keys: str, hint: str) -> None:
    row = build_table([("transcript", keys)])["transcript"]
    assert row.hint == hint
    assert row.label.lower() == (hint if hint == "+" else hint.replace("+", "-"))


def test_labels_of_the_table_name_all_its_keys() -> None:
    labels = {row.action: row.label for row in TABLE}
    assert labels == {
        "submit": "Enter",
        "newline": "Ctrl-J, Alt-Enter",
        "complete": "Tab",
        "next_mode": "Shift-Tab",
        "escape": "Esc",
        "stop": "Ctrl-C",
        "leave": "Ctrl-D",
        "up": "Up",
        "down": "Down",
        "editor": "Ctrl-G, Ctrl-X Ctrl-E",
        "transcript": "Ctrl-O",
        "paste_image": "Ctrl-V, Alt-V",
        "background": "Ctrl-B",
        "redraw": "Ctrl-L",
        "suspend": "Ctrl-Z",
    }


@pytest.mark.parametrize("change", [("nothing", "c-t"), ("transcript", "c-nonsense"), ("up", "")])
def test_what_cannot_be_bound_is_said(change: tuple[str, str]) -> None:
    with pytest.raises(SettingsError):
        build_table([change])


def test_no_action_of_the_table_is_without_words() -> None:
    assert all(label and does for label, does in list_key_labels(build_table()))
