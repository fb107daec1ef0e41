import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.catalog import resolve
from agentcli.types.messages import AssistantMessage, Text, UserMessage
from agentcli.types.provider import Message
from tests.property.test_wire_normalize import histories
from tests.support.conversations import NAMES, conversation
from tests.support.examples import examples
from tests.support.referees import ANSWER, REFEREES, Referee, made

PROMPT = UserMessage(content=(Text(text="Judge it."),))

every_dialect = pytest.mark.parametrize("referee", REFEREES.values(), ids=REFEREES.keys())


@every_dialect
def test_requests_are_as_recorded(referee: Referee) -> None:
    recorded = {
        name: json.loads((referee.folder / name).read_text("utf-8")) for name in made(referee)
    }
    assert json.loads(json.dumps(made(referee))) == recorded


@every_dialect
@pytest.mark.parametrize("name", NAMES)
def test_strict_server_takes_a_conversation_of_other_models(referee: Referee, name: str) -> None:
    assert referee.checker()(referee.sent(referee.body(conversation(name)))) is None


@examples(150)
@given(referee=st.sampled_from([*REFEREES.values()]), history=histories)
def test_strict_server_takes_any_history(referee: Referee, history: list[Message]) -> None:
    assert referee.checker()(referee.sent(referee.body(history))) is None


@examples(80)
@given(referee=st.sampled_from([*REFEREES.values()]), history=histories)
def test_what_was_sent_once_is_sent_the_same_way_again(
    referee: Referee, history: list[Message]
) -> None:
    """One request before each reply, and one at the end: as a session sends them."""
    cuts = [place for place, it in enumerate(history) if isinstance(it, AssistantMessage)]
    before: list[Any] = []
    for cut in (*cuts, len(history)):
        body = referee.body(history[:cut])
        sent = [*flat(without_markers(body[referee.dialect.HISTORY_KEY]))]
        assert sent[: len(before)] == before
        before = sent


def flat(items: list[Any]) -> Iterator[Any]:
    """Turns by their parts: a user may go on speaking in the same turn."""
    for item in items:
        if "parts" in item:
            yield from ((item["role"], part) for part in item["parts"])
        elif item.get("role") == "user" and isinstance(item["content"], str):
            yield from item["content"].split()
        elif item.get("role") == "user":
            for part in item["content"]:
                yield from part["text"].split() if "text" in part else [part]
        else:
            yield item


def without_markers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_markers(it) for key, it in value.items() if key != "cache_control"}
    return [*map(without_markers, value)] if isinstance(value, list) else value


@every_dialect
def test_strict_server_takes_a_schema_for_the_answer(referee: Referee) -> None:
    body = referee.body([PROMPT], answer_schema=ANSWER)
    assert body != referee.body([PROMPT])
    assert referee.checker()(referee.sent(body)) is None


@every_dialect
def test_schema_is_left_out_where_the_model_cannot_be_held_to_it(referee: Referee) -> None:
    unable = replace(referee, model=replace(referee.model, answer_schemas=False))
    assert unable.body([PROMPT], answer_schema=ANSWER) == referee.body([PROMPT])


def test_optional_properties_are_not_made_null_in_an_answer() -> None:
    schema: Any = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a"],
    }
    body = REFEREES["openai-responses"].body([PROMPT], answer_schema=schema)
    assert body["text"] == {
        "format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": False}
    }


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("opus", True),
        ("sol", True),
        ("openai-chat/gpt-6-luna", True),
        ("argon", True),
        ("gemini-interactions/gemini-4-argon", True),
        ("gemini/gemini-2.5-pro", False),
        ("anthropic/claude-3-5-haiku-latest", False),
        ("anthropic/some-other-model", False),
        ("ollama/qwen3", False),
        ("openrouter/some/model", False),
    ],
)
def test_catalogue_knows_who_takes_a_schema_for_the_answer(name: str, takes: bool) -> None:
    assert resolve(name).answer_schemas is takes
