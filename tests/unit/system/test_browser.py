from pathlib import Path

import pytest

from agentcli.system.browser import has_screen, is_page, open_page, parse_host


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        ("https://a.example/x?y=1", True),
        ("http://127.0.0.1:8080/", True),
        ("file:///etc/passwd", False),
        ("javascript:alert(1)", False),
        ("vscode://open", False),
        ("https://", False),
        ("https://a.example/\x1b]0;x", False),
        ("https://[broken", False),
        ("-e whoami", False),
    ],
)
def test_only_pages_of_the_web_are_pages(address: str, is_one: bool) -> None:
    assert is_page(address) is is_one


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("https://good.example@evil.example/", "evil.example"),
        ("https://g\u043e\u043ed.example/", "xn--gd-fmca.example"),
        ("https://GOOD.example:8443/", "good.example"),
    ],
)
def test_host_is_the_one_that_is_asked(address: str, host: str) -> None:
    assert parse_host(address) == host


def test_nothing_is_opened_where_nobody_would_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SSH_CONNECTION", "1 2 3 4")
    assert not has_screen()
    assert not open_page("https://a.example/", workspace=Path("/"))
