import pytest
from prompt_toolkit.key_binding import KeyBindings

from agentcli.types.errors import SettingsError
from agentcli.ui.repl.answer_keys import AnswerKeys
from agentcli.ui.repl.approval import ApprovalPrompt, RuleOffer
from agentcli.ui.repl.keys import TABLE, build_bindings, build_table, list_key_labels


def bound() -> KeyBindings:
    approvals = ApprovalPrompt(
        is_composing=lambda: False,
        measure_quiet_s=lambda: 100.0,
        build_offer=lambda question: RuleOffer(),
        find_position=lambda question: (1, 1),
        on_change=lambda: None,
    )
    actions = {row.action: lambda: None for row in TABLE}
    for name in ("answer_line", "leave_answer_line", "leave_shell"):
        actions[name] = lambda: None
    return build_bindings(
        actions,
        approvals=approvals,
        paste=lambda data: None,
        answer_keys=AnswerKeys(
            approvals,
            alone_s=lambda: 0.25,
            answer=lambda key: None,
            write=lambda text: None,
            changed=lambda: None,
        ),
        is_answering=lambda: False,
        is_bare_shell=lambda: False,
    )


def test_every_key_of_the_table_is_bound() -> None:
    keys = {tuple(str(getattr(key, "value", key)) for key in one.keys) for one in bound().bindings}
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
