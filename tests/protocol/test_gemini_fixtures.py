import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.types.deltas import TextDelta, ThinkingDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import AssistantMessage, Thinking
from tests.support.gemini_fixtures import DIALECTS, cases, decoded, made, model

CASES = [case for protocol in DIALECTS for case in cases(protocol)]
REPLIES = [case for case in CASES if (case / "message.json").exists()]


def named(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def recorded(case: Path) -> dict[str, Any]:
    return {path.name: json.loads(path.read_text("utf-8")) for path in case.glob("*.json")}


def streamed(case: Path) -> bytes:
    return (case / "stream.sse").read_bytes()


def whole(case: Path) -> AssistantMessage:
    return decoded([streamed(case)], model(case.parent.name))[0]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_stream_leads_to_what_is_recorded(case: Path) -> None:
    assert json.loads(json.dumps(made(case))) == recorded(case)


@pytest.mark.parametrize("case", REPLIES, ids=named)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_stream_cut_into_pieces_gives_the_same_message(case: Path, size: int) -> None:
    data = streamed(case)
    pieces = [data[start : start + size] for start in range(0, len(data), size)]
    assert decoded(pieces, model(case.parent.name))[0] == whole(case)


@pytest.mark.parametrize("case", REPLIES, ids=named)
def test_stream_that_breaks_anywhere_is_cut(case: Path) -> None:
    data, asked = streamed(case), model(case.parent.name)
    ending = data.rindex(b'"event_type"') if b'"event_type"' in data else data.rindex(b"data: ")
    for size in range(0, data.index(b"\n", ending) - 1):
        with pytest.raises(ProviderError) as caught:
            decoded([data[:size]], asked)
        assert caught.value.kind is ProviderErrorKind.CUT


@pytest.mark.parametrize("case", REPLIES, ids=named)
def test_all_that_is_said_is_shown_as_it_comes(case: Path) -> None:
    message, shown = decoded([streamed(case)], model(case.parent.name))
    said = "".join(delta.text for delta in shown if isinstance(delta, TextDelta))
    thought = "".join(delta.text for delta in shown if isinstance(delta, ThinkingDelta))
    # Halves of a character that come apart are shown before they can meet.
    if case.name != "lone_surrogates":
        assert said == message.text
    blocks = [block.text for block in message.content if isinstance(block, Thinking)]
    assert thought == "".join(blocks)


@pytest.mark.parametrize("protocol", DIALECTS)
def test_every_situation_is_recorded(protocol: str) -> None:
    situations = {
        "plain_text",
        "unicode",
        "lone_surrogates",
        "one_call",
        "parallel_calls",
        "malformed_arguments",
        "length",
        "refusal",
        "blocked_prompt",
        "malformed_call",
        "error_in_stream",
        "continuation",
        "cut",
        "empty",
    }
    assert situations <= {case.name for case in cases(protocol)}
