import json
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.http.sse import EventStream
from agentcli.types.deltas import TextDelta, ThinkingDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Json, Text, Thinking
from tests.support.examples import examples
from tests.support.openai_fixtures import DIALECTS, PROMPT, answered, cases, decoded, made, request

CASES = [case for protocol in DIALECTS for case in cases(protocol)]
WHOLE = [case for case in CASES if (case / "message.json").exists()]


def named(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_stream_leads_to_what_is_recorded(case: Path) -> None:
    recorded = {
        path.name: json.loads(path.read_text(encoding="utf-8")) for path in case.glob("*.json")
    }
    assert json.loads(json.dumps(made(case))) == recorded


@examples(40)
@given(case=st.sampled_from(WHOLE), data=st.data())
def test_stream_cut_into_chunks_at_any_byte_gives_the_same_message(
    case: Path, data: st.DataObject
) -> None:
    stream = (case / "stream.sse").read_bytes()
    borders = data.draw(st.lists(st.integers(0, len(stream)), max_size=12).map(sorted))
    chunks = [stream[a:b] for a, b in zip([0, *borders], [*borders, len(stream)], strict=True)]
    assert decoded(chunks, case.parent.name) == decoded([stream], case.parent.name)


@pytest.mark.parametrize(
    "case", [case for case in WHOLE if case.parent.name == "openai-responses"], ids=named
)
def test_responses_stream_without_its_last_event_is_cut(case: Path) -> None:
    events = (case / "stream.sse").read_bytes().split(b"\n\n")
    with pytest.raises(ProviderError) as caught:
        decoded([b"\n\n".join([*events[:-2], b""])], "openai-responses")
    assert caught.value.kind is ProviderErrorKind.CUT


@examples(40)
@given(case=st.sampled_from(["text", "call", "text_then_parallel_calls"]), data=st.data())
def test_chat_stream_that_ends_before_its_finish_reason_is_cut(
    case: str, data: st.DataObject
) -> None:
    stream = (cases("openai-chat")[0].parent / case / "stream.sse").read_bytes()
    finish = stream.index(b'"finish_reason":"')
    end = data.draw(st.integers(0, stream.rindex(b"data: ", 0, finish)))
    with pytest.raises(ProviderError) as caught:
        decoded([stream[:end]], "openai-chat")
    assert caught.value.kind is ProviderErrorKind.CUT


# Half a character is shown as it comes, before its other half is there.
@pytest.mark.parametrize(
    "case", [case for case in WHOLE if case.name != "half_surrogates"], ids=named
)
def test_shown_text_is_the_text_of_the_message(case: Path) -> None:
    message, shown = decoded([(case / "stream.sse").read_bytes()], case.parent.name)
    texts = [block.text for block in message.content if isinstance(block, Text)]
    thoughts = [block.text for block in message.content if isinstance(block, Thinking)]
    assert "".join(d.text for d in shown if isinstance(d, TextDelta)) == "".join(texts)
    assert "".join(d.text for d in shown if isinstance(d, ThinkingDelta)) == "".join(thoughts)


JUNK: list[Json] = [None, 0, "", "{", '{"a":1}', [], {}, [None], {"type": "x"}, True, "\ud83d"]


def spoilt(value: Json, random: Random) -> Json:
    """Now and then something else in the place of a value, or nothing at all."""
    if random.random() < 0.03:
        return random.choice(JUNK)
    match value:
        case dict():
            kept = {key: item for key, item in value.items() if random.random() > 0.02}
            return {key: spoilt(item, random) for key, item in kept.items()}
        case list():
            return [spoilt(item, random) for item in value]
        case _:
            return value


@examples(150)
@given(case=st.sampled_from(CASES), random=st.randoms(use_true_random=False))
def test_spoilt_stream_is_an_error_or_a_message_that_can_be_sent_back(
    case: Path, random: Random
) -> None:
    dialect, model = DIALECTS[case.parent.name]
    events = [*EventStream().feed((case / "stream.sse").read_bytes())]
    decoder = dialect.open_exchange(model, None).decoder
    try:
        for event in events:
            bad = spoilt(event, random)
            for _ in range(random.choice([0, 1, 1, 1, 1, 2])):
                decoder.feed(bad if isinstance(bad, dict) else {})
        message = decoder.message()
    except ProviderError:
        return
    body = dialect.encode(request([PROMPT, *answered(message)], model), model)
    for value in (body, asdict(message)):
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        assert text.encode("utf-8", "replace").decode() == text
