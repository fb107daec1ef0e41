"""Sessions as text: a list with titles, search results, one in detail; renaming and deleting."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from agentcli.log.checkpoint.keep import forget_session
from agentcli.log.lock import SessionLock, is_held
from agentcli.log.paths import LOG, SessionPaths, locate_fork_tree, locate_sessions
from agentcli.log.reader import read_session
from agentcli.log.sessions import (
    SessionSummary,
    find_session,
    find_session_to_read,
    list_sessions,
    search_session,
    summarize,
)
from agentcli.sandbox.contents import remove_directory
from agentcli.session.start import add_fact
from agentcli.system.files import remove_tree
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, SettingsError, UsageError
from agentcli.types.events import (
    CallJudged,
    Checkpointed,
    Fact,
    SessionNamed,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.messages import UserMessage
from agentcli.types.own_tools import EDITING
from agentcli.types.verdicts import Verdict
from agentcli.types.words import pluralize
from agentcli.ui.render.wording import describe_decision, format_age
from agentcli.ui.report import ReportLine, write_report
from agentcli.ui.stored_changes import count_changes
from agentcli.ui.tally import Tally, build_cost_json, build_usage_json


def show_session_list(workspace: Path | None, *, as_json: bool) -> None:
    """Print the sessions of a workspace, or of all workspaces if it is None."""
    everything = list_sessions()
    here = str(workspace)
    found = [one for one in everything if workspace is None or one.workspace == here]
    if as_json:
        write_json([build_session_json(summary) for summary in found])
        return
    write_report(map(render_session_line, found))
    elsewhere = len(everything) - len(found)
    if elsewhere:
        sys.stderr.write(f"{elsewhere} more in other workspaces: agentcli sessions list --all\n")
    elif not found:
        sys.stderr.write("no sessions yet\n")


STATE_STYLES = {"done": "ok", "running": "accent", "interrupted": "warning", "cut short": "warning"}
"""The styles of how sessions ended. All other endings are failures."""


def render_session_line(summary: SessionSummary) -> ReportLine:
    """Return one line: short id, age, turns, ending, title."""
    turns, state = pluralize(summary.turns, "turn"), describe_state(summary)
    title = show_controls(summary.title)
    return [
        ("strong", summary.id[-4:]),
        ("dim", f"  {format_age(summary.last):>8}  {turns:>9}  "),
        (STATE_STYLES.get(state, "failed" if summary.ending else "dim"), f"{state:<17}"),
        ("" if title else "dim", f"  {title or '(no prompt)'}"),
    ]


def format_session_line(summary: SessionSummary) -> str:
    """Return the line without styles, as the deletion prompt shows it."""
    return "".join(text for _, text in render_session_line(summary))


def show_search_hits(words: str) -> Exit:
    if not words.strip():
        raise UsageError("nothing to search for", hint="agentcli sessions search 'timeout'")
    found = False
    for summary in list_sessions():
        for hit in search_session(summary.paths, words):
            found = True
            sys.stdout.write(
                f"{summary.id}  {hit.seq:>5} {hit.fact:<14} {show_controls(hit.excerpt)}\n"
            )
    if not found:
        sys.stderr.write("no matches\n")
    return Exit.DONE


def rename_session(named: str, name: str) -> None:
    if not name.strip():
        raise UsageError("the name is empty", hint="agentcli sessions name 7f3a 'the parser'")
    add_fact(find_session(named), SessionNamed(name=" ".join(name.split())))


def delete_session(named: str, *, is_confirmed: bool) -> Exit:
    paths = find_session(named)
    if paths.sessions != Path(os.path.realpath(locate_sessions())):
        raise UsageError(
            f"{paths.directory} is not in the sessions directory", hint=f"rm -r {paths.directory}"
        )
    if not is_confirmed and not _confirm_deletion(paths):
        return Exit.DONE
    lock = SessionLock(paths.directory)  # nobody may be working in it
    try:
        remove_directory(paths.directory)
        forget_session(paths.id, paths.sessions)
        remove_tree(locate_fork_tree(paths.id))
    except OSError as error:
        raise SettingsError(
            f"cannot delete {paths.directory}: {error.strerror}", hint=f"rm -r {paths.directory}"
        ) from error
    finally:
        lock.release()
    sys.stderr.write(f"deleted {paths.id}\n")
    return Exit.DONE


def _confirm_deletion(paths: SessionPaths) -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "cannot ask for confirmation here", hint=f"agentcli sessions delete {paths.id} -y"
        )
    sys.stderr.write(
        f"{format_session_line(summarize(paths))}\nDelete this session permanently? [y/N] "
    )
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def describe_state(summary: SessionSummary) -> str:
    if summary.is_closed:
        return summary.ending or "-"
    return "running" if is_held(summary.paths.directory) else "cut short"


def build_session_json(summary: SessionSummary) -> dict[str, Any]:
    return {
        "session": summary.id,
        "title": summary.title,
        "workspace": summary.workspace,
        "model": summary.model,
        "mode": summary.mode,
        "started": summary.started,
        "last": summary.last,
        "turns": summary.turns,
        "ending": summary.ending,
        "state": describe_state(summary),
        "origin": summary.origin,
        "log": str(summary.paths.log),
    }


def write_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    sys.stdout.write(text.encode("utf-8", "replace").decode() + "\n")


# One session in summary: its prompts, its calls, its cost.


PATHS_SHOWN = 40


def show_session(named: str | None, *, as_json: bool) -> None:
    paths = find_session_to_read(named)
    summary, recorded = summarize(paths), read_session(paths.log, "show")
    facts = [entry.fact for entry in recorded.entries]
    tally = Tally()
    for fact in facts:
        tally(fact)
    tally = replace(tally, changed=count_changes(facts, sessions=paths.sessions))
    if as_json:
        turns = [{"prompt": prompt, "ending": ending} for prompt, ending in _list_turns(facts)]
        totals = _build_totals_json(tally) | {"other_changes": _find_other_changes(facts)[0]}
        write_json({**build_session_json(summary), "prompts": turns, **totals})
    else:
        sys.stdout.write("\n".join(_describe_session(summary, facts, tally=tally)) + "\n")
    if recorded.fault is not None:
        fault = recorded.fault
        sys.stderr.write(
            f"warning: read up to record {fault.line}: {show_controls(fault.reason)}\n"
        )


def _list_turns(facts: Iterable[Fact]) -> list[tuple[str, str]]:
    turns: list[tuple[str, str]] = []
    for fact in facts:
        match fact:
            case TurnStarted(message=message):
                turns.append((_read_prompt_text(message), ""))
            case TurnEnded(ending=ending) if turns:
                turns[-1] = (turns[-1][0], ending)
            case _:
                pass
    return turns


def _read_prompt_text(message: UserMessage) -> str:
    """Return the prompt without its attachments."""
    return next((block.text for block in message.content if block.type == "text"), "")


def _describe_session(summary: SessionSummary, facts: list[Fact], *, tally: Tally) -> list[str]:
    usage = tally.usage
    origin = f", forked from {summary.origin}" if summary.origin else ""
    return [
        show_controls(summary.title) or "(no prompt)",
        f"  session    {summary.id}{origin}",
        f"  workspace  {show_controls(summary.workspace)}",
        f"  model      {show_controls(summary.model)}, {summary.mode} mode",
        f"  when       {summary.started} to {summary.last} ({format_age(summary.last)})",
        f"  state      {describe_state(summary)}",
        f"  used       {tally.spending.request_summary}, {usage.prompt_tokens} tokens in "
        f"({usage.cache_read_tokens} cached), {usage.output_tokens} out, "
        f"{tally.spending.cost_text}",
        *(
            f"  changed    {show_controls(path)} +{added} -{removed}"
            for path, (added, removed) in islice(tally.changed.items(), PATHS_SHOWN)
        ),
        *_render_other_changes(facts, tally),
        *(
            f"  denied     {call.name}: {show_controls(_describe_denial(verdict))}"
            for call, verdict in tally.denials
        ),
        *(
            f"  > {show_controls(' '.join(prompt.split()))[:100]}  [{ending or 'not ended'}]"
            for prompt, ending in _list_turns(facts)
        ),
        f"  log        {summary.paths.log}",
        *(
            [f"  resume     agentcli run --resume {summary.id[-4:]} PROMPT"]
            if summary.paths.log_name == LOG
            else []
        ),
    ]


def _render_other_changes(facts: Iterable[Fact], tally: Tally) -> Iterator[str]:
    """Yield what has no counts: directories, and files whose states are deleted."""
    found, unnamed = _find_other_changes(facts)
    others = [path for path in found if path not in tally.changed]
    shown = others[: max(PATHS_SHOWN - len(tally.changed), 0)]
    for path in shown:
        yield f"  changed    {show_controls(path)}"
    # With counts, paths have a name here that the record does not give.
    unnamed = max(unnamed - len(tally.changed.keys() - set(found)), 0)
    if more := max(len(tally.changed) - PATHS_SHOWN, 0) + len(others) - len(shown) + unnamed:
        yield f"  changed    {more} more: agentcli undo --list"


def _find_other_changes(facts: Iterable[Fact]) -> tuple[list[str], int]:
    """Return the paths that commands changed, and all else without a diff, and how many others.

    A directory counts only if nothing in it changed."""
    tools: dict[str, str] = {}
    paths: dict[str, None] = {}
    more = 0
    for fact in facts:
        match fact:
            case CallJudged(call=call):
                tools[call.id] = call.name
            case Checkpointed() if tools.get(fact.call_id) not in EDITING:
                root = f"{fact.root}/" if fact.root else ""
                paths |= dict.fromkeys(f"{root}{path}" for path in fact.paths)
                more += fact.paths_total - len(fact.paths)
            case _:
                pass
    parents = {str(parent) for path in paths for parent in PurePath(path).parents}
    return [path for path in paths if path not in parents], more


def _describe_denial(verdict: Verdict) -> str:
    return describe_decision(verdict) if verdict.by == "user" else verdict.reason


def _build_totals_json(tally: Tally) -> dict[str, Any]:
    return {
        "requests": tally.spending.requests,
        "usage": build_usage_json(tally.usage),
        **build_cost_json(tally.spending),
        "changed": {path: list(counts) for path, counts in tally.changed.items()},
        "denials": [call.id for call, _ in tally.denials],
    }
