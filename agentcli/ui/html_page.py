"""One HTML page that needs no other file: its frame, its style, and charts that are also tables.

Foreign text enters by `quote` alone. The page forbids requests and every script but the one whose
hash it names, so that even a mistake could neither act nor leak anything.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from agentcli.system.plain_text import to_plain_text

STYLE = """\
:root {
  color-scheme: light dark;
  --text: #1f2328; --soft: #59636e; --ground: #ffffff; --raised: #f6f8fa; --line: #d1d9e0;
  --good: #1a7f37; --bad: #cf222e; --accent: #0969da;
  --added: #dafbe1; --removed: #ffebe9; --hunk: #ddf4ff;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e6edf3; --soft: #9198a1; --ground: #0d1117; --raised: #161b22; --line: #30363d;
    --good: #3fb950; --bad: #f85149; --accent: #4493f8;
    --added: #12361f; --removed: #42171c; --hunk: #122d4a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1rem; max-width: 60rem;
  color: var(--text); background: var(--ground);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.4rem; line-height: 1.25; }
h2 { font-size: 1.1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.1rem 1rem; font-size: 0.9rem; }
dt { color: var(--soft); }
dd { margin: 0; }
pre {
  background: var(--raised); border-radius: 6px; padding: 0.6rem; margin: 0.5rem 0 0;
  font: 0.8rem/1.45 ui-monospace, monospace; overflow-x: auto; max-height: 40rem;
}
code { font: 0.85em ui-monospace, monospace; }
summary { color: var(--soft); font-size: 0.8rem; cursor: pointer; }
img { max-width: 100%; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
"""

CHART_STYLE = """\
.wide { overflow-x: auto; }
.data { border-collapse: collapse; width: 100%; font-size: 0.85rem; }
.data caption { text-align: left; font-weight: 600; padding: 0.5rem 0; font-size: 1rem; }
.data :is(th, td) {
  text-align: left; vertical-align: top; padding: 0.25rem 0.75rem 0.25rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: normal;
}
.data th { color: var(--soft); font-weight: normal; }
.data .number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.panel { max-height: 24rem; overflow-y: auto; border-bottom: 1px solid var(--line); }
.data:not(.chart) td:first-child { white-space: nowrap; }
.data:not(.chart) td:last-child:not(.number) { min-width: 12rem; overflow-wrap: anywhere; }
.chart td:last-child { width: 60%; padding-right: 0; }
.bar { display: block; height: 0.9rem; min-width: 2px; border-radius: 2px; background: var(--accent); }
.bar.good { background: var(--good); }
.bar.bad { background: var(--bad); }
"""  # noqa: E501


LONG_CHART_ROWS = 30
"""The number of rows from which a chart scrolls by itself."""


def quote(text: object) -> str:
    """Return foreign text for the page: plain, and without a meaning in HTML."""
    return escape(to_plain_text(str(text)))


def build_page(*, title: str, body: str, style: str = "", script: str = "") -> str:
    """Build the page. `body`, `style` and `script` are ours, `title` is quoted here."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    scripts = f"script-src 'sha256-{digest}'; " if script else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        f"{scripts}style-src 'unsafe-inline'; img-src data:; form-action 'none'\">\n"
        f"<title>{quote(title)}</title>\n<style>\n{STYLE}{style}</style>\n</head>\n"
        f"<body>\n{body}{f'<script>{script}</script>' if script else ''}</body>\n</html>\n"
    )


def build_facts(rows: Sequence[tuple[str, object]]) -> str:
    """Build a list of names and values."""
    return (
        "<dl>"
        + "".join(f"<dt>{quote(name)}</dt><dd>{quote(value)}</dd>" for name, value in rows)
        + "</dl>\n"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartBar:
    label: str
    value: float
    shown: str
    """The value as text."""
    kind: str = ""
    """good, bad, or empty for neither."""


def build_bars(caption: str, bars: Sequence[ChartBar], *, most: float = 0.0) -> str:
    """Build a bar chart that is a table for those who cannot see the bars.

    `most` is the value of a full bar; if 0, that of the longest one."""
    full = most or max((bar.value for bar in bars), default=0.0) or 1.0
    rows = "".join(
        f'<tr><th scope="row">{quote(bar.label)}</th><td class="number">{quote(bar.shown)}</td>'
        f'<td aria-hidden="true">{build_bar(bar.value / full, bar.kind)}</td></tr>\n'
        for bar in bars
    )
    table = f'<table class="data chart"><caption>{quote(caption)}</caption>\n{rows}</table>\n'
    if len(bars) <= LONG_CHART_ROWS:
        return table
    region = f'<div class="panel" tabindex="0" role="region" aria-label="{quote(caption)}">'
    return f"{region}{table}</div>\n"


def build_bar(share: float, kind: str = "") -> str:
    """Build a bar of this share of the full width; nothing if it is 0."""
    width = f"{100 * min(share, 1.0):.1f}%"
    return f'<span class="bar {kind}" style="width:{width}"></span>' if share > 0 else ""


def build_html_table(
    caption: str, head: Sequence[str], *, rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()
) -> str:
    """Build a table of cells that are already HTML. `numbers` are columns of numbers."""
    marks = {column: ' class="number"' for column in numbers}
    heads = "".join(
        f'<th scope="col"{marks.get(at, "")}>{quote(name)}</th>' for at, name in enumerate(head)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{marks.get(at, '')}>{cell}</td>" for at, cell in enumerate(row))
        + "</tr>\n"
        for row in rows
    )
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="{quote(caption)}">'
        f'<table class="data"><caption>{quote(caption)}</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody></table></div>\n"
    )
