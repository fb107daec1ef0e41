import pytest

from agentcli.agent.prompt_cache import CachedPrompt
from agentcli.ui.repl.live_view import ToolbarFigures, build_fields


@pytest.mark.parametrize(
    ("left_s", "cold_usd", "shown"),
    [
        (3600.0, 0.42, ("dim", "cache 60m")),
        (3541.0, 0.42, ("dim", "cache 60m")),
        (3540.0, 0.42, ("dim", "cache 59m")),
        (5.0, 0.42, ("dim", "cache 1m")),
        (0.0, 0.42, ("warning", "cache cold, $0.42")),
        (0.0, None, ("warning", "cache cold")),
    ],
)
def test_cache_counts_down_and_then_names_its_price(
    left_s: float, cold_usd: float | None, shown: tuple[str, str]
) -> None:
    cached = CachedPrompt(tokens=50_000, left_s=left_s, cold_usd=cold_usd)
    assert build_fields(ToolbarFigures(mode="ask", cache=cached)) == [("mode", "ask"), shown]
