from typing import Any

import pytest

from agentcli.types.forms import FormField
from agentcli.ui.repl.forms import parse_default, parse_value

SEAT = FormField(name="seat", kind="choice", choices=(("a", "Aisle"), ("w", "Window")))
DAYS = FormField(
    name="days", kind="choices", choices=(("mo", "Monday"), ("tu", "Tuesday")), least=1, most=1
)


def field(kind: Any, **more: Any) -> FormField:
    return FormField(name="x", kind=kind, **more)


@pytest.mark.parametrize(
    ("wanted", "typed", "value"),
    [
        (field("text"), " hello ", "hello"),
        (field("text", format="email"), "a@b.org", "a@b.org"),
        (field("text", format="uri"), "https://a.b/c", "https://a.b/c"),
        (field("text", format="date"), "2026-02-28", "2026-02-28"),
        (field("text", format="date-time"), "2026-02-28T10:00:00Z", "2026-02-28T10:00:00Z"),
        (field("number"), "2.5", 2.5),
        (field("integer"), "3", 3),
        (field("boolean"), "Yes", True),
        (field("boolean"), "n", False),
        (SEAT, "2", "w"),
        (SEAT, "Aisle", "a"),
        (DAYS, "2, Tuesday", ["tu"]),
    ],
)
def test_typed_text_becomes_the_value_of_its_field(
    wanted: FormField, typed: str, value: Any
) -> None:
    if wanted is DAYS:
        wanted = FormField(name="days", kind="choices", choices=DAYS.choices)
    assert parse_value(wanted, typed) == value
    assert type(parse_value(wanted, typed)) is type(value)


@pytest.mark.parametrize(
    ("wanted", "typed", "said"),
    [
        (field("text", least=3), "ab", "at least 3 characters"),
        (field("text", most=1), "ab", "at most 1 characters"),
        (field("text", format="email"), "ab", "not a valid email"),
        (field("text", format="date"), "2026-02-30", "not a valid date"),
        (field("text", format="date-time"), "2026-02-03", "not a valid date-time"),
        (field("text", format="uri"), "no uri", "not a valid uri"),
        (field("number"), "nan", "not a number"),
        (field("number"), "two", "not a number"),
        (field("integer"), "2.5", "not a whole number"),
        (field("integer", most=9), "10", "at most 9"),
        (field("boolean"), "maybe", "type yes or no"),
        (SEAT, "3", "type a number from 1 to 2"),
        (SEAT, "", "type a number from 1 to 2"),
        (DAYS, "1,2", "at most 1 selected"),
    ],
)
def test_text_that_is_no_value_is_told_what_would_be(
    wanted: FormField, typed: str, said: str
) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        parse_value(wanted, typed)


def test_proposal_counts_only_where_the_field_itself_would_take_it() -> None:
    assert parse_default(field("integer", default=3)) == 3
    assert parse_default(field("boolean", default=False)) is False
    assert parse_default(field("integer", default="many")) is None
    assert parse_default(field("text", default={"a": 1})) is None
    assert parse_default(field("text")) is None
