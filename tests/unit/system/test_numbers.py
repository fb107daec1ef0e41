import pytest

from agentcli.system.strict_json import parse_whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1)])
def test_whole_number_reads_plain_digits(text: str, number: int) -> None:
    assert parse_whole_number(text) == number


@pytest.mark.parametrize("text", ["", "²", "٣", "-1", "+1", "1 ", "1_0", "1.0", "9" * 19])
def test_whole_number_refuses_all_else(text: str) -> None:
    assert parse_whole_number(text) is None
