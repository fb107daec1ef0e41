import pytest

from agentcli.providers.http.route import check_base_url, join_url
from agentcli.types.errors import SettingsError


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("https://a.example", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/v1", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/v1/", "/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example/api/v4", "/v1/chat", "https://a.example/api/v4/chat"),
        ("https://a.example/v1beta/openai", "/v1/chat", "https://a.example/v1beta/openai/chat"),
        ("https://a.example/v1/chat", "/v1/chat", "https://a.example/v1/chat"),
        ("https://a.example/inference/chat", "/v1/chat", "https://a.example/inference/chat"),
        ("https://v1.example/proxy", "/v1/chat", "https://v1.example/proxy/v1/chat"),
        ("https://g.example", "/v1beta/m:go?alt=sse", "https://g.example/v1beta/m:go?alt=sse"),
        (
            "https://g.example/v1beta",
            "/v1beta/m:go?alt=sse",
            "https://g.example/v1beta/m:go?alt=sse",
        ),
    ],
)
def test_base_and_path_are_joined_however_they_are_written(
    base: str, path: str, expected: str
) -> None:
    assert join_url(base, path) == expected


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "https://a.example/v1", " http://[::1]:9 "]
)
def test_address_is_accepted(url: str) -> None:
    assert check_base_url(url, source="X_BASE_URL") == url.strip()


@pytest.mark.parametrize(
    "url",
    [
        "a.example",
        "ftp://a.example",
        "http://",
        "http://a:99999",
        "http://a:port",
        "http://[",
        "{}",
    ],
)
def test_what_is_no_address_is_named_with_its_source(url: str) -> None:
    with pytest.raises(SettingsError, match="X_BASE_URL is not an address"):
        check_base_url(url, source="X_BASE_URL")
