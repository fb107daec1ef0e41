"""The computer tool of four protocols, each before its strict server, in one real Chromium."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from agentcli.features.insights.export_html import render_html
from agentcli.features.insights.transcript import build_transcript
from agentcli.log.reader import read_log
from agentcli.session.builder import open_session
from agentcli.types.errors import Ending
from agentcli.types.events import CallFinished, CallJudged, Event, HostJudged, Warned
from agentcli.types.messages import Image
from agentcli.types.settings import Settings
from agentcli.types.tools import Browsed, ToolResult
from tests.support import anthropic_streams as blocks
from tests.support import responses_streams
from tests.support.chromium import BROWSER
from tests.support.program import agentcli, script
from tests.support.provider import Reply, sse, stream
from tests.support.serving import serve
from tests.support.voices import (
    Anthropic,
    Chat,
    Choir,
    Gemini,
    Interactions,
    Object,
    Responses,
    Voice,
    choir,
)

FORM = """<!doctype html><title>Order</title>
<style>input, button { position: absolute; left: 100px; width: 200px; height: 40px }</style>
<form action=/done>
<input name=a style="top: 100px"><input name=b style="top: 200px">
<input name=c style="top: 300px"><input name=d style="top: 400px">
<button style="top: 500px">Send</button></form>
<script src="http://tracker.invalid/x.js"></script>"""


class Site:
    """A form on loopback, and what was sent with it."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port = server.server_port
        self.sent: list[dict[str, list[str]]] = []
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"


@pytest.fixture
def site() -> Iterator[Site]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            found.paths.append(parts.path)
            if parts.query:
                found.sent.append(parse_qs(parts.query))
            self.send_response(302 if parts.path == "/away" else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Location", f"http://localhost:{found.port}/secret")
            self.end_headers()
            self.wfile.write(FORM.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    with serve(ThreadingHTTPServer(("127.0.0.1", 0), Page)) as server:
        found = Site(server)
        yield found


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Site) -> Settings:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    return Settings(
        workspace=folder,
        mode="auto",
        sessions=tmp_path / "sessions",
        computer=True,
        allow=(f"computer(127.0.0.1:{site.port})",),
    )


def needs_browser(test: Callable[..., None]) -> Callable[..., None]:
    for mark in (
        pytest.mark.layer("bubblewrap"),
        pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed"),
        pytest.mark.skipif(find_spec("playwright") is None, reason="no Playwright is installed"),
    ):
        test = mark(test)
    return test


class BrowsingAnthropic(Anthropic):
    def acts(self, number: int, *members: tuple[str, Object]) -> Reply:
        calls: list[Any] = []
        for place, (name, given) in enumerate(members):
            block, deltas = blocks.call(f"toolu_{number}_{place}", name, given)
            calls.append(({**block, "toolset_name": "browser"}, deltas))
        return stream(sse(blocks.events(calls, stop_reason="tool_use")))


class BrowsingResponses(Responses):
    def acts(self, number: int, *actions: Object, checks: Sequence[Object] = ()) -> Reply:
        return self.server.reply(
            responses_streams.thought(number * 10, sealed="sealed"),
            {
                "type": "computer_call",
                "id": f"cu_{number}",
                "call_id": f"call_cu_{number}",
                "status": "completed",
                "pending_safety_checks": [*checks],
                "actions": [*actions],
            },
        )


def at(x: int, y: int) -> Object:
    return {"target": {"type": "coordinate", "x": x, "y": y}}


def converse(
    settings: Settings,
    turns: Sequence[tuple[Voice, Sequence[Reply]]],
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Choir, list[Event], Path]:
    """One session with a turn for each voice, which the strict servers accept."""
    events: list[Event] = []

    async def run() -> Path:
        first = turns[0][0]
        session = open_session(replace(settings, model=first.model), listeners=(events.append,))
        for number, (voice, _) in enumerate(turns):
            if number:
                await session.model_switch.use(voice.model)
            ended = await session.run_turn(f"Turn {number}.")
            assert ended.ending in (Ending.DONE, Ending.DENIED), ended
        await session.close(0)
        return session.paths.log

    voices = list(dict.fromkeys(voice for voice, _ in turns))
    with choir(voices, [reply for _, replies in turns for reply in replies]) as providers:
        for name, value in providers.environ.items():
            monkeypatch.setenv(name, value)
        log = asyncio.run(run())
    assert providers.server.complaints == []
    return providers, events, log


def list_results(events: Sequence[Event]) -> list[ToolResult]:
    return [event.result for event in events if isinstance(event, CallFinished)]


@needs_browser
def test_one_form_is_filled_in_by_four_protocols(
    settings: Settings, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude, gpt, gemini = BrowsingAnthropic(), BrowsingResponses(), Gemini()
    interactions, chat = Interactions(), Chat()
    third = {"x": 150 * 1000 / 1280, "y": 320 * 1000 / 800, "text": "Three"}
    turns: list[tuple[Voice, Sequence[Reply]]] = [
        (
            claude,
            [
                claude.acts(1, ("navigate", {"url": site.url})),
                claude.acts(2, ("left_click", at(150, 120)), ("type", {"text": "One"})),
                claude.says(3, "One.", []),
            ],
        ),
        (
            gpt,
            [
                gpt.acts(4, {"type": "screenshot"}),
                gpt.acts(
                    5,
                    {"type": "click", "button": "left", "x": 150, "y": 220},
                    {"type": "type", "text": "Twoo"},
                    {"type": "keypress", "keys": ["BACKSPACE"]},
                ),
                gpt.says(6, "Two.", []),
            ],
        ),
        (gemini, [gemini.says(7, "Go.", [("type_text_at", third)]), gemini.says(8, "Three.", [])]),
        (chat, [chat.says(9, "I see nothing.", [])]),
        (
            interactions,
            [
                interactions.says(10, "Go.", [("click_at", {"x": 120, "y": 525})]),
                interactions.says(11, "On.", [("type_text_at", {"x": 120, "y": 525, "text": "4"})]),
                interactions.says(12, "Done.", [("click_at", {"x": 120, "y": 650})]),
                interactions.says(13, "Sent.", []),
            ],
        ),
    ]
    providers, events, log = converse(settings, turns, monkeypatch)
    assert site.sent == [{"a": ["One"], "b": ["Two"], "c": ["Three"], "d": ["4"]}]
    _check_declarations(providers, turns)
    results = list_results(events)
    assert [result.error for result in results] == [None] * 9
    assert all(result.origin == f"the web, 127.0.0.1:{site.port}" for result in results)
    assert all(isinstance(result.content[-1], Image) for result in results)
    assert isinstance(results[-1].details, Browsed)
    assert results[-1].details.url.startswith(f"{site.url}done?a=One")
    refused = [event for event in events if isinstance(event, HostJudged)]
    assert {event.host: event.verdict.decision for event in refused} == {
        "127.0.0.1": "allow",
        "tracker.invalid": "deny",
    }
    # On a slow machine the page is shown before all of it has loaded.
    told = [result.text for result in results if "[tracker.invalid:80 was refused" in result.text]
    assert len(told) == 1 and "was refused: no rule allows" in told[0]
    warned = [event.message for event in events if isinstance(event, Warned)]
    assert "openai-chat/deepseek-v4 has no computer tool, so it gets none" in warned
    assert _count_pictures(log) == 9


def _check_declarations(providers: Choir, turns: Sequence[tuple[Voice, Sequence[Reply]]]) -> None:
    """Each protocol declares its own tool, and ours by its schema never."""
    claude, gpt, gemini, chat, interactions = (voice for voice, _ in turns)
    tools = {voice.path: providers.requests(voice)[-1].get("tools", []) for voice, _ in turns}
    assert tools[claude.path][-1]["type"] == "browser_toolset_20260801"
    assert [tool["type"] for tool in tools[gpt.path][-2:]] == ["computer", "function"]
    assert tools[gemini.path][-1]["computerUse"]["environment"] == "ENVIRONMENT_BROWSER"
    assert tools[interactions.path][-1]["type"] == "computer_use"
    assert '"name": "computer"' not in json.dumps(tools)
    assert "browser_toolset" not in json.dumps(tools[chat.path])
    sent = [it for turn in providers.requests(claude)[-1]["messages"] for it in turn["content"]]
    calls = [it for it in sent if it["type"] == "tool_use"]
    assert [(it["name"], it["toolset_name"]) for it in calls] == [
        ("navigate", "browser"),
        ("left_click", "browser"),
        ("type", "browser"),
    ]
    shown = [it["content"] for it in sent if it["type"] == "tool_result"]
    assert [[part["type"] for part in content] for content in shown] == [["text", "image"]] * 3
    outputs = [it for it in providers.requests(gpt)[-1]["input"] if it["type"].endswith("_output")]
    assert outputs[-1]["output"]["type"] == "computer_screenshot"


def _count_pictures(log: Path) -> int:
    """The pictures in the export of the recorded session."""
    page = render_html(build_transcript(read_log(log).entries))
    return page.count('<img alt="" src="data:image/')


@needs_browser
def test_unknown_actions_are_answered_and_the_session_goes_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpt, gemini, interactions = BrowsingResponses(), Gemini(), Interactions()
    unknown = [("pinch_zoom_at", {"x": 1, "y": 2})]
    turns: list[tuple[Voice, Sequence[Reply]]] = [
        (gpt, [gpt.acts(3, {"type": "pinch", "x": 1}), gpt.says(4, "Well.", [])]),
        (gemini, [gemini.says(5, "Go.", unknown), gemini.says(6, "Well.", [])]),
        (interactions, [interactions.says(7, "Go.", unknown), interactions.says(8, "Well.", [])]),
    ]
    _, events, _ = converse(settings, turns, monkeypatch)
    action, *functions = list_results(events)
    assert action.error == "invalid_input" and "pinch" in action.text
    assert [result.error for result in functions] == ["unknown_tool"] * 2
    assert all("pinch_zoom_at" in result.text for result in functions)


@needs_browser
def test_denied_host_is_not_opened_by_any_way(
    settings: Settings, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = site.port
    narrow = replace(
        settings,
        allow=(f"computer(look,navigate 127.0.0.1:{port})",),
        deny=(f"network(localhost:{port})",),
    )
    claude, gpt = BrowsingAnthropic(), BrowsingResponses()
    check = {"id": "sc_1", "code": "malicious_instructions", "message": "Looks odd."}
    turns: list[tuple[Voice, Sequence[Reply]]] = [
        (
            claude,
            [
                claude.acts(1, ("navigate", {"url": f"http://localhost:{port}/secret"})),
                claude.acts(2, ("navigate", {"url": "file:///etc/passwd"})),
                claude.acts(3, ("navigate", {"url": f"{site.url}away"})),
                claude.acts(4, ("navigate", {"url": site.url})),
                claude.acts(5, ("left_click", at(150, 120)), ("screenshot", {})),
                claude.says(6, "No.", []),
            ],
        ),
        (
            gpt,
            [
                gpt.acts(7, {"type": "click", "button": "left", "x": 150, "y": 220}),
                gpt.acts(8, {"type": "screenshot"}, checks=[check]),
                gpt.says(9, "No.", []),
            ],
        ),
    ]
    _, events, _ = converse(narrow, turns, monkeypatch)
    assert "/secret" not in site.paths
    opened, file, away, home, click, look, other, checked = list_results(events)
    assert f"rule deny network(localhost:{port})" in opened.text
    assert "only addresses that begin with https:// or http://" in file.text
    assert f"localhost:{port} was refused: rule deny" in away.text
    assert home.error is None, home.text
    assert f"no rule allows the browser to click at 127.0.0.1:{port}" in click.text
    assert f"--allow 'computer(127.0.0.1:{port})'" in click.text
    assert look.error is None
    assert other.error == "denied"
    assert "the provider wants you to confirm it: Looks odd." in checked.text
    judged = [event for event in events if isinstance(event, CallJudged)]
    assert [event.verdict.decision for event in judged].count("allow") == 3


def test_missing_parts_are_one_warning_and_the_session_goes_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    claude = Anthropic()
    providers, events, _ = converse(
        settings, [(claude, [claude.says(1, "Fine.", [])])], monkeypatch
    )
    (warned,) = (event for event in events if isinstance(event, Warned))
    assert warned.message.startswith("computer = true needs ")
    assert "browser_toolset" not in json.dumps(providers.requests(claude))


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.skipif(find_spec("playwright") is None, reason="no Playwright is installed")
@pytest.mark.parametrize(
    ("sandbox", "why"),
    [
        ("off", "The browser runs in the sandbox only, and it is turned off."),
        pytest.param(
            "landlock", "The browser needs bubblewrap:", marks=pytest.mark.layer("landlock")
        ),
    ],
)
def test_browser_never_runs_without_its_sandbox(
    sandbox: str, why: str, home: Path, workspace: Path
) -> None:
    look = {"computer": {"actions": [{"action": "screenshot"}]}}
    model = script(home / "s.json", [{"calls": [look]}, "Done."])
    ran = agentcli(
        *("run", "--computer", "--sandbox", sandbox, "--model", model, "-o", "stream-json", "go"),
        home=home,
        cwd=workspace,
    )
    (finished,) = [one for one in ran.events if one["type"] == "tool.finished"]
    assert finished["model_text"].startswith(why)
    assert ran.code == 0
