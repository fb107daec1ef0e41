"""One session summed up: what it was asked, what it did, what it cost."""

import sys
from collections.abc import Iterable
from typing import Any

from agentcli.machine.plain import visible
from agentcli.record.place import LOG
from agentcli.record.reading import read_what_fits
from agentcli.record.sessions import Summary, place_to_read, summary_of
from agentcli.types.errors import SettingsError
from agentcli.types.events import Fact, TurnEnded, TurnStarted
from agentcli.types.messages import UserMessage
from agentcli.ui.sessions import age, row, state, write_json
from agentcli.ui.tally import Tally, cost_json, usage_json


def show_one(named: str | None, *, as_json: bool) -> None:
    place = place_to_read(named)
    summary, recorded = summary_of(place), read_what_fits(place.log)
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
        turns = [{"prompt": prompt, "ending": ending} for prompt, ending in _turns(facts)]
        write_json({**row(summary), "prompts": turns, **_sums(tally)})
    else:
        sys.stdout.write("\n".join(_described(summary, facts, tally)) + "\n")
    if recorded.fault is not None:
        fault = recorded.fault
        sys.stderr.write(f"read up to record {fault.line}: {visible(fault.reason)}\n")


def _turns(facts: Iterable[Fact]) -> list[tuple[str, str]]:
    turns: list[tuple[str, str]] = []
    for fact in facts:
        match fact:
            case TurnStarted(message=message):
                turns.append((_prompt(message), ""))
            case TurnEnded(ending=ending) if turns:
                turns[-1] = (turns[-1][0], ending)
            case _:
                pass
    return turns


def _prompt(message: UserMessage) -> str:
    """Without what is attached to it."""
    return next((block.text for block in message.content if block.type == "text"), "")


def _described(summary: Summary, facts: list[Fact], tally: Tally) -> list[str]:
    usage = tally.usage
    origin = f", forked from {summary.origin}" if summary.origin else ""
    return [
        visible(summary.title) or "(nothing was asked)",
        f"  session    {summary.id}{origin}",
        f"  workspace  {visible(summary.workspace)}",
        f"  model      {visible(summary.model)}, {summary.mode} mode",
        f"  when       {summary.started} to {summary.last} ({age(summary.last)})",
        f"  state      {state(summary)}",
        f"  used       {tally.spending.asked}, {usage.prompt_tokens} tokens in "
        f"({usage.cache_read_tokens} cached), {usage.output_tokens} out, {tally.spending.cost}",
        *(
            f"  changed    {visible(path)} +{added} -{removed}"
            for path, (added, removed) in tally.changed.items()
        ),
        *(
            f"  denied     {call.name}: {visible(verdict.reason)}"
            for call, verdict in tally.denials
        ),
        *(
            f"  > {visible(' '.join(prompt.split()))[:100]}  [{ending or 'not ended'}]"
            for prompt, ending in _turns(facts)
        ),
        f"  log        {summary.place.log}",
        *(
            [f"  resume     agentcli run --resume {summary.id[-4:]} PROMPT"]
            if summary.place.log_name == LOG
            else []
        ),
    ]


def _sums(tally: Tally) -> dict[str, Any]:
    return {
        "requests": tally.spending.requests,
        "usage": usage_json(tally.usage),
        **cost_json(tally.spending),
        "changed": {path: list(counts) for path, counts in tally.changed.items()},
        "denials": [call.id for call, _ in tally.denials],
    }
