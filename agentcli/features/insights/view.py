"""Pages to look at: a session with its timeline, charts and search, or the usage of many sessions.

A page is written beside the logs, where only the user can read it, and opened in their browser.
"""

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentcli.features.insights.export_html import (
    TRANSCRIPT_STYLE,
    has_failed,
    name_item,
    render_turn_html,
)
from agentcli.features.insights.transcript import (
    Transcript,
    TranscriptCall,
    TranscriptReply,
    TranscriptTurn,
    build_transcript,
    format_seconds,
    join_prompt_text,
    list_session_sums,
)
from agentcli.features.insights.usage import DaySums, UsageStats
from agentcli.log.paths import locate_sessions
from agentcli.log.reader import read_session
from agentcli.log.sessions import find_session_to_read
from agentcli.system.browser import open_file
from agentcli.system.files import write_private
from agentcli.types.words import pluralize
from agentcli.ui.html_page import (
    CHART_STYLE,
    ChartBar,
    build_bar,
    build_bars,
    build_facts,
    build_page,
    quote,
)
from agentcli.ui.render.wording import read_subject

STYLE = """\
.skip { position: absolute; left: -999rem; }
.skip:focus { position: static; }
.search { position: sticky; top: 0; background: var(--ground); padding: 0.5rem 0; z-index: 1; }
.search :is(input, select) {
  font: inherit; padding: 0.3rem 0.5rem; color: inherit; background: var(--raised);
  border: 1px solid var(--line); border-radius: 6px; max-width: 100%;
}
.search input { width: 20rem; }
.timeline { list-style: none; margin: 0; padding: 0; font-size: 0.85rem; }
.timeline li { display: grid; grid-template-columns: 5.5rem minmax(0, 1fr) 8rem; gap: 0.5rem; }
.timeline a {
  color: inherit; text-decoration: none; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis;
}
.timeline a:hover { text-decoration: underline; }
.timeline .turn { font-weight: 600; padding-top: 0.5rem; }
.timeline .time { text-align: right; color: var(--soft); font-variant-numeric: tabular-nums; }
.timeline .bar { height: 0.6rem; align-self: center; }
h2.part { font-size: 1.1rem; color: var(--text); margin: 1.5rem 0 0.5rem; }
:target { outline: 2px solid var(--accent); outline-offset: 4px; }
@media (max-width: 30rem) {
  .search input { width: 100%; }
  .timeline li { grid-template-columns: 4.7rem minmax(0, 1fr) 3rem; }
}
"""

SCRIPT = """
const query = document.getElementById("query");
const kind = document.getElementById("kind");
const found = document.getElementById("found");
const items = [...document.querySelectorAll("#transcript :is(.item, .call, .note, .prompt)")];
const texts = items.map((item) => item.textContent.toLowerCase());
const search = () => {
  const words = query.value.toLowerCase();
  let count = 0;
  items.forEach((item, at) => {
    const isWanted = kind.value === "all" || item.matches(kind.value);
    item.hidden = !(isWanted && texts[at].includes(words));
    count += !item.hidden;
    const inside = words && !item.hidden ? item.querySelectorAll("details") : [];
    for (const part of inside) part.open = part.textContent.toLowerCase().includes(words);
  });
  const isAll = !words && kind.value === "all";
  found.textContent = isAll ? "" : `${count} of ${items.length} shown`;
};
query.addEventListener("input", search);
kind.addEventListener("change", search);
document.querySelector(".search").hidden = false;
"""

SEARCH = """\
<form class="search" role="search" hidden>
<label for="query">Search</label> <input id="query" type="search">
<label for="kind">in</label> <select id="kind">
<option value="all">everything</option><option value=".call">calls</option>
<option value=".call.bad">failed and denied calls</option>
<option value=".call:has(.diff)">changes</option><option value=".item">replies</option>
<option value=".prompt">prompts</option></select>
<output id="found" for="query kind"></output>
</form>
"""


def show_view(named: str | None, *, out: Path | None, opens: bool) -> None:
    paths = find_session_to_read(named)
    log = paths.log
    recorded = read_session(log, "view")
    _show_page(
        render_view(build_transcript(recorded.entries, paths.sessions)),
        out or log.with_name("view.html"),
        opens=opens,
    )
    if recorded.fault is not None:
        fault = recorded.fault
        sys.stderr.write(
            f"warning: read up to record {fault.line}, which is damaged: {fault.reason}\n"
        )


def show_stats_page(stats: UsageStats, *, period: str) -> None:
    _show_page(
        render_stats_page(stats, period=period),
        locate_sessions().with_name("stats.html"),
        opens=True,
    )


def _show_page(text: str, path: Path, *, opens: bool) -> None:
    write_private(path, text.encode("utf-8", "replace").decode())  # without half characters
    sys.stdout.write(f"{path}\n")
    if opens and not open_file(path):
        sys.stderr.write("no browser can be opened here; open the file yourself\n")


# One session


def render_view(made: Transcript) -> str:
    title = made.title or "A session"
    turns = "".join(render_turn_html(n, turn) for n, turn in enumerate(made.turns, start=1))
    return build_page(
        title=title,
        style=CHART_STYLE + TRANSCRIPT_STYLE + STYLE,
        script=SCRIPT,
        body=(
            '<a class="skip" href="#transcript">Skip to the transcript</a>\n'
            f"<header>\n<h1>{quote(title)}</h1>\n{build_facts(list_session_sums(made))}</header>\n"
            f"<main>\n{''.join(_render_charts(made))}{_render_timeline(made)}"
            f'<h2 class="part">Transcript</h2>\n{SEARCH}'
            f'<div id="transcript" tabindex="-1">\n{turns}</div>\n</main>\n'
        ),
    )


def _render_charts(made: Transcript) -> Iterator[str]:
    yield build_bars("Tokens by turn", [*_list_turns(made.turns, "tokens")])
    yield build_bars("Cost by turn", [*_list_turns(made.turns, "cost")])
    if tools := [*_list_tools(made.turns)]:
        yield build_bars("Time by tool", tools)


def _list_turns(turns: Sequence[TranscriptTurn], what: str) -> Iterator[ChartBar]:
    for number, turn in enumerate(turns, start=1):
        spent = [item.spent for item in turn.items if isinstance(item, TranscriptReply)]
        tokens = sum(one.usage.prompt_tokens + one.usage.output_tokens for one in spent)
        cost = sum(one.known_usd for one in spent)
        value, shown = (tokens, f"{tokens:,}") if what == "tokens" else (cost, f"${cost:.4f}")
        yield ChartBar(label=f"turn {number}", value=value, shown=shown)


def _list_tools(turns: Sequence[TranscriptTurn]) -> Iterator[ChartBar]:
    groups: dict[str, list[TranscriptCall]] = defaultdict(list)
    for turn in turns:
        for item in turn.items:
            if isinstance(item, TranscriptCall):
                groups[item.call.name].append(item)
    times = {name: sum(one.duration_s for one in calls) for name, calls in groups.items()}
    for name in sorted(times, key=lambda name: -times[name]):
        failed = sum(map(has_failed, groups[name]))
        count = pluralize(len(groups[name]), "call")
        shown = f"{format_seconds(times[name])}, {count}" + (f", {failed} failed" if failed else "")
        yield ChartBar(label=name, value=times[name], shown=shown, kind="bad" if failed else "")


def _render_timeline(made: Transcript) -> str:
    """Return all replies and calls in order, each with a bar for its time and a link."""
    items = [item for turn in made.turns for item in turn.items]
    timed = [item for item in items if isinstance(item, TranscriptReply | TranscriptCall)]
    longest_s = max((item.duration_s for item in timed), default=0.0) or 1.0
    rows = "".join(
        row
        for n, turn in enumerate(made.turns, start=1)
        for row in _list_rows(n, turn, longest_s=longest_s)
    )
    return (
        '<nav aria-label="Timeline">\n<h2 class="part">Timeline</h2>\n'
        f'<div class="panel" tabindex="0" role="region" aria-label="Turns, replies and calls">'
        f'<ol class="timeline">\n{rows}</ol></div>\n</nav>\n'
    )


def _list_rows(number: int, turn: TranscriptTurn, *, longest_s: float) -> Iterator[str]:
    words = " ".join(join_prompt_text(turn.prompt).split())[:200]
    at = quote(turn.at[11:19])
    yield (
        f'<li class="turn"><span class="time">{at}</span>'
        f'<a href="#turn-{number}">{number}. {quote(words)}</a></li>\n'
    )
    for item, content in enumerate(turn.items, start=1):
        match content:
            case TranscriptReply():
                label, kind = "reply", ""
            case TranscriptCall(call=call):
                label = f"{call.name} {read_subject(call)}"[:200]
                kind = "bad" if has_failed(content) else "good"
            case _:
                continue
        mark = "✗ " if kind == "bad" else ""
        yield (
            f'<li><span class="time">{quote(format_seconds(content.duration_s))}</span>'
            f'<a href="#{name_item(number, item)}">{mark}{quote(label)}</a>'
            f"{build_bar(content.duration_s / longest_s, kind)}</li>\n"
        )


# Many sessions


def render_stats_page(stats: UsageStats, *, period: str) -> str:
    title = f"Usage, {period}"
    return build_page(
        title=title,
        style=CHART_STYLE,
        body=f"<main>\n<h1>{quote(title)}</h1>\n{''.join(_render_stats(stats))}</main>\n",
    )


def _render_stats(stats: UsageStats) -> Iterator[str]:
    total, spending = stats.total, stats.total.spending
    yield build_facts(
        [
            ("sessions", stats.sessions),
            ("turns", f"{total.turns}, {spending.request_summary}"),
            (
                "tokens",
                f"{spending.usage.prompt_tokens:,} in, {spending.usage.output_tokens:,} out",
            ),
            ("cache", f"{total.cache_share:.0%}"),
            ("cost", spending.cost_text),
            ("calls", f"{total.calls:,}, {total.failures:,} failed, {total.denials:,} denied"),
        ]
    )
    days = stats.list_days()
    yield build_bars("Cost by day", [*_list_days(days, "cost")])
    yield build_bars("Tokens by day", [*_list_days(days, "tokens")])
    tools = [
        ChartBar(
            label=name,
            value=count,
            shown=f"{count:,}, {stats.failed_tools[name]:,} failed",
            kind="bad" if stats.failed_tools[name] else "",
        )
        for name, count in stats.tools.most_common()
    ]
    yield build_bars("Calls by tool", tools)
    models = [
        ChartBar(label=name, value=count, shown=f"{count:,}")
        for name, count in stats.models.most_common()
    ]
    yield build_bars("Requests by model", models)


def _list_days(days: Sequence[tuple[str, DaySums]], what: str) -> Iterator[ChartBar]:
    for day, sums in days:
        usage, cost = sums.spending.usage, sums.spending.known_usd
        tokens = usage.prompt_tokens + usage.output_tokens
        value, shown = (tokens, f"{tokens:,}") if what == "tokens" else (cost, f"${cost:.4f}")
        yield ChartBar(label=day, value=value, shown=shown)
