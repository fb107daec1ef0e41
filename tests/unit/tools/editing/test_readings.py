import pytest

from agentcli.tools.edit.readings import Reading, list_other_readings


def read(old: str, new: str) -> list[tuple[str, str, str]]:
    return [(each.old, each.new, each.without) for each in list_other_readings(Reading(old, new))]


@pytest.mark.parametrize(
    ("old", "new", "plain_old", "plain_new"),
    [
        ("7\ta\n8\tb\n", "7\ta\n8\tc\n9\td\n", "a\nb\n", "a\nc\nd\n"),
        ("  7\ta\n  8\tb", "x", "a\nb", "x"),
        ("\n7\ta\n8\n9\tb\n\n", "7\t", "\na\n\nb\n\n", ""),
        ("7\t7\ta", "7\t8\ta", "7\ta", "8\ta"),
    ],
)
def test_line_numbers_are_taken_out(old: str, new: str, plain_old: str, plain_new: str) -> None:
    assert read(old, new) == [(plain_old, plain_new, "line numbers")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\n", "c\n"),
        ("7\ta\n9\tb\n", "c\n"),
        ("7\ta\nb\n", "c\n"),
        ("7\n8\n", "c\n"),
        ("7\ta\n", "9\tb\n"),
        ("7\ta\n8\tb\n", "7\ta\nc\n"),
    ],
)
def test_numbers_that_are_no_line_numbers_stay(old: str, new: str) -> None:
    assert read(old, new) == []


@pytest.mark.parametrize(
    ("old", "new", "plain_old", "plain_new"),
    [
        ("a\\nb", "a\\nc", "a\nb", "a\nc"),
        ("a\\n\\tb", "a\\n\\tb\\n\\tc", "a\n\tb", "a\n\tb\n\tc"),
        ('say(\\"x\\")', 'say(\\"y\\")', 'say("x")', 'say("y")'),
        ('p(\\"\\\\n\\")\\nb', 'p(\\"\\\\n\\")\\nc', 'p("\\n")\nb', 'p("\\n")\nc'),
        ("a\\nb", "a\nc", "a\nb", "a\nc"),
        ("a\r\\nb", "a\r\\nc", "a\nb", "a\nc"),
    ],
)
def test_escapes_are_resolved(old: str, new: str, plain_old: str, plain_new: str) -> None:
    assert read(old, new) == [(plain_old, plain_new, "escapes")]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\\nb", 'a\\nprint("x\\n")'),
        ("a\\nb", "a\\nx = 1\\ty"),
        ("a\\nb", "c\\nd"),
        ("a\\nb", "a\\nc \\\\n"),
        ("s = /\\\\s/", "# space\ns = /\\\\s+/"),
        ("a\nb\\n", "x"),
    ],
)
def test_escapes_that_may_be_the_codes_own_stay(old: str, new: str) -> None:
    assert read(old, new) == []


def test_numbers_may_be_escaped_as_well() -> None:
    wanted = ("a\nb", "a\nc", "escapes and line numbers")
    assert wanted in read("1\ta\\n2\tb", "1\ta\\n2\tc")
