"""A session as one HTML page that needs no other file and runs nothing.

All foreign text passes through `_text` or `_render_prose_html`. The page forbids scripts and
requests, so that even a mistake here could neither act nor leak anything.
"""

import re
from collections.abc import Iterator
from html import escape

from markdown_it import MarkdownIt

from agentcli.features.insights.transcript import (
    ALLOWED,
    Transcript,
    TranscriptCall,
    TranscriptNote,
    TranscriptReply,
    TranscriptTurn,
    arguments,
    duration,
    outcome,
    reply_sums,
    result_body,
    session_sums,
    target,
    verdict,
)
from agentcli.system.plain_text import to_plain_text
from agentcli.types.messages import Image, Text
from agentcli.types.tools import Command, Diff, ToolResult

# The style of the page: light and dark, on a phone and on paper


STYLE = """\
:root {
  color-scheme: light dark;
  --text: #1f2328; --soft: #59636e; --ground: #ffffff; --raised: #f6f8fa; --line: #d1d9e0;
  --good: #1a7f37; --bad: #cf222e; --added: #dafbe1; --removed: #ffebe9; --hunk: #ddf4ff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e6edf3; --soft: #9198a1; --ground: #0d1117; --raised: #161b22; --line: #30363d;
    --good: #3fb950; --bad: #f85149; --added: #12361f; --removed: #42171c; --hunk: #122d4a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 60rem;
  color: var(--text); background: var(--ground);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.4rem; line-height: 1.25; }
h2 { font-size: 0.9rem; color: var(--soft); margin: 2rem 0 0.25rem; }
h3 { font-size: 0.95rem; font-weight: normal; margin: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem; font-size: 0.9rem; }
dt { color: var(--soft); }
dd { margin: 0; }
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
pre {
  background: var(--raised); border-radius: 6px; padding: 0.6rem; margin: 0.5rem 0 0;
  font: 0.8rem/1.45 ui-monospace, monospace; overflow-x: auto; max-height: 40rem;
}
code { font: 0.85em ui-monospace, monospace; }
summary { color: var(--soft); font-size: 0.8rem; cursor: pointer; }
.diff span { display: block; width: max-content; min-width: 100%; }
.added { background: var(--added); }
.removed { background: var(--removed); }
.hunk { background: var(--hunk); color: var(--soft); }
img { max-width: 100%; }
"""


CLOSED_FROM_LINES = 30
"""The number of lines from which a body is folded."""

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
_IMAGE = re.compile(r"image/(?:png|jpeg|gif|webp)")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def render_html(made: Transcript) -> str:
    title = _text(made.title) or "A session"
    rows = "".join(f"<dt>{name}</dt><dd>{_text(words)}</dd>" for name, words in session_sums(made))
    turns = "".join(
        "".join(_render_turn_html(n, turn)) for n, turn in enumerate(made.turns, start=1)
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'; img-src data:\">\n"
        f"<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{title}</h1>\n<dl>{rows}</dl>\n{turns}</body>\n</html>\n"
    )


def _render_turn_html(number: int, turn: TranscriptTurn) -> Iterator[str]:
    yield f'<section id="turn-{number}">\n<h2>{number}</h2>\n<div class="prompt">'
    yield from _content(turn.prompt.content)
    yield "</div>\n"
    for item in turn.items:
        match item:
            case TranscriptReply():
                yield from _render_reply_html(item)
            case TranscriptCall():
                yield from _render_call_html(item)
            case TranscriptNote(text=text):
                yield f'<p class="note">{_text(text)}</p>\n'
    if turn.ended is not None:
        good = "good" if turn.ended.ending == "done" else "bad"
        why = f": {_text(turn.ended.message)}" if turn.ended.message else ""
        yield f'<p class="ending {good}">{_text(turn.ended.ending)}{why}</p>\n'
    yield "</section>\n"


def _render_reply_html(reply: TranscriptReply) -> Iterator[str]:
    if reply.thinking:
        yield "<details><summary>thinking</summary>"
        yield f"<pre>{_text(reply.thinking)}</pre></details>\n"
    if reply.text.strip():
        yield f'<div class="reply">{_render_prose_html(reply.text)}</div>\n'
    yield f'<p class="sums">{_text(reply_sums(reply))}</p>\n'


def _render_call_html(called: TranscriptCall) -> Iterator[str]:
    result = called.result
    denied = called.verdict is not None and called.verdict.decision not in ALLOWED
    failed = denied or result is None or result.status == "error" or _has_failed(result)
    bad, mark = (" bad", "✗") if failed else ("", "✓")
    took = f" · {duration(called.duration_s)}" if result else ""
    yield f'<article class="call{bad}">\n<h3><span class="mark">{mark}</span> '
    yield f"<b>{_text(called.call.name)}</b> "
    yield f"<code>{_text(target(called.call))}</code></h3>\n"
    yield f'<p class="outcome">{_text(outcome(called))}{took}</p>\n'
    yield f'<p class="verdict{" bad" if denied else ""}">{_text(verdict(called))}</p>\n'
    yield f"<details><summary>input</summary><pre>{_text(arguments(called.call))}</pre></details>\n"
    if result is not None:
        yield from _result(result)
    yield "</article>\n"


def _has_failed(result: ToolResult) -> bool:
    """Return whether the call was a command that failed."""
    details = result.details
    return isinstance(details, Command) and bool(details.exit_code or details.signal)


def _result(result: ToolResult) -> Iterator[str]:
    shown = result_body(result)
    lines = shown.count("\n") + 1
    folded = "" if lines <= CLOSED_FROM_LINES else f"<details><summary>{lines} lines</summary>"
    yield folded
    if isinstance(result.details, Diff):
        yield f'<pre class="diff">{"".join(map(_diff_line, shown.splitlines()))}</pre>\n'
    else:
        yield f"<pre>{_text(shown)}</pre>\n"
        yield from (_image(block) for block in result.content if isinstance(block, Image))
    yield "</details>\n" if folded else ""


def _diff_line(line: str) -> str:
    kind = {"+": "added", "-": "removed", "@": "hunk"}.get(line[:1], "")
    if line.startswith(("+++", "---")):
        kind = "hunk"
    return f'<span class="{kind}">{_text(line)}\n</span>' if kind else f"{_text(line)}\n"


def _content(content: tuple[Text | Image, ...]) -> Iterator[str]:
    for block in content:
        yield _image(block) if isinstance(block, Image) else _text(block.text)


def _image(image: Image) -> str:
    if not _IMAGE.fullmatch(image.media_type) or not _BASE64.fullmatch(image.data):
        return f"<p>{_text(image.media_type)}</p>"
    return f'<img alt="" src="data:{image.media_type};base64,{image.data}">'


def _render_prose_html(text: str) -> str:
    """Render Markdown. HTML in it is shown as text, and links that could run something are
    removed."""
    return str(_MARKDOWN.render(to_plain_text(text)))


def _text(text: str) -> str:
    return escape(to_plain_text(text))
