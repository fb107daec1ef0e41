"""Phrases that several front ends share: calls, decisions, notes, time, tokens, money."""

import json
import locale
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from agentcli.system.plain_text import show_controls
from agentcli.types.checks import Verified
from agentcli.types.computer import COMPUTER, describe_actions
from agentcli.types.deltas import RetryDelta, ServersAwaited
from agentcli.types.events import Compacted, ContextNote, NoteReason, ResultsTrimmed
from agentcli.types.messages import AssistantMessage, HostedCall, Json, ToolCall, Usage
from agentcli.types.spending import Spending
from agentcli.types.tools import (
    Browsed,
    ChildTurn,
    Command,
    Details,
    Diff,
    ErrorKind,
    FileView,
    Matches,
    Raw,
    ToolResult,
    WebPage,
)
from agentcli.types.verdicts import SPAN_WORDS, Delegation, Verdict
from agentcli.types.words import format_bytes, pluralize
from agentcli.ui.tally import Tally

if TYPE_CHECKING:
    from agentcli.ui.render.paint import Paint


TARGET_CHARS = 72
TASK_CHARS = 300
REASON_CHARS = 200
USER_DENIED = "the user denied it"
USER_DENIED_AND_SAID = f"{USER_DENIED}, and said: "
"""The words before what the user wants instead."""

USER_RAN_IT = "the user ran it"
"""The reason in the verdict on a shell command of the user's own."""

_SUBJECT_ARGUMENTS = ("command", "pattern", "glob", "path", "url", "query", "question", "input")
"""The arguments that say by themselves what a call is about, the first of them best."""
_SEARCHED_ARGUMENTS = ("path", "glob")
"""The arguments that say where a search looks."""


def format_call(call: ToolCall, result: ToolResult, *, duration_s: float) -> str:
    return (
        f"{call.name} {format_target(call)}: {_format_outcome(result)} "
        f"({format_duration(duration_s)})"
    )


def format_target(call: ToolCall) -> str:
    """Return the subject of a call on one line, shortened in the middle."""
    return shorten_middle(show_controls(read_subject(call)), TARGET_CHARS)


_DECIDED = {"allow": "allowed", "modify": "changed", "ask": "not answered", "deny": "denied"}


def describe_decision(verdict: Verdict) -> str:
    """Return what was decided, and by whom: `allowed by mode`, `approved by you, once`."""
    if verdict.by == "user":
        return _describe_answer(verdict)
    by = "" if verdict.by == "nobody" else f" by {verdict.by}"
    return f"{_DECIDED[verdict.decision]}{by}"


def _describe_answer(verdict: Verdict) -> str:
    """Return the user's answer to a question, in words for the user."""
    lasts = f", {SPAN_WORDS[verdict.lasts]}" if verdict.lasts else ""
    match verdict.decision:
        case "deny" if verdict.input is not None:
            return f"your version was not run: {verdict.reason}"
        case "deny":
            return (
                f'denied by you: "{verdict.instead}"'
                if verdict.instead
                else f"denied by you{lasts}"
            )
        case "modify":
            return "changed by you"
        case _ if verdict.reason == USER_RAN_IT:
            return "run by you"
        case _:
            return f"approved by you{lasts}"


def format_child_name(child: Delegation) -> str:
    """Return the name of a child agent, with its role if it has one."""
    return f"child agent {show_controls(child.role)}" if child.role else "child agent"


def format_child_task(child: Delegation) -> str:
    """Return the task of a child agent on one line."""
    return shorten_middle(show_controls(" ".join(child.task.split())), TASK_CHARS)


def read_subject(call: ToolCall) -> str:
    """Return the subject of a call on one line: the argument that says it, or all of them.

    The text is unchanged: it may still contain what would act on a terminal.
    """
    given = call.input
    text = describe_actions(given) if call.name == COMPUTER else ""
    if text:
        return text
    if isinstance(given, dict):
        named = next((key for key in _SUBJECT_ARGUMENTS if isinstance(given.get(key), str)), "")
        text = str(given[named]) if named else " ".join(map(_format_argument, given.items()))
        if named in ("pattern", "glob"):
            paths = [given.get(key) for key in _SEARCHED_ARGUMENTS if key != named]
            where = ", ".join(path for path in paths if isinstance(path, str) and path)
            text += f" in {where}" if where else ""
    elif isinstance(given, str):
        text = given
    return " ".join(text.split())


def shorten_middle(text: str, limit_chars: int) -> str:
    if len(text) <= limit_chars:
        return text
    half = limit_chars // 2
    return f"{text[:half]}…{text[-half + 1 :]}"


def _format_argument(argument: tuple[str, Json]) -> str:
    key, value = argument
    is_word = isinstance(value, str) and value and not any(map(str.isspace, value))
    return f"{key}={value if is_word else json.dumps(value, ensure_ascii=False)}"


def format_duration(seconds: float) -> str:
    """Format the time that a call took: 340ms, 4.2s, 1m 04s."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s"
    return f"{int(seconds // 60)}m {int(seconds % 60):02}s"


def spell_duration(seconds: float) -> str:
    """Return the duration with its units in full, to be read aloud."""
    if seconds < 1:
        return pluralize(round(seconds * 1000), "millisecond")
    if seconds < 60:
        return f"{seconds:.1f}".removesuffix(".0") + " seconds"
    minutes, rest = divmod(int(seconds), 60)
    return f"{pluralize(minutes, 'minute')} {pluralize(rest, 'second')}"


def _format_outcome(result: ToolResult) -> str:
    if result.error is not None and not isinstance(result.details, Command):
        word = _WORDS.get(result.error, "failed")
        return f"{word}: {_take_first_line(result.unlabelled_text.removeprefix('Denied: '))}"
    return "ok" if result.details is None else _format_size(result.details)


def _format_size(details: Details) -> str:
    match details:
        case Diff() as diff:
            return f"{'new file, ' if diff.created else ''}+{diff.added} -{diff.removed}"
        case Command() as command:
            return _format_command(command)
        case FileView() as view:
            return format_view_size(view)
        case Matches() as found:
            return format_match_count(found)
        case ChildTurn() as child:
            return format_child_size(child)
        case Raw(text=text) | Browsed(url=text):
            return _take_first_line(text)
        case WebPage() as page:
            return f"{page.media}, {page.size_bytes:,} bytes"
        case _:
            return "ok"


def format_child_size(child: ChildTurn) -> str:
    tokens = child.usage.prompt_tokens + child.usage.output_tokens
    return f"{pluralize(child.calls, 'call')}, {tokens} tokens"


def format_view_size(view: FileView) -> str:
    if view.media != "text":
        return view.media
    return pluralize(view.last_line - view.first_line + 1 if view.last_line else 0, "line")


def format_match_count(found: Matches) -> str:
    more = ", there are more" if found.more else ""
    files = pluralize(found.files, "file")
    if found.matches == found.files:
        return files + more
    if not found.files:  # of a search that is not among files
        return pluralize(found.matches, "result")
    return f"{pluralize(found.matches, 'match', many='matches')} in {files}{more}"


def _format_command(command: Command) -> str:
    ending = format_command_ending(command)
    if command.background_pid is not None:
        return ending
    return f"{ending}, {format_output_size(command)}"


def format_output_size(command: Command) -> str:
    """Return its lines; of an output that is not stored as a whole, its size."""
    if command.stored_bytes is None:
        return pluralize(command.output_lines, "line")
    stored = format_bytes(command.stored_bytes)
    return f"{format_bytes(command.output_bytes)}, the first {stored} stored"


def format_command_ending(command: Command) -> str:
    if command.background_pid is not None:
        where = f"on terminal {command.terminal}" if command.terminal else "in the background"
        moved = "moved to the background by you" if command.was_moved else where
        return f"{moved}, pid {command.background_pid}"
    if command.timed_out:
        return "timed out"
    if command.signal is None and command.exit_code is None:
        return "interrupted"
    if command.signal:
        return f"killed by {command.signal}"
    pipe = f"; in the pipe: {command.pipe}" if command.pipe else ""
    return f"exit {command.exit_code}{pipe}"


def _take_first_line(text: str) -> str:
    line = show_controls(text.strip().split("\n", 1)[0])
    return line if len(line) <= REASON_CHARS else line[:REASON_CHARS] + "…"


_WORDS: dict[ErrorKind, str] = {
    ErrorKind.DENIED: "denied",
    ErrorKind.TIMEOUT: "timed out",
    ErrorKind.CANCELLED: "interrupted",
    ErrorKind.NOT_RUN: "not run",
}


def describe_shortening(event: ResultsTrimmed | Compacted) -> str:
    """Return what was removed from the model's context, to free space in its window."""
    if isinstance(event, Compacted):
        return f"compacted: a summary replaces {event.tokens_before} tokens"
    results = pluralize(len(event.results), "result")
    return f"compacted: {results} left out or cut, {event.freed_tokens} tokens freed"


def describe_check(run: Verified) -> str:
    """Return one line for the user about a command that checks whether the task is done."""
    how = "passed" if run.passed else f"exit {run.exit_code}" if run.exit_code else "did not finish"
    command = " ".join(show_controls(run.command).split())
    return f"verify {command}: {how} ({format_duration(run.duration_s)})"


def describe_context_note(note: ContextNote) -> str:
    """Return one line for the user about a note that the runtime gave the model."""
    if note.loaded:
        return f"Loaded {show_controls(note.loaded)}"
    first, *more = show_controls(note.text).strip().split("\n")
    match note.why:
        case NoteReason.PLAN_MODE:
            return "Plan mode: read-only"
        case NoteReason.PLAN_MODE_OVER:
            return "Plan mode is over"
        case NoteReason.PLAN:
            return f"Plan accepted ({pluralize(len([*filter(str.strip, more)]), 'line')})"
        case _:
            return f"Note to the model: {first}{' …' if more else ''}"


def describe_retry(retry: RetryDelta) -> str:
    """Return why a request is sent again, when, and for which time."""
    return (
        f"{show_controls(retry.reason)}: retrying in {retry.wait_s:.1f} s, "
        f"attempt {retry.attempt} of {retry.attempts}"
    )


def describe_waiting(event: ServersAwaited) -> str:
    """Return one line for the user about servers that the first request waits for."""
    servers = "server" if len(event.names) == 1 else "servers"
    names = ", ".join(event.names)
    return f"Waiting for the MCP {servers} {names} (up to {format_duration(event.limit_s)})"


# The figures of a turn and of a session in few words: time, tokens, money.


QUIET_TURN_S = 5.0


def is_ascii() -> bool:
    """Return whether the locale can show ASCII only."""
    return "utf" not in locale.getpreferredencoding(False).lower()


def format_tokens(count: int) -> str:
    """Format a number of tokens: 321, 12.3k, 49k, 210k, 1.4M."""
    if count < 1_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1_000:.1f}k".replace(".0k", "k")
    if count < 999_500:
        return f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}M".replace(".0M", "M")


def format_traffic(usage: Usage, *, ascii: bool = False) -> str:
    sent, received = ("in ", "out ") if ascii else ("↑", "↓")
    return (
        f"{sent}{format_tokens(usage.prompt_tokens)} {received}{format_tokens(usage.output_tokens)}"
    )


def format_cost(spending: Spending) -> str:
    """Return the known part of the cost, with two digits, or four if two would say nothing."""
    usd = spending.known_usd
    digits = 2 if usd == 0 or usd >= 0.005 else 4
    return f"{spending.estimate_prefix}${usd:.{digits}f}"


def format_age(at: str) -> str:
    """Return the age of a time in its largest unit, as in `5m ago`; `?` if it cannot be parsed."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return "?"
    for unit, length_s in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length_s:
            return f"{int(seconds // length_s)}{unit} ago"
    return "just now"


def format_clock(at: str) -> str:
    """Return the time of day here, as in `14:05`; `  ?  ` if it cannot be parsed."""
    try:
        return f"{datetime.fromisoformat(at).astimezone():%H:%M}"
    except ValueError:
        return "  ?  "


def format_elapsed(seconds: float) -> str:
    """Format a duration in whole units: 38s, 1m 04s, 18m, 2h 05m."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 1:
        return f"{rest}s"
    if minutes < 10:
        return f"{minutes}m {rest:02}s"
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"


def render_turn_summary(
    paint: "Paint", tally: Tally, *, tools: int, duration_s: float, ended_at: str = ""
) -> str:
    """Render `done in 38s · 3 tools · ↑49k ↓1.3k · $0.12 · 14:32`.

    Empty after a short turn without tools.
    """
    if duration_s <= QUIET_TURN_S and not tools:
        return ""
    facts = [f"done in {_format_turn_duration(duration_s, paint)}"]
    if tools:
        facts.append(pluralize(tools, "tool"))
    facts += _list_spending(tally, ascii=paint.ascii)
    facts += [ended_at] if ended_at else []
    return paint.apply_style(paint.dot.join(facts), paint.theme.dim) + "\n"


def render_verification(paint: "Paint", tally: Tally) -> str:
    """Render whether the changes of a turn were checked; empty if it changed nothing."""
    found = tally.verification
    if found is None:
        return ""
    style = paint.theme.dim if found.is_verified else paint.theme.warning
    return paint.apply_style(show_controls(found.text), style) + "\n"


def _format_turn_duration(seconds: float, paint: "Paint") -> str:
    if paint.accessible:
        return spell_duration(seconds)
    return format_elapsed(seconds) if seconds >= 1 else format_duration(seconds)


def render_exit_summary(
    tally: Tally,
    *,
    turns: int,
    duration_s: float,
    stopped: int = 0,
    resume: str = "",
    log_path: str = "",
    ascii: bool = False,
) -> list[str]:
    """Return at most four plain lines.

    `stopped` is the number of commands that were still running; `resume` is the command to go on
    with.
    """
    dot = " - " if ascii else " · "
    first = [f"session {tally.session}" if tally.session else "session", pluralize(turns, "turn")]
    lines = [
        dot.join(
            (*first, format_elapsed(duration_s), *_list_spending(tally, ascii=ascii, cached=True))
        )
    ]
    did = []
    if tally.changed:
        did.append(count_changes(tally, ascii=ascii))
    if stopped:
        did.append(f"{pluralize(stopped, 'command')} still running {_was_or_were(stopped)} stopped")
    if did:
        lines.append(dot.join(did))
    if resume:
        lines.append(f"resume: {resume}")
    if log_path:
        lines.append(f"log:    {log_path}")
    return lines


def count_changes(tally: Tally, *, ascii: bool = True) -> str:
    """Return `3 files changed, +48 -12`; empty if nothing was changed."""
    if not tally.changed:
        return ""
    added, removed = map(sum, zip(*tally.changed.values(), strict=True))
    minus = "-" if ascii else "−"
    return f"{pluralize(len(tally.changed), 'file')} changed, +{added} {minus}{removed}"


def describe_run_changes(tally: Tally, *, dot: str = " · ") -> str:
    """Return what a run changed, and the command that undoes it; empty if it changed nothing.

    Without a stored state there is nothing to undo it with."""
    is_stored = any(fact.paths for fact in tally.checkpoints)
    undo = f"agentcli undo {tally.session[-4:]}" if is_stored else ""
    return dot.join(filter(None, (count_changes(tally), undo))) if tally.changed else ""


def _list_spending(tally: Tally, *, ascii: bool, cached: bool = False) -> list[str]:
    usage = tally.usage
    if not usage.prompt_tokens and not usage.output_tokens:
        return []
    flow = format_traffic(usage, ascii=ascii)
    if cached and usage.cache_read_tokens:
        flow += f" (cache {100 * usage.cache_read_tokens // usage.prompt_tokens} %)"
    return [flow] + ([format_cost(tally.spending)] if tally.spending.cost_usd else [])


def _was_or_were(count: int) -> str:
    return "was" if count == 1 else "were"


WARN_SHARE = 0.7
SOON_SHARE = 0.85


def choose_window_style(share: float, *, otherwise: str) -> str:
    """Return the style for a context that takes this share of the window."""
    return "failed" if share >= SOON_SHARE else "warning" if share >= WARN_SHARE else otherwise


# Calls that a provider made itself while it wrote a reply, in words for the user.


def describe_hosted(message: AssistantMessage) -> Sequence[str]:
    """Return a line for each call that the provider made itself, and for each cited page."""
    calls = [
        f"{call.tool} {_shorten(call.subject)}: {_format_hosted(call)}" for call in message.hosted
    ]
    return [*calls, *(f"source: {_shorten(f'{one.title} {one.url}')}" for one in message.sources)]


def _format_hosted(call: HostedCall) -> str:
    if call.error:
        return show_controls(call.error)
    return "ok" if call.tool != "web_search" else pluralize(call.results, "result")


def _shorten(text: str) -> str:
    return shorten_middle(show_controls(" ".join(text.split())), TARGET_CHARS)
