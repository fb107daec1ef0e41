"""One session summed up: what it was asked, what it did, what it cost."""

import sys
from collections.abc import Iterable
from typing import Any

from agentcli.machine.plain import show_controls
from agentcli.record.place import LOG
from agentcli.record.reading import read_valid_part
from agentcli.record.sessions import SessionSummary, find_session_to_read, summarize
from agentcli.types.errors import SettingsError
from agentcli.types.events import Fact, TurnEnded, TurnStarted
from agentcli.types.messages import UserMessage
from agentcli.ui.sessions import build_session_json, describe_state, format_age, write_json
from agentcli.ui.tally import Tally, build_cost_json, build_usage_json


def show_session(named: str | None, *, as_json: bool) -> None:
    place = find_session_to_read(named)
    summary, recorded = summarize(place), read_valid_part(place.log)
    if not recorded.entries:
        raise SettingsError(
            f"{place.log} holds no session that could be shown",
            hint=f"see why: agentcli audit verify {place.log}",
        )
    facts = [entry.fact for entry in recorded.entries]
    tally = Tally()
    for fact in facts:
        tally(fact)
    if as_json:
        turns = [{"prompt": prompt, "ending": ending} for prompt, ending in _list_turns(facts)]
        write_json({**build_session_json(summary), "prompts": turns, **_totals_json(tally)})
    else:
        sys.stdout.write("\n".join(_describe_session(summary, facts, tally)) + "\n")
    if recorded.fault is not None:
        fault = recorded.fault
        sys.stderr.write(f"read up to record {fault.line}: {show_controls(fault.reason)}\n")


def _list_turns(facts: Iterable[Fact]) -> list[tuple[str, str]]:
    turns: list[tuple[str, str]] = []
    for fact in facts:
        match fact:
            case TurnStarted(message=message):
                turns.append((_prompt_text(message), ""))
            case TurnEnded(ending=ending) if turns:
                turns[-1] = (turns[-1][0], ending)
            case _:
                pass
    return turns


def _prompt_text(message: UserMessage) -> str:
    """Without what is attached to it."""
    return next((block.text for block in message.content if block.type == "text"), "")


def _describe_session(summary: SessionSummary, facts: list[Fact], tally: Tally) -> list[str]:
    usage = tally.usage
    origin = f", forked from {summary.origin}" if summary.origin else ""
    return [
        show_controls(summary.title) or "(nothing was asked)",
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
            for path, (added, removed) in tally.changed.items()
        ),
        *(
            f"  denied     {call.name}: {show_controls(verdict.reason)}"
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


def _totals_json(tally: Tally) -> dict[str, Any]:
    return {
        "requests": tally.spending.requests,
        "usage": build_usage_json(tally.usage),
        **build_cost_json(tally.spending),
        "changed": {path: list(counts) for path, counts in tally.changed.items()},
        "denials": [call.id for call, _ in tally.denials],
    }
