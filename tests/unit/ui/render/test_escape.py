import pytest

from agentcli.ui.render.paint import escape, escape_with_ranges


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[2J\x07\x9b", "\\x1b[2J\\x07\\x9b"),
        ("abc\u202ecba\u2066", "abc\\u202ecba\\u2066"),
        ("in\u200bvisible\ufeff", "in\\u200bvisible\\ufeff"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("lone\udc80", "lone\\udc80"),
        ("👩‍🔬 ❤️ é 日本", "👩‍🔬 ❤️ é 日本"),
        ("می‌خواهم", "می‌خواهم"),
        ("a\u200db", "a\\u200db"),
    ],
)
def test_only_what_acts_or_hides_is_escaped(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_escapes_are_marked_where_they_stand() -> None:
    assert escape_with_ranges("a\x1bb\u202e") == ("a\\x1bb\\u202e", [(1, 5), (6, 12)])
