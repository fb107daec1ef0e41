"""The keys and their actions: one table, from which keys are bound and `/keys` is printed."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from prompt_toolkit.filters import (
    Condition,
    Filter,
    is_searching,
    vi_insert_mode,
)
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPressEvent
from prompt_toolkit.keys import Keys

from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass
from agentcli.ui.repl.actions import Actions
from agentcli.ui.repl.answer_table import ANSWERS_BY_KEY, DIGITS
from agentcli.ui.repl.answers import AnswerKeys, Answers
from agentcli.ui.repl.approval import ApprovalPrompt
from agentcli.ui.repl.state import ReplState

Action = Callable[[], None]
STOP_KEYS = ("escape", "c-c", "<sigint>")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRow:
    action: str
    keys: tuple[tuple[str, ...], ...]
    """The key sequences, in prompt-toolkit's names."""
    label: str
    does: str
    """A description for users, for every situation."""
    is_always: bool = False
    """True if it also acts while a question is open."""


TABLE: tuple[KeyRow, ...] = (
    KeyRow(
        action="submit",
        keys=(("enter",),),
        label="Enter",
        does="send; while a turn runs: queue; after \\: newline",
    ),
    KeyRow(
        action="newline",
        keys=(("c-j",), ("escape", "enter")),
        label="Ctrl-J, Alt-Enter",
        does="newline",
    ),
    KeyRow(
        action="complete",
        keys=(("tab",),),
        label="Tab",
        does="complete; open a waiting question; while a turn runs: steer it at its next step",
    ),
    KeyRow(
        action="next_mode",
        keys=(("s-tab",),),
        label="Shift-Tab",
        does="next permission mode: plan, ask, auto-edit, auto",
        is_always=True,
    ),
    KeyRow(
        action="escape",
        keys=(("escape",),),
        label="Esc",
        does="close the menu; interrupt; twice: clear the input, or /rewind if it is empty",
    ),
    KeyRow(
        action="stop",
        keys=(("c-c",), ("<sigint>",)),
        label="Ctrl-C",
        does="interrupt (again: kill); clear the input; twice if it is empty: quit",
    ),
    KeyRow(
        action="leave",
        keys=(("c-d",),),
        label="Ctrl-D",
        does="quit if the input is empty, else delete",
    ),
    KeyRow(
        action="up",
        keys=(("up",),),
        label="Up",
        does="history; while a turn runs: edit queued messages",
    ),
    KeyRow(action="down", keys=(("down",),), label="Down", does="history"),
    KeyRow(
        action="editor",
        keys=(("c-g",), ("c-x", "c-e")),
        label="Ctrl-G, Ctrl-X Ctrl-E",
        does="edit the input in $VISUAL or $EDITOR",
    ),
    KeyRow(
        action="transcript",
        keys=(("c-o",),),
        label="Ctrl-O",
        does="show the transcript in a pager",
        is_always=True,
    ),
    KeyRow(
        action="paste_image",
        keys=(("c-v",), ("escape", "v")),
        label="Ctrl-V, Alt-V",
        does="attach the image in the clipboard",
    ),
    KeyRow(
        action="background",
        keys=(("c-b",),),
        label="Ctrl-B",
        does="move the running command to the background",
    ),
    KeyRow(action="redraw", keys=(("c-l",),), label="Ctrl-L", does="redraw", is_always=True),
    KeyRow(action="suspend", keys=(("c-z",),), label="Ctrl-Z", does="suspend", is_always=True),
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


def build_table(changes: Sequence[tuple[str, str]] = ()) -> tuple[KeyRow, ...]:
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
    return tuple(
        replace(row, keys=(tuple(chosen[row.action].split()),), label=chosen[row.action])
        if row.action in chosen
        else row
        for row in TABLE
    )


def list_key_labels(rows: Sequence[KeyRow] = TABLE) -> list[tuple[str, str]]:
    return [*((f"{row.label} ({row.action})", row.does) for row in rows), *OTHER_KEYS]


def build_bindings(
    actions: Actions,
    answers: Answers,
    *,
    state: ReplState,
    approvals: ApprovalPrompt,
    rows: Sequence[KeyRow] = TABLE,
) -> KeyBindings:
    bound, by_name = KeyBindings(), actions.list_actions()
    is_answering = Condition(lambda: state.is_answering)
    takes_answers = Condition(lambda: approvals.takes_keys) & ~is_answering
    composing = ~takes_answers & ~is_searching & ~is_answering
    for row in rows:
        for keys in row.keys:
            # prompt-toolkit binds some of them itself, and a question takes every other key.
            bound.add(*keys, filter=_build_filter(row, composing), eager=row.is_always)(
                _make_handler(by_name[row.action])
            )
    _bind_answers(bound, actions, answers.keys, takes_answers)
    _bind_answer_line(bound, answers, is_answering)
    bound.add("backspace", filter=composing & Condition(actions.is_bare_shell))(
        _make_handler(actions.leave_shell)
    )

    @bound.add(Keys.BracketedPaste, eager=True)
    def _(event: KeyPressEvent) -> None:
        actions.paste(event.data)

    return bound


def _build_filter(row: KeyRow, composing: Filter) -> Filter:
    if row.action == "escape":
        # In vi insert mode, vi's own Esc comes first.
        return composing & ~vi_insert_mode
    return ~is_searching if row.is_always else composing


def _make_handler(action: Action) -> Callable[[KeyPressEvent], None]:
    def act(event: KeyPressEvent) -> None:
        action()

    return act


def _bind_answers(
    bound: KeyBindings, actions: Actions, answer_keys: AnswerKeys, takes_answers: Filter
) -> None:
    for key in (*ANSWERS_BY_KEY, *DIGITS, "up", "down", "enter"):
        bound.add(key, filter=takes_answers, eager=True)(
            _make_handler(partial(answer_keys.press, key))
        )
    for key in STOP_KEYS:
        bound.add(key, filter=takes_answers, eager=True)(_make_handler(actions.refuse))

    @bound.add(Keys.Any, filter=takes_answers, eager=True)
    def _(event: KeyPressEvent) -> None:
        """Take any other key, which is no answer."""
        answer_keys.type(event.data)


def _bind_answer_line(bound: KeyBindings, answers: Answers, is_answering: Filter) -> None:
    bound.add("enter", filter=is_answering)(_make_handler(answers.submit_answer_line))
    for key in STOP_KEYS:
        bound.add(key, filter=is_answering)(_make_handler(answers.leave_answer_line))
