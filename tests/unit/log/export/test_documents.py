import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from agentcli.features.insights.export import render_json, render_markdown
from agentcli.features.insights.export_html import render_html
from agentcli.features.insights.transcript import Transcript, build_transcript
from agentcli.log.reader import read_log
from agentcli.types.events import CallFinished, Entry, Fact, TurnStarted, Warned
from agentcli.types.messages import Image, Text, ToolCall, UserMessage
from agentcli.types.tools import Command, Diff, ErrorKind, ToolResult
from tests.support.record import DONE, SESSION, STARTED, judged, replied

FIXTURES = Path(__file__).parents[4] / "fixtures" / "sessions"
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\"'</pre></details>\x1b[31m\u202e```"
)


def entries(*facts: Fact) -> list[Entry]:
    return [
        Entry(seq=seq, at="2026-01-01T00:00:00.000Z", session="s", parent=None, fact=fact)
        for seq, fact in enumerate(facts, start=1)
    ]


def hostile() -> Transcript:
    call = ToolCall(id="a", name=HOSTILE, input={"command": HOSTILE, HOSTILE: HOSTILE})
    diff = Diff(path=HOSTILE, unified=f"-{HOSTILE}\n+{HOSTILE}", added=1, removed=1)
    image = Image(media_type='image/png" onload="alert(1)', data="AAAA")
    result = ToolResult(
        call_id="a", name=HOSTILE, status="ok", content=(Text(text=HOSTILE), image), details=diff
    )
    return build_transcript(
        entries(
            STARTED,
            TurnStarted(message=UserMessage(content=(Text(text=HOSTILE), image))),
            Warned(code="x", message=HOSTILE),
            replied(call, text=HOSTILE),
            judged(call),
            CallFinished(result=result),
            DONE,
        )
    )


class Page(HTMLParser):
    """The tags and attributes of a page."""

    def __init__(self, text: str, *, strict: bool = True) -> None:
        super().__init__()
        self._strict = strict
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        if tag not in ("meta", "img", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag or not self._strict


def test_page_runs_nothing_whatever_it_shows() -> None:
    page = Page(render_html(hostile()))
    assert page.open == []
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert page.attributes <= {
        "lang", "charset", "name", "content", "http-equiv", "id", "class",
    }  # fmt: skip
    assert "\x1b" not in render_html(hostile())
    assert "\u202e" not in render_html(hostile())


def test_page_shows_diffs_outputs_verdicts_and_costs() -> None:
    text = render_html(build_transcript(read_log(FIXTURES / "edits" / "log.jsonl").entries))
    assert Page(text).open == []
    for shown in (
        '<span class="removed">-    return sum(values) / (len(values) + 1)\n</span>',
        "2 checks passed",
        "allowed by mode: auto mode allows it",
        "7 requests, 0 tokens in",
        '<p class="ending good">done</p>',
    ):
        assert shown in text


def test_heading_of_a_long_call_is_short_and_its_input_whole() -> None:
    call = ToolCall(id="c1", name="bash", input={"command": "x" * 5_000})
    result = ToolResult(call_id="c1", name="bash", status="ok", content=(), details=None)
    asked = TurnStarted(message=UserMessage(content=(Text(text="go"),)))
    facts = (STARTED, asked, replied(call), judged(call), CallFinished(result=result), DONE)
    text = render_html(build_transcript(entries(*facts)))
    assert "x" * 5_000 in text
    assert max(len(part.partition("</h3>")[0]) for part in text.split("<h3>")[1:]) < 400


def test_page_shows_what_the_model_wrote_as_it_meant_it() -> None:
    words = "# Done\n\n**Two** tests:\n\n| a | b |\n|---|---|\n| 1 | `x` |\n\n```py\n<b>\n```\n"
    bad = "[x](javascript:alert(1)) ![y](http://evil/z.png) <script>1</script>"
    asked = TurnStarted(message=UserMessage(content=(Text(text="go"),)))
    text = render_html(build_transcript(entries(STARTED, asked, replied(text=words + bad), DONE)))
    assert Page(text).open == []
    for shown in ("<strong>Two</strong>", "<td><code>x</code></td>", "&lt;b&gt;", "&lt;script&gt;"):
        assert shown in text
    assert "javascript:alert" in text
    assert 'href="javascript' not in text
    assert "<img" not in text


@pytest.mark.parametrize(
    ("details", "error", "outcome", "is_bad"),
    [
        (Command(command="x", cwd="/", exit_code=0), None, "exit 0", False),
        (Command(command="x", cwd="/", exit_code=3), None, "exit 3", True),
        (
            Command(command="x", cwd="/", exit_code=0, pipe="pytest 1, tail 0"),
            None,
            "exit 0; in the pipe: pytest 1, tail 0",
            False,
        ),
        (Command(command="x", cwd="/", timed_out=True), ErrorKind.TIMEOUT, "timed out", True),
        (
            Command(command="x", cwd="/", signal="SIGSEGV"),
            ErrorKind.FAILED,
            "killed by SIGSEGV",
            True,
        ),
        (None, ErrorKind.FAILED, "failed", True),
    ],
)
def test_page_tells_how_a_call_ended_and_marks_failures(
    details: Command | None, error: ErrorKind | None, outcome: str, is_bad: bool
) -> None:
    call = ToolCall(id="a", name="bash", input={"command": "x"})
    result = ToolResult(
        call_id="a",
        name="bash",
        status="error" if error else "ok",
        content=(Text(text="out"),),
        details=details,
        error=error,
    )
    turn = TurnStarted(message=UserMessage(content=(Text(text="Go."),)))
    page = render_html(
        build_transcript(
            entries(STARTED, turn, replied(call), judged(call), CallFinished(result=result), DONE)
        )
    )
    assert f'<p class="outcome">{outcome} · ' in page
    assert ('<article class="call bad"' in page) == is_bad
    assert f'<span class="mark">{"✗" if is_bad else "✓"}</span>' in page


def test_image_stands_in_the_page_itself() -> None:
    image = Image(media_type="image/png", data="iVBORw0KGgo=")
    made = build_transcript(entries(STARTED, TurnStarted(message=UserMessage(content=(image,)))))
    assert '<img alt="" src="data:image/png;base64,iVBORw0KGgo=">' in render_html(made)


def test_markdown_runs_nothing_when_it_is_rendered() -> None:
    text = render_markdown(hostile())
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    assert {"script", "img", "pre"} & Page(rendered, strict=False).tags == {"pre"}
    assert "\x1b" not in text


def test_markdown_of_the_model_cannot_act_but_keeps_its_code() -> None:
    said = "See <b>this</b> ![x](http://a/b)\n```html\n<b>code</b>\n```\nand\n```\nunclosed <i>"
    text = render_markdown(
        build_transcript(entries(STARTED, *SESSION[1:2], replied(text=said), DONE))
    )
    assert "See &lt;b>this&lt;/b> !\\[x](http://a/b)" in text
    assert "```html\n<b>code</b>\n```" in text
    assert "unclosed <i>\n```\n" in text


def test_json_holds_every_fact() -> None:
    all_entries = read_log(FIXTURES / "edits" / "log.jsonl").entries
    document = json.loads(render_json(build_transcript(all_entries), all_entries))
    assert len(document["facts"]) == len(all_entries)
    assert document["changed"] == {"calc.py": [1, 1], "docs/NOTES.md": [3, 0]}


@pytest.mark.parametrize("write", [render_html, render_markdown])
def test_session_in_which_nothing_happened_is_written_all_the_same(write: object) -> None:
    assert callable(write)
    assert "A session" in write(build_transcript([]))


BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium to open the page in")
def test_browser_shows_the_page_on_a_phone_without_running_anything(tmp_path: Path) -> None:
    assert BROWSER is not None
    made = hostile()
    made.turns += build_transcript(read_log(FIXTURES / "edits" / "log.jsonl").entries).turns
    (tmp_path / "page.html").write_text(render_html(made))
    ran = subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=390,844",
            f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
            (tmp_path / "page.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=100,
    )  # fmt: skip
    page = Page(ran.stdout)
    assert {"script", "img"} & page.tags == set()
    assert "2 checks passed" in ran.stdout
