"""A session as one HTML page that needs no other file and runs nothing.

All foreign text passes through `quote` or `_render_prose_html`. The page forbids scripts and
requests, so that even a mistake here could neither act nor leak anything.
"""

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt

from agentcli.features.insights.transcript import (
    ALLOWED,
    Transcript,
    TranscriptCall,
    TranscriptNote,
    TranscriptReply,
    TranscriptTurn,
    choose_result_body,
    describe_outcome,
    describe_verdict,
    format_arguments,
    format_reply_sums,
    format_seconds,
    list_session_sums,
)
from agentcli.system.plain_text import to_plain_text
from agentcli.types.messages import Content, Image
from agentcli.types.tools import Command, Diff, ToolResult
from agentcli.ui.html_page import build_facts, build_page, quote
from agentcli.ui.render.wording import read_subject, shorten_middle

# The style of a transcript, on a phone and on paper


TRANSCRIPT_STYLE = """\
h2 { font-size: 0.9rem; color: var(--soft); margin: 2rem 0 0.25rem; }
h3 { font-size: 0.95rem; font-weight: normal; margin: 0; }
.prompt {
  background: var(--raised); border-left: 3px solid var(--soft);
  padding: 0.5rem 0.75rem; white-space: pre-wrap;
}
.reply { margin: 1rem 0 0; }
.reply :is(h1, h2, h3, h4) {
  font-size: 1.05rem; font-weight: 600; color: var(--text); margin: 1rem 0 0;
}
.reply table { border-collapse: collapse; display: block; overflow-x: auto; }
.reply :is(td, th) {
  border: 1px solid var(--line); padding: 0.2rem 0.6rem; text-align: left; overflow-wrap: normal;
}
.sums, .outcome, .verdict, .note { color: var(--soft); font-size: 0.8rem; margin: 0.25rem 0; }
.note { white-space: pre-wrap; border-left: 3px solid var(--line); padding-left: 0.75rem; }
.call {
  border: 1px solid var(--line); border-radius: 6px; padding: 0.6rem 0.75rem; margin: 0.75rem 0;
}
.call.bad { border-color: var(--bad); }
.mark { color: var(--good); }
.call.bad .mark { color: var(--bad); }
.bad.verdict, .bad.ending, .call.bad .outcome { color: var(--bad); }
.ending { font-weight: 600; }
.ending.good { color: var(--good); }
.diff span { display: block; width: max-content; min-width: 100%; }
.added { background: var(--added); }
.removed { background: var(--removed); }
.hunk { background: var(--hunk); color: var(--soft); }
"""


CLOSED_FROM_LINES = 30
"""The number of lines from which a body is folded."""
HEADING_CHARS = 300
"""The most of a call that its heading shows; its input follows, whole."""

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
_IMAGE = re.compile(r"image/(?:png|jpeg|gif|webp)")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def render_html(made: Transcript) -> str:
    title = made.title or "A session"
    turns = "".join(render_turn_html(n, turn) for n, turn in enumerate(made.turns, start=1))
    return build_page(
        title=title,
        style=TRANSCRIPT_STYLE,
        body=f"<h1>{quote(title)}</h1>\n{build_facts(list_session_sums(made))}{turns}",
    )


def render_turn_html(number: int, turn: TranscriptTurn) -> str:
    return "".join(_render_turn_html(number, turn))


def name_item(turn: int, item: int) -> str:
    """Return the id of an item of a turn on the page, both counted from 1."""
    return f"turn-{turn}-{item}"


def _render_turn_html(number: int, turn: TranscriptTurn) -> Iterator[str]:
    yield f'<section id="turn-{number}">\n<h2>{number}</h2>\n<div class="prompt">'
    yield from _render_content(turn.prompt.content)
    yield "</div>\n"
    for at, item in enumerate(turn.items, start=1):
        match item:
            case TranscriptReply():
                yield f'<div class="item" id="{name_item(number, at)}">'
                yield from _render_reply_html(item)
                yield "</div>\n"
            case TranscriptCall():
                yield from _render_call_html(item, name_item(number, at))
            case TranscriptNote(text=text):
                yield f'<p class="note">{quote(text)}</p>\n'
    if turn.ended is not None:
        good = "good" if turn.ended.ending == "done" else "bad"
        why = f": {quote(turn.ended.message)}" if turn.ended.message else ""
        yield f'<p class="ending {good}">{quote(turn.ended.ending)}{why}</p>\n'
    yield "</section>\n"


def _render_reply_html(reply: TranscriptReply) -> Iterator[str]:
    if reply.thinking:
        yield "<details><summary>thinking</summary>"
        yield f"<pre>{quote(reply.thinking)}</pre></details>\n"
    if reply.text.strip():
        yield f'<div class="reply">{_render_prose_html(reply.text)}</div>\n'
    yield f'<p class="sums">{quote(format_reply_sums(reply))}</p>\n'


def has_failed(called: TranscriptCall) -> bool:
    """Return whether the call was denied, never ran, or failed."""
    result = called.result
    details = result.details if result else None
    is_command = isinstance(details, Command) and bool(details.exit_code or details.signal)
    return _is_denied(called) or result is None or result.status == "error" or is_command


def _is_denied(called: TranscriptCall) -> bool:
    return called.verdict is not None and called.verdict.decision not in ALLOWED


def _render_call_html(called: TranscriptCall, anchor: str) -> Iterator[str]:
    result, denied, failed = called.result, _is_denied(called), has_failed(called)
    bad, mark = (" bad", "✗") if failed else ("", "✓")
    took = f" · {format_seconds(called.duration_s)}" if result else ""
    yield f'<article class="call{bad}" id="{anchor}">\n<h3><span class="mark">{mark}</span> '
    yield f"<b>{quote(called.call.name)}</b> "
    yield f"<code>{quote(shorten_middle(read_subject(called.call), HEADING_CHARS))}</code></h3>\n"
    yield f'<p class="outcome">{quote(describe_outcome(called))}{took}</p>\n'
    yield f'<p class="verdict{" bad" if denied else ""}">{quote(describe_verdict(called))}</p>\n'
    given = quote(format_arguments(called.call))
    yield f"<details><summary>input</summary><pre>{given}</pre></details>\n"
    if result is not None:
        yield from _render_result(result)
    yield "</article>\n"


def _render_result(result: ToolResult) -> Iterator[str]:
    shown = choose_result_body(result)
    lines = shown.count("\n") + 1
    folded = "" if lines <= CLOSED_FROM_LINES else f"<details><summary>{lines} lines</summary>"
    yield folded
    if isinstance(result.details, Diff):
        yield f'<pre class="diff">{"".join(map(_render_diff_line, shown.splitlines()))}</pre>\n'
    else:
        yield f"<pre>{quote(shown)}</pre>\n"
        yield from (_render_image(block) for block in result.content if isinstance(block, Image))
    yield "</details>\n" if folded else ""


def _render_diff_line(line: str) -> str:
    kind = {"+": "added", "-": "removed", "@": "hunk"}.get(line[:1], "")
    if line.startswith(("+++", "---")):
        kind = "hunk"
    return f'<span class="{kind}">{quote(line)}\n</span>' if kind else f"{quote(line)}\n"


def _render_content(content: Content) -> Iterator[str]:
    for block in content:
        yield _render_image(block) if isinstance(block, Image) else quote(block.text)


def _render_image(image: Image) -> str:
    if not _IMAGE.fullmatch(image.media_type) or not _BASE64.fullmatch(image.data):
        return f"<p>{quote(image.media_type)}</p>"
    return f'<img alt="" src="data:{image.media_type};base64,{image.data}">'


def _render_prose_html(text: str) -> str:
    """Render Markdown. HTML in it is shown as text, and links that could run something are
    removed."""
    return str(_MARKDOWN.render(to_plain_text(text)))
