"""What a session says it cost, against what each provider reported and its price list."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.insights.cost import break_down_cost
from agentcli.session.builder import open_session
from agentcli.session.requirements import RunRequirements
from agentcli.types.settings import Settings
from agentcli.types.spending import NO_SPENDING, Spending, sum_spending
from tests.support.provider import Reply
from tests.support.voices import Anthropic, Chat, Gemini, Interactions, Responses, Voice, choir

NEW, READ, WRITTEN, WRITTEN_LONG, OUT, THOUGHT = 1000, 5000, 300, 200, 70, 30
Object = dict[str, Any]


def report(event: Object) -> Object:
    """Return an event of a reply with the usage above, in the words of its protocol."""
    match event:
        case {"type": "message_start", "message": message}:
            return {**event, "message": {**message, "usage": ANTHROPIC}}
        case {"type": "message_delta"}:
            return {**event, "usage": {"output_tokens": OUT + THOUGHT}}
        case {"type": "response.completed", "response": response}:
            return {**event, "response": {**response, "usage": RESPONSES}}
        case {"usage": {"prompt_tokens": _}}:
            return {**event, "usage": CHAT}
        case {"candidates": _}:
            return {**event, "usageMetadata": GEMINI}
        case {"interaction": interaction}:
            return {**event, "interaction": {**interaction, "usage": INTERACTIONS}}
        case _:
            return event


ANTHROPIC = {
    "input_tokens": NEW,
    "cache_read_input_tokens": READ,
    "cache_creation_input_tokens": WRITTEN + WRITTEN_LONG,
    "cache_creation": {
        "ephemeral_5m_input_tokens": WRITTEN,
        "ephemeral_1h_input_tokens": WRITTEN_LONG,
    },
    "output_tokens": 1,
}
RESPONSES = {
    "input_tokens": NEW + READ,
    "input_tokens_details": {"cached_tokens": READ},
    "output_tokens": OUT + THOUGHT,
    "output_tokens_details": {"reasoning_tokens": THOUGHT},
}
CHAT = {
    "prompt_tokens": NEW + READ,
    "prompt_tokens_details": {"cached_tokens": READ},
    "completion_tokens": OUT + THOUGHT,
}
GEMINI = {
    "promptTokenCount": NEW + READ,
    "cachedContentTokenCount": READ,
    "candidatesTokenCount": OUT,
    "thoughtsTokenCount": THOUGHT,
}
INTERACTIONS = {
    "total_input_tokens": NEW + READ,
    "total_cached_tokens": READ,
    "total_output_tokens": OUT,
    "total_thought_tokens": THOUGHT,
}
PRICES: dict[type[Voice], float | None] = {
    # USD per million: opus 4 new, 0.2 read, 5 written, 8 for an hour, 20 out
    Anthropic: NEW * 4 + READ * 0.2 + WRITTEN * 5 + WRITTEN_LONG * 8 + (OUT + THOUGHT) * 20,
    # sol 2 new, 0.1 read, 10 out
    Responses: NEW * 2 + READ * 0.1 + (OUT + THOUGHT) * 10,
    Chat: None,
    # argon 2 in, cached or not, 10 out
    Gemini: (NEW + READ) * 2 + (OUT + THOUGHT) * 10,
    Interactions: (NEW + READ) * 2 + (OUT + THOUGHT) * 10,
}


def with_usage(reply: Reply, report: Callable[[Object], Object] = report) -> Reply:
    lines = []
    for line in reply.body.decode().split("\n"):
        kind, _, data = line.partition(": ")
        is_event = kind == "data" and data.startswith("{")
        lines.append(f"data: {json.dumps(report(json.loads(data)))}" if is_event else line)
    return reply.but(body="\n".join(lines).encode())


def count_anew(event: Any, count: Callable[[int], int | float]) -> Any:
    """Return the event with another number for each number of tokens."""
    match event:
        case dict():
            return {
                key: count(value)
                if isinstance(value, int) and "token" in key.lower()
                else count_anew(value, count)
                for key, value in event.items()
            }
        case list():
            return [count_anew(one, count) for one in event]
        case _:
            return event


async def spend_on(voice: Voice, directory: Path) -> Spending:
    settings = Settings(workspace=directory, model=voice.model, sessions=directory / "sessions")
    session = open_session(settings, listeners=(), requirements=RunRequirements())
    try:
        await session.run_turn("hi")
    finally:
        await session.close(0)
    return sum_spending(session.facts)


@pytest.mark.parametrize("kind", PRICES, ids=lambda kind: kind.__name__)
def test_number_of_tokens_that_a_server_does_not_know_is_never_below_zero(
    kind: type[Voice], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = kind()
    unknown = with_usage(voice.says(1, "Hi.", []), lambda event: count_anew(event, lambda _: -1))
    monkeypatch.setenv("HOME", str(tmp_path))
    with choir([voice], [unknown]) as providers:
        for name, value in providers.environ.items():
            monkeypatch.setenv(name, value)
        spent = asyncio.run(spend_on(voice, tmp_path))
    assert spent.is_estimate
    assert spent.usage.prompt_tokens > 0
    assert spent.usage.output_tokens > 0
    assert (spent.cost_usd or 0) >= 0


@pytest.mark.parametrize("kind", PRICES, ids=lambda kind: kind.__name__)
def test_number_of_tokens_may_be_written_as_a_float(
    kind: type[Voice], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = kind()
    written = with_usage(with_usage(voice.says(1, "Hi.", [])), lambda one: count_anew(one, float))
    monkeypatch.setenv("HOME", str(tmp_path))
    with choir([voice], [written]) as providers:
        for name, value in providers.environ.items():
            monkeypatch.setenv(name, value)
        spent = asyncio.run(spend_on(voice, tmp_path))
    assert not spent.is_estimate
    assert spent.usage.output_tokens == OUT + THOUGHT


@pytest.mark.parametrize("kind", PRICES, ids=lambda kind: kind.__name__)
def test_cost_by_turn_tool_and_agent_is_what_the_provider_reported(
    kind: type[Voice], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = kind()
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.py").write_text("1\n")
    settings = Settings(
        workspace=tmp_path / "work", model=voice.model, sessions=tmp_path / "sessions"
    )
    both = [("read_file", {"path": "a.py"}), ("grep", {"pattern": "1"})]
    script = [
        voice.says(1, "Looking.", both),
        voice.says(2, "Done.", []),
        voice.says(3, "Bye.", []),
    ]
    monkeypatch.setenv("HOME", str(tmp_path))

    async def talk() -> Any:
        session = open_session(settings, listeners=(), requirements=RunRequirements())
        for prompt in ("first", "second"):
            await session.run_turn(prompt)
        await session.close(0)
        return tuple(session.facts)

    with choir([voice], [*map(with_usage, script)]) as providers:
        for name, value in providers.environ.items():
            monkeypatch.setenv(name, value)
        facts = asyncio.run(talk())
    spent, found = sum_spending(facts), break_down_cost(facts)
    written = WRITTEN + WRITTEN_LONG if kind is Anthropic else 0
    assert spent.usage.prompt_tokens == 3 * (NEW + READ + written)
    assert spent.usage.output_tokens == 3 * (OUT + THOUGHT)
    assert not spent.is_estimate
    one_usd = PRICES[kind]
    assert spent.cost_usd == (None if one_usd is None else pytest.approx(3 * one_usd / 1e6))
    assert [turn.spending.requests for turn in found.turns] == [2, 1]
    assert sum((turn.spending for turn in found.turns), NO_SPENDING).usage == spent.usage
    assert sum(agent.spending.known_usd for agent in found.agents.values()) == spent.known_usd
    by_tool = {name: tool.cost_usd * 1e6 for name, tool in found.tools.items()}
    share = (one_usd or 0.0) / 2
    assert by_tool == pytest.approx({"your messages": 4 * share, "read_file": share, "grep": share})
