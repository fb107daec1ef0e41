"""The table of keys and their actions, and the names of keys in hints and lists."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from prompt_toolkit.key_binding import KeyBindings

from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass
from agentcli.ui.repl.answer_table import ANSWERS_BY_KEY

_MODIFIERS = {"c": "ctrl", "s": "shift"}
_NAMES = {"escape": "esc"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    action: str
    keys: tuple[tuple[str, ...], ...]
    """The key sequences, in prompt-toolkit's names."""
    does: str
    """A description for users, for every situation."""
    is_always: bool = False
    """True if it also acts while a question is open."""

    @property
    def hint(self) -> str:
        """The first key as hints name it, such as `ctrl+o`."""
        return _name_keys(self.keys[0], "+")

    @property
    def label(self) -> str:
        """All keys as `/keys` lists them, such as `Ctrl-J, Alt-Enter`."""
        typed = (keys for keys in self.keys if not keys[0].startswith("<"))
        return ", ".join(_name_keys(keys, "-").title() for keys in typed)


KeyTable: TypeAlias = Mapping[str, KeyRow]
"""The rows by action, in the order of `/keys`."""

TABLE: tuple[KeyRow, ...] = (
    KeyRow(
        action="submit",
        keys=(("enter",),),
        does="send; while a turn runs: queue; after \\: newline",
    ),
    KeyRow(
        action="newline",
        keys=(("c-j",), ("escape", "enter")),
        does="newline",
    ),
    KeyRow(
        action="complete",
        keys=(("tab",),),
        does="complete; open a waiting question; while a turn runs: steer it at its next step",
    ),
    KeyRow(
        action="next_mode",
        keys=(("s-tab",),),
        does="next permission mode: plan, ask, auto-edit, auto",
        is_always=True,
    ),
    KeyRow(
        action="escape",
        keys=(("escape",),),
        does="close the menu; interrupt; twice: clear the input, or /rewind if it is empty",
    ),
    KeyRow(
        action="stop",
        keys=(("c-c",), ("<sigint>",)),
        does="interrupt (again: kill); clear the input; twice if it is empty: quit",
    ),
    KeyRow(
        action="leave",
        keys=(("c-d",),),
        does="quit if the input is empty, else delete",
    ),
    KeyRow(
        action="up",
        keys=(("up",),),
        does="history; while a turn runs: edit queued messages",
    ),
    KeyRow(action="down", keys=(("down",),), does="history"),
    KeyRow(
        action="editor",
        keys=(("c-g",), ("c-x", "c-e")),
        does="edit the input in $VISUAL or $EDITOR",
    ),
    KeyRow(
        action="transcript",
        keys=(("c-o",),),
        does="show the transcript in a pager",
        is_always=True,
    ),
    KeyRow(
        action="paste_image",
        keys=(("c-v",), ("escape", "v")),
        does="attach the image in the clipboard",
    ),
    KeyRow(
        action="background",
        keys=(("c-b",),),
        does="move the running command to the background",
    ),
    KeyRow(action="redraw", keys=(("c-l",),), does="redraw", is_always=True),
    KeyRow(action="suspend", keys=(("c-z",),), does="suspend", is_always=True),
)
OTHER_KEYS = (
    ("!COMMAND", "run a shell command and show it to the model; !!COMMAND does not show it"),
    ("! Enter", "shell mode; Esc, or Backspace if it is empty, ends it"),
    ("Ctrl-R", "search the history"),
    ("Ctrl-A/E/K/U/W/Y, Alt-B/F", "edit as in emacs"),
    (
        " ".join(ANSWERS_BY_KEY),
        "answer a question (a needs Enter; Esc says no and stops the turn)",
    ),
)


def build_table(changes: Sequence[tuple[str, str]] = ()) -> KeyTable:
    """Return the table with the user's own keys. Raise SettingsError if a key cannot be bound."""
    chosen = dict(changes)
    known = [row.action for row in TABLE]
    for action, keys in chosen.items():
        if action not in known:
            raise SettingsError(
                f"keys: unknown action {action}", hint=f"actions: {', '.join(known)}"
            )
        try:
            KeyBindings().add(*keys.split())
        except (ValueError, AssertionError, TypeError):
            raise SettingsError(
                f"keys: {keys!r} is not a key", hint="examples: c-t, f5, s-tab, c-x c-t"
            ) from None
    return {
        row.action: replace(row, keys=(tuple(chosen[row.action].split()),))
        if row.action in chosen
        else row
        for row in TABLE
    }


def list_key_labels(keys: KeyTable) -> list[tuple[str, str]]:
    """Return the rows of `/keys`."""
    shown = ((f"{row.label} ({row.action})", row.does) for row in keys.values())
    return [*shown, *OTHER_KEYS]


def _name_keys(keys: Sequence[str], plus: str) -> str:
    """Return the name of a key sequence, such as `ctrl+x ctrl+e`. Esc before a key means Alt."""
    if keys[0] == "escape" and len(keys) > 1:
        return f"alt{plus}{_name_keys(keys[1:], plus)}"
    return " ".join(_name_key(key, plus) for key in keys)


def _name_key(key: str, plus: str) -> str:
    *modifiers, name = key.split("-") if len(key) > 1 else [key]
    return plus.join([*(_MODIFIERS.get(one, one) for one in modifiers), _NAMES.get(name, name)])
