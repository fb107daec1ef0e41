from pathlib import Path

import pytest

from agentcli.session.model import choose_model
from agentcli.types.settings import CustomProvider, Settings, ToolSearch

GATEWAY = CustomProvider(name="gate", protocol="anthropic", base_url="http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("model", "address", "setting", "loads"),
    [
        ("opus", "", "auto", True),
        ("opus", "https://api.anthropic.com", "auto", True),
        ("opus", "http://127.0.0.1:1", "auto", False),
        ("opus", "http://127.0.0.1:1", "provider", True),
        ("opus", "", "own", False),
        ("gate/claude-opus-5-5", "", "auto", False),
        ("gate/claude-opus-5-5", "", "provider", True),
        ("argon", "", "provider", False),
    ],
)
def test_who_loads_tools_that_were_found(
    model: str,
    address: str,
    setting: ToolSearch,
    loads: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
    settings = Settings(workspace=tmp_path, model=model, tool_search=setting, providers=(GATEWAY,))
    assert choose_model(settings)[0].loads_tools is loads


def test_quirks_of_a_server_reach_its_models(tmp_path: Path) -> None:
    lab = CustomProvider(
        name="lab", protocol="openai-chat", base_url="http://x", quirks=("no_stream_usage",)
    )
    for name, quirks in (("m", set()), ("DeepSeek-V4", {"reasoning_back"})):
        settings = Settings(workspace=tmp_path, model=f"lab/{name}", providers=(lab,))
        assert choose_model(settings)[0].quirks == {"no_stream_usage", *quirks}
