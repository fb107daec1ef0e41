import pytest

from agentcli.providers.http.route import Route, check_base_url, join_url
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
        ("https://a.example/x?v=1", "/v1/chat", "https://a.example/x/v1/chat?v=1"),
        ("https://a.example/v1/?v=1#top", "/v1/chat", "https://a.example/v1/chat?v=1"),
        ("https://a.example/v1/chat?v=1", "/v1/chat", "https://a.example/v1/chat?v=1"),
        (
            "https://a.example?v=1",
            "/v1beta/m:go?alt=sse",
            "https://a.example/v1beta/m:go?v=1&alt=sse",
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
        "http://\u4e2d..example",
        "{}",
    ],
)
def test_what_is_no_address_is_named_with_its_source(url: str) -> None:
    with pytest.raises(SettingsError, match="X_BASE_URL is not an address"):
        check_base_url(url, source="X_BASE_URL")


@pytest.mark.parametrize(
    ("base", "target", "host"),
    [
        ("http://a.example/\u4e2d \xfc/v1", "/%E4%B8%AD%20%C3%BC/v1/chat", "a.example"),
        ("http://a.example/%E4%B8%AD/v1", "/%E4%B8%AD/v1/chat", "a.example"),
        ("http://b\xfccher.example:8080/v1", "/v1/chat", "xn--bcher-kva.example:8080"),
        (
            "http://a.example/it's/(a,b);c=@~!$&+*|/v1",
            "/it's/(a,b);c=@~!$&+*|/v1/chat",
            "a.example",
        ),
    ],
)
def test_address_in_any_script_is_sent_in_ascii(base: str, target: str, host: str) -> None:
    assert Route(check_base_url(base, source="X_BASE_URL"), {}).locate("/v1/chat") == (target, host)
