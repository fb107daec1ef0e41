from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.types.messages import Usage
from agentcli.types.settings import Settings
from agentcli.types.spending import Spending
from agentcli.ui.repl.live_view import ToolbarFigures, build_fields, fit_fields
from agentcli.ui.repl.renderer import build_renderer
from agentcli.ui.repl.status import Status
from tests.unit.ui.repl.test_story import Page


def line(figures: ToolbarFigures, width: int) -> str:
    return "".join(text for _, text in fit_fields(build_fields(figures), width=width, dot=" · "))


USED = Usage(input_tokens=33_000, output_tokens=1300)
FULL = ToolbarFigures(
    mode="ask",
    model="anthropic/sonnet-x",
    context_tokens=10,
    window_tokens=100,
    spending=Spending(usage=USED, known_usd=0.123),
    branch="main*",
    background=1,
)


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (80, "ask · sonnet-x · ctx 10% · $0.12 · main* · 1 bg"),
        (40, "ask · sonnet-x · ctx 10% · $0.12 · main*"),
        (16, "ask · sonnet-x"),
        (3, "ask"),
        (2, "as"),
    ],
)
def test_toolbar_drops_fields_from_the_right(width: int, shown: str) -> None:
    assert line(FULL, width) == shown


def test_toolbar_says_first_that_there_is_no_sandbox() -> None:
    figures = ToolbarFigures(mode="auto", is_confined=False, branch="main")
    assert build_fields(figures)[0] == ("failed", "auto, no sandbox")


def test_toolbar_shows_tokens_where_the_price_is_not_known() -> None:
    figures = ToolbarFigures(mode="ask", spending=Spending(usage=USED, unpriced=1))
    assert line(figures, 80) == "ask · ↑33k ↓1.3k"


@pytest.mark.parametrize(
    ("tokens", "field"),
    [
        (69, ("dim", "ctx 69%")),
        (70, ("warning", "ctx 70%!")),
        (85, ("failed", "ctx 85%! compact soon")),
    ],
)
def test_toolbar_warns_of_a_full_context(tokens: int, field: tuple[str, str]) -> None:
    figures = ToolbarFigures(mode="ask", context_tokens=tokens, window_tokens=100)
    assert build_fields(figures)[1] == field


def test_toolbar_shows_the_mode_of_vi_beside_the_permission_mode() -> None:
    figures = ToolbarFigures(mode="ask", vi_mode="normal", branch="main")
    assert line(figures, 80) == "ask · vi normal · main"


def test_every_field_has_a_style_of_the_theme() -> None:
    figures = replace(
        FULL,
        is_confined=False,
        plan="1/2",
        vi_mode="normal",
        activities=("2 agents",),
        own_status="up",
    )
    renderer = build_renderer(
        Settings(workspace=Path("/nowhere"), theme="dark"),
        background="",
        color="always",
        display=Page(),
        status=Status(),
    )
    assert {style for style, _ in build_fields(figures)} <= set(renderer.build_live_styles())
