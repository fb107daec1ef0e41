import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.web.web_search import WebSearch, choose_engine
from agentcli.types.errors import ToolError
from agentcli.types.messages import Text
from agentcli.types.tools import Output, ToolContext
from tests.support.program import Ran, agentcli, script, session_log
from tests.support.provider import Provider, Recorded, Reply, answer, page

FOUND = [
    {
        "title": "Python <b>3.15</b>",
        "url": "https://www.python.org/",
        "text": "It&#x27;s <b>out</b>.",
    },
    {"title": "News", "url": "https://news.example/", "text": "x" * 2000},
]
KEY = "key-0123456789abcdef"


def results(text_field: str) -> list[dict[str, str]]:
    return [{"title": one["title"], "url": one["url"], text_field: one["text"]} for one in FOUND]


ENGINES: dict[str, tuple[Any, Callable[[Recorded], bool]]] = {
    "brave": (
        {"type": "search", "web": {"results": results("description")}},
        lambda sent: (
            sent.path == "/res/v1/web/search?q=python%203.15%26x&count=10"
            and sent.headers["x-subscription-token"] == KEY
        ),
    ),
    "tavily": (
        {"query": "q", "results": results("content")},
        lambda sent: (
            (sent.method, sent.path) == ("POST", "/search")
            and sent.headers["authorization"] == f"Bearer {KEY}"
            and sent.json == {"query": "python 3.15&x", "max_results": 10}
        ),
    ),
    "searxng": (
        {"query": "q", "results": results("content")},
        lambda sent: sent.path == "/search?q=python%203.15%26x&format=json",
    ),
}


def search(
    name: str, reply: Reply, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[Output, Recorded]:
    monkeypatch.setenv("HOME", str(tmp_path))
    with Provider([reply]) as server:
        if name != "searxng":
            monkeypatch.setenv(f"{name.upper()}_API_KEY", KEY)
            monkeypatch.setenv(f"{name.upper()}_BASE_URL", server.base_url)
        tool = WebSearch(choose_engine(server.base_url if name == "searxng" else name))
        context = ToolContext(call_id="c", workspace=tmp_path, progress=print)
        output = asyncio.run(tool.run(tool.parse({"q": "python 3.15&x"}), context))
        return output, server.requests[0]


@pytest.mark.parametrize("name", ENGINES)
def test_engine_is_asked_in_its_own_way_and_read_alike(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    body, is_right = ENGINES[name]
    output, sent = search(name, answer(body), monkeypatch, tmp_path)
    assert is_right(sent), (sent.method, sent.path, sent.headers, sent.body)
    (block,) = output.content
    assert isinstance(block, Text)
    first, second = block.text.split("\n\n")
    assert first == "1. Python 3.15\n   https://www.python.org/\n   It's out."
    assert len(second) < 700
    assert output.origin == f"the web, found by {name}"


@pytest.mark.parametrize(
    ("name", "reply", "words"),
    [
        ("brave", answer({"error": "bad"}, status=401), "agentcli login brave"),
        ("tavily", answer({"detail": "bad"}, status=403), "agentcli login tavily"),
        ("brave", answer({}, status=429), "asks for a pause"),
        ("searxng", page("<p>no</p>", status=403), "does not answer in JSON"),
        ("searxng", page("<html>hello</html>", status=200), "not complete JSON"),
        ("searxng", answer({"results": "none"}), "sent no results"),
        ("searxng", answer([1, 2]), "sent no results"),
        ("searxng", answer({}, status=500), "HTTP 500"),
    ],
)
def test_failed_search_is_one_clear_line(
    name: str, reply: Reply, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ToolError) as failed:
        search(name, reply, monkeypatch, tmp_path)
    assert words in str(failed.value)
    assert "\n" not in str(failed.value)
    assert KEY not in str(failed.value)


def run(home: Path, workspace: Path, env: dict[str, str], *options: str) -> Ran:
    model = script(home / "s.json", [{"calls": [{"web_search": {"query": "python"}}]}, "Done."])
    more = ("--model", model, "--mode", "plan", *options, "x")
    return agentcli("run", "-C", workspace, *more, home=home, env=env)


def test_configured_engine_is_a_tool_in_every_mode(home: Path, workspace: Path) -> None:
    with Provider([answer(ENGINES["searxng"][0])]) as server:
        ran = run(home, workspace, {"AGENTCLI_SEARCH": server.base_url}, "--web")
    assert ran.code == 0, ran.err
    assert "web_search python: 2 results" in ran.err
    finished = [
        fact
        for line in session_log(home).read_text().splitlines()
        if (fact := json.loads(line)["fact"])["type"] == "call_finished"
    ]
    assert finished[0]["result"]["origin"] == "the web, found by searxng"


def test_engine_without_a_key_is_told_and_the_run_goes_on(home: Path, workspace: Path) -> None:
    ran = run(home, workspace, {"AGENTCLI_SEARCH": "brave"}, "--web")
    assert ran.code == 0
    assert "no key for the search engine brave; to add one: agentcli login brave" in ran.err
    stored = agentcli("login", "brave", home=home, stdin=f"{KEY}\n")
    assert (stored.code, "The first search will test it." in stored.out) == (0, True), stored.err
    assert "no key" not in run(home, workspace, {"AGENTCLI_SEARCH": "brave"}, "--web").err


def test_denied_search_asks_nobody(home: Path, workspace: Path) -> None:
    with Provider([]) as server:
        env = {"AGENTCLI_SEARCH": server.base_url}
        ran = run(home, workspace, env, "--web", "--deny", "web_search")
        assert server.requests == []
    assert "denied" in ran.err
