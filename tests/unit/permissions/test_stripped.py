import pytest

from agentcli.permissions.secrets import find_open_sequence, strip_controls

COLOURED = "a\x1b[31mb\x1b[0m\0c"


def test_plain_text_is_not_looked_at() -> None:
    assert strip_controls("plain\n\ttext é") is None


def test_controls_are_taken_out_and_every_place_is_known() -> None:
    shown = strip_controls(COLOURED)

    assert shown is not None
    assert shown.text == "abc"
    assert [COLOURED[shown.locate_origin(place)] for place in range(3)] == ["a", "b", "c"]
    assert shown.locate_span(0, 2) == (0, COLOURED.index("b") + 1)
    assert [shown.locate_position(at) for at in (0, 1, COLOURED.index("b"), len(COLOURED))] == [
        0,
        1,
        1,
        3,
    ]
    assert shown.step_back(COLOURED.index("c"), 1) == COLOURED.index("a") + 1


@pytest.mark.parametrize(
    ("text", "begun"),
    [
        ("abc", 3),
        ("ab\x1b", 2),
        ("ab\x1b[1;3", 2),
        ("ab\x1b[1;31m", 9),
        ("ab\x1b]0;title", 2),
        ("ab\x1b]0;title\x1b", 2),
        ("ab\x1b]0;title\x07", 12),
        ("ab\x1b]0;title\nx", 13),
        ("ab\x1b(", 2),
        ("ab\x1b(B", 5),
    ],
)
def test_sequence_that_is_not_complete_is_found(text: str, begun: int) -> None:
    assert find_open_sequence(text) == begun
