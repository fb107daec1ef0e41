import pytest

from agentcli.providers.catalog import PROVIDERS, Key, Provider, find_key
from agentcli.providers.http.route import find_base_url
from agentcli.types.errors import SettingsError


@pytest.mark.parametrize(
    ("provider", "environ", "source"),
    [
        ("anthropic", {"ANTHROPIC_API_KEY": " k "}, "ANTHROPIC_API_KEY"),
        ("openai", {"OPENAI_API_KEY": "k"}, "OPENAI_API_KEY"),
        ("gemini", {"GEMINI_API_KEY": "k", "GOOGLE_API_KEY": "other"}, "GEMINI_API_KEY"),
        ("gemini", {"GEMINI_API_KEY": "", "GOOGLE_API_KEY": "k"}, "GOOGLE_API_KEY"),
    ],
)
def test_key_is_found_where_it_is_expected(
    provider: str, environ: dict[str, str], source: str
) -> None:
    assert find_key(PROVIDERS[provider], environ) == Key(
        value="k", source=source, fix=f"export {source}=…"
    )


def test_no_key_is_none() -> None:
    assert find_key(PROVIDERS["anthropic"], {"OPENAI_API_KEY": "k"}) is None


def test_key_is_never_shown() -> None:
    key = Key(value="sk-ant-0123456789abcd", source="X")
    assert "0123" not in repr(key)
    assert key.tail == "…abcd"
    assert Key(value="short", source="X").tail == "…"


@pytest.mark.parametrize(
    ("provider", "environ", "expected"),
    [
        ("anthropic", {}, "https://api.anthropic.com"),
        ("anthropic", {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9/"}, "http://127.0.0.1:9/"),
        ("openai", {"OPENAI_BASE_URL": "http://x/v1"}, "http://x/v1"),
        ("openai-chat", {"OPENAI_BASE_URL": "http://x/v1"}, "http://x/v1"),
        ("gemini", {"GEMINI_BASE_URL": "http://x"}, "http://x"),
        ("ollama", {}, "http://127.0.0.1:11434"),
        ("ollama", {"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434"),
        ("ollama", {"OLLAMA_HOST": ":1234"}, "http://127.0.0.1:1234"),
        ("ollama", {"OLLAMA_HOST": "box:1234"}, "http://box:1234"),
        ("ollama", {"OLLAMA_HOST": "https://box.example/"}, "https://box.example/"),
        ("bedrock", {}, ""),
    ],
)
def test_address_is_the_environments_or_the_providers(
    provider: str, environ: dict[str, str], expected: str
) -> None:
    assert find_base_url(PROVIDERS[provider], environ) == expected


def test_bad_address_is_named_with_its_variable() -> None:
    with pytest.raises(SettingsError, match="ANTHROPIC_BASE_URL is not an address"):
        find_base_url(PROVIDERS["anthropic"], {"ANTHROPIC_BASE_URL": "localhost:8080"})


@pytest.mark.parametrize("url", ["", "http://[", "http://h:port", "localhost:8000"])
def test_address_of_a_provider_of_the_persons_own_is_a_setting_to_fix(url: str) -> None:
    mine = Provider(name="mine", protocol="openai-chat", base_url=url)
    with pytest.raises(SettingsError, match="mine's base_url is not an address"):
        find_base_url(mine, {})
