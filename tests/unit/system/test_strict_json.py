import pytest

from agentcli.system.strict_json import parse_json, replace_nonfinite


def test_json_is_parsed() -> None:
    assert parse_json(' {"a": [1, 1.5, -2e3, 1e-400, "\\u00e9", null]} ') == {
        "a": [1, 1.5, -2000.0, 0.0, "é", None]
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[NaN]", "NaN is not a JSON value"),
        ('{"a": -Infinity}', "-Infinity is not a JSON value"),
        ("1e400", "the number 1e400 is too large"),
        ("[-1E+999]", r"the number -1E\+999 is too large"),
        (f"{'9' * 500}.0", f"the number {'9' * 40} is too large"),
        ("1 2", "Extra data"),
        ("", "Expecting value"),
    ],
)
def test_what_is_not_json_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)


def test_numbers_that_json_does_not_have_become_names() -> None:
    inf = float("inf")
    assert replace_nonfinite({"a": [inf, -inf, 1.5, {"b": float("nan")}], "c": True}) == {
        "a": ["Infinity", "-Infinity", 1.5, {"b": "NaN"}],
        "c": True,
    }
