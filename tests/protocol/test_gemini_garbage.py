import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.types.errors import ProviderError
from tests.support.examples import examples
from tests.support.gemini_fixtures import DIALECTS, answered, encoded, model, said

WORDS = {
    "gemini": [
        *("candidates", "content", "parts", "text", "thought", "thoughtSignature", "functionCall"),
        *("id", "name", "args", "finishReason", "finishMessage", "STOP", "MAX_TOKENS", "SAFETY"),
        *("CONTINUATION", "continuationToken", "promptFeedback", "blockReason", "usageMetadata"),
        *("promptTokenCount", "responseId", "error", "code", "message", "status", "details"),
        *("retryDelay", "violations"),
    ],
    "gemini-interactions": [
        *("event_type", "step.start", "step.delta", "step.stop", "index", "step", "delta", "type"),
        *("interaction.created", "interaction.completed", "interaction.status_update", "error"),
        *("interaction", "id", "status", "completed", "requires_action", "failed", "incomplete"),
        *("requires_continuation", "continuation_token", "usage", "steps", "errors", "text"),
        *("thought", "thought_summary", "thought_signature", "signature", "summary", "content"),
        *("function_call", "name", "arguments", "arguments_delta", "partial_arguments"),
        *("model_output", "image", "text_annotation_delta", "annotations", "code", "message"),
        *("user_input", "code_execution_call", "total_input_tokens"),
    ],
}


def values(words: Sequence[str]) -> st.SearchStrategy[Any]:
    plain = st.none() | st.booleans() | st.integers(-2, 600) | st.floats(allow_nan=False)
    leaves = plain | st.sampled_from(words) | st.text(max_size=3) | st.just("\ud800")
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(words), inner, max_size=5)
        ),
        max_leaves=25,
    )


@pytest.mark.parametrize("protocol", WORDS)
@given(data=st.data())
@examples(50)
def test_any_events_give_a_message_that_can_go_back_or_an_error(
    protocol: str, data: st.DataObject
) -> None:
    words = WORDS[protocol]
    event = st.dictionaries(st.sampled_from(words), values(words), max_size=5)
    asked = model(protocol)
    decoder = DIALECTS[protocol].open_exchange(asked, None).decoder
    with suppress(ProviderError):
        for it in data.draw(st.lists(event, max_size=6)):
            decoder.feed(it)
        message = decoder.message()
        assert message == decoder.message()
        body = encoded(asked, said("Go."), *answered(message))
        json.dumps(body, ensure_ascii=False).encode()


@pytest.mark.parametrize("protocol", WORDS)
@given(data=st.data())
@examples(50)
def test_any_body_of_an_error_is_a_sentence(protocol: str, data: st.DataObject) -> None:
    body = data.draw(values(WORDS[protocol]))
    error = DIALECTS[protocol].read_error(
        data.draw(st.sampled_from([400, 404, 429, 500])), {}, body=body
    )
    assert str(error).encode()
    assert "\n" not in str(error)
