"""Command lines as the table of options reads them, beside typer: same values, or left to typer."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command

from agentcli.cli import program, run
from agentcli.cli.line import RUN, SESSION, parse_line
from agentcli.ui.arguments import STYLE
from tests.support.contracts import line_options
from tests.support.examples import examples

VALUES = ("opus", "a b", "", "-", "--", "-x", "--model", "a=b", "ü", "1", "../d")
FOREIGN = ("--unknown", "--mod", "-qv", "--help", "-h", "-Cd")


def collect_values(command: Callable[..., Any]) -> Any:
    """Return a command with the same options that returns the values it gets."""

    @wraps(command)
    def collect(**values: Any) -> dict[str, Any]:
        values.pop("context", None)
        return values

    app = typer.Typer(**STYLE)
    app.command()(collect)
    return get_command(app)


TYPER = {RUN: collect_values(run.run), SESSION: collect_values(program._main)}
OPTIONS = {name: sorted(table["options"]) for name, table in line_options().items()}


@st.composite
def lines(draw: st.DrawFn, command: str) -> list[str]:
    words: list[str] = []
    for _ in range(draw(st.integers(0, 5))):
        name = draw(st.sampled_from([*OPTIONS[command] * 3, *FOREIGN]))
        value = draw(st.sampled_from(VALUES))
        forms = [[name], [name, value], [f"{name}={value}"], [value]]
        words += draw(st.sampled_from(forms))
    return words


def test_a_single_dash_is_a_value_for_both() -> None:
    words = program._insert_empty_values(["--resume", "-"])
    assert parse_line(SESSION, words) == TYPER[SESSION].main(words, standalone_mode=False)


@pytest.mark.parametrize("command", [RUN, SESSION])
@examples(300)
@given(data=st.data())
def test_line_is_read_as_typer_reads_it_or_left_to_it(command: str, data: st.DataObject) -> None:
    words = data.draw(lines(command))
    values = parse_line(command, words)
    if values is not None:
        words = words if command else program._insert_empty_values(words)
        assert values == TYPER[command].main(words, standalone_mode=False)


@pytest.mark.parametrize("command", [RUN, SESSION])
@pytest.mark.parametrize("form", ["{} {}", "{}={}"])
def test_every_option_is_read_without_typer(command: str, form: str) -> None:
    table = line_options()[command]
    for option, (name, kind, *_) in table["options"].items():
        is_flag = kind == "flag"
        if form == "{}={}" and (is_flag or not option.startswith("--")):
            continue
        words = [option] if is_flag else form.format(option, "x").split()
        values = parse_line(command, words)
        assert values is not None
        assert values == TYPER[command].main(words, standalone_mode=False)
        assert values[name] != table["defaults"][name]
