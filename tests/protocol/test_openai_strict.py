import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from agentcli.providers.openai import chat as openai_chat
from agentcli.providers.openai import responses as openai_responses
from agentcli.types.provider import Message
from tests.support import strict_chat
from tests.support.openai_fixtures import CHAT, PROMPT, RESPONSES, answered, decoded, request
from tests.support.provider import Recorded
from tests.support.responses_streams import called, patched, said, thought
from tests.support.strict_chat import StrictChat
from tests.support.strict_responses import StrictResponses

Body = dict[str, Any]


def recorded(body: Body, path: str) -> Recorded:
    return Recorded(
        method="POST",
        path=path,
        headers={"authorization": "Bearer k"},
        body=json.dumps(body).encode(),
        connection=0,
    )


class Conversation:
    """One reply of a strict server, and the request that brings it back."""

    def complaint(self, change: Callable[[Body], Any]) -> str | None:
        body = deepcopy(self.body)
        change(body)
        return self.server.check(recorded(body, self.path))

    server: StrictResponses | StrictChat
    body: Body
    path: str


class OnResponses(Conversation):
    path = "/v1/responses"

    def __init__(self) -> None:
        self.server = StrictResponses()
        reply = self.server.reply(
            thought(0),
            said("Reading.", number=1, phase="commentary"),
            thought(2),
            called("read_file", '{"path":"a"}', number=3),
            patched("*** Begin Patch", number=4),
        )
        messages: list[Message] = [PROMPT]
        first = openai_responses.encode(request(messages, RESPONSES), RESPONSES)
        assert self.server.check(recorded(first, self.path)) is None
        messages += answered(decoded([reply.body], "openai-responses")[0])
        self.body = openai_responses.encode(request(messages, RESPONSES), RESPONSES)


class OnChat(Conversation):
    path = "/v1/chat/completions"

    def __init__(self) -> None:
        self.server = StrictChat()
        message = strict_chat.called(
            ("call_a", "read_file", '{"path":"a"}'),
            ("call_b", "read_file", '{"path":"b"}'),
            reasoning_content="Both.",
        )
        reply = self.server.reply(message)
        messages: list[Message] = [PROMPT]
        first = openai_chat.encode(request(messages, CHAT), CHAT)
        assert self.server.check(recorded(first, self.path)) is None
        messages += answered(decoded([reply.body], "openai-chat")[0])
        self.body = openai_chat.encode(request(messages, CHAT), CHAT)


@pytest.mark.parametrize("conversation", [OnResponses, OnChat])
def test_what_we_send_is_accepted(conversation: Callable[[], Conversation]) -> None:
    assert conversation().complaint(lambda body: None) is None


# Items: 0 prompt, 1 thought, 2 message, 3 thought, 4 call, 5 patch, 6 and 7 their outputs.
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda b: b["input"].pop(6), "No tool output found for function call call_03."),
        (lambda b: b["input"].pop(), "No tool output found for function call call_04."),
        (
            lambda b: b["input"].insert(6, b["input"][0]),
            "No tool output found for function call call_03.",
        ),
        (
            lambda b: b["input"].append(b["input"][6]),
            "Duplicate tool output found for function call call_03.",
        ),
        (
            lambda b: b["input"][6].update(call_id="call_99"),
            "No tool call found for function call output with call_id call_99.",
        ),
        (
            lambda b: b["input"][7].update(type="function_call_output"),
            "No tool call found for function call output with call_id call_04.",
        ),
        (
            lambda b: b["input"].insert(1, b["input"].pop(6)),
            "No tool call found for function call output with call_id call_03.",
        ),
        (
            lambda b: b["input"].pop(3),
            "Item 'fc_03' of type 'function_call' was provided without its required 'reasoning' "
            "item: 'rs_02'.",
        ),
        (
            lambda b: b["input"].pop(2),
            "Item 'rs_00' of type 'reasoning' was provided without its required following item.",
        ),
        (
            lambda b: b["input"][1].pop("encrypted_content"),
            "Item with id 'rs_00' not found. Items are not persisted when `store` is set to "
            "false. Try again with `store` set to true, or remove this item from your input.",
        ),
        (
            lambda b: b["input"][1].update(encrypted_content="gAAAA-other"),
            "Item 'rs_00' is not what it was when it was given.",
        ),
        (
            lambda b: b["input"][4].update(id="call_03"),
            "Invalid 'input[4].id': 'call_03'. Expected an ID that begins with 'fc'.",
        ),
        (
            lambda b: b["input"][4].update(parsed_arguments={}),
            "Unknown parameter: 'input[4].parsed_arguments'.",
        ),
        (
            lambda b: b["input"][2].pop("phase"),
            "Item 'msg_01' is not what it was when it was given.",
        ),
        (lambda b: b.update(temperature=1), "Unsupported parameter: 'temperature' is not"),
        (lambda b: b.update(seed=1), "Unknown parameter: 'seed'."),
        (lambda b: b.update(max_output_tokens=5), "Invalid 'max_output_tokens': integer below"),
        (lambda b: b.update(tools=[]), "Invalid 'tools': empty array."),
        (lambda b: b.pop("tools"), "'tool_choice' is only allowed when 'tools' are specified."),
        (
            lambda b: b["tools"][0]["parameters"].update(required=["path"]),
            "Invalid schema for function 'read_file': 'required' is required to be supplied",
        ),
        (
            lambda b: b["tools"][0]["parameters"].pop("additionalProperties"),
            "Invalid schema for function 'read_file': 'additionalProperties' is required",
        ),
        (lambda b: b["input"][0].update(content=[]), "Invalid 'input[0].content': empty array."),
        (lambda b: b.update(instructions="Other."), "'instructions' changed in the middle"),
        (
            lambda b: b["input"][0]["content"][0].update(text="Other."),
            "An earlier part of 'input' changed.",
        ),
        (
            lambda b: b.update(previous_response_id="resp_77"),
            "Previous response with id 'resp_77' not found.",
        ),
    ],
)
def test_responses_violation_is_answered_with_its_text(
    change: Callable[[Body], Any], complaint: str
) -> None:
    told = OnResponses().complaint(change)
    assert told is not None
    assert told.startswith(complaint)


# Messages: 0 system, 1 prompt, 2 reply with two calls, 3 and 4 their results.
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (
            lambda b: b["messages"].pop(),
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            "call_b",
        ),
        (
            lambda b: b["messages"].insert(3, b["messages"][1]),
            "An assistant message with 'tool_calls' must be followed by tool messages",
        ),
        (
            lambda b: b["messages"].insert(1, b["messages"].pop()),
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding",
        ),
        (
            lambda b: b["messages"].append(b["messages"][3]),
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding",
        ),
        (
            lambda b: b["messages"][2].update(tool_calls=[]),
            "Invalid 'messages[2].tool_calls': empty array.",
        ),
        (
            lambda b: b["messages"][1].update(content=None),
            "Invalid value for 'messages[1].content': expected a string, got null.",
        ),
        (
            lambda b: b["messages"][2]["tool_calls"][0]["function"].update(arguments='{"path'),
            "Failed to parse tool call arguments as JSON",
        ),
        (
            lambda b: b["messages"][2].pop("reasoning_content"),
            "Missing `reasoning_content` field in the assistant message",
        ),
        (
            lambda b: b["messages"][2]["tool_calls"][0]["function"].update(arguments="{}"),
            "The reply was ",
        ),
        (
            lambda b: b["messages"][3].update(
                content=[{"type": "image_url", "image_url": {"url": "data:"}}]
            ),
            "Invalid 'messages[3]'. Image URLs are only allowed for messages with role 'user'.",
        ),
        (lambda b: b["messages"][3].update(name="x"), "Unknown parameter: 'messages[3].name'."),
        (lambda b: b.update(tools=[]), "Invalid 'tools': empty array."),
        (lambda b: b.update(tool_choice="auto") or b.pop("tools"), "'tool_choice' is only"),
        (lambda b: b.update(prompt_cache_key="x"), "Unknown parameter: 'prompt_cache_key'."),
        (lambda b: b.update(max_completion_tokens=9), "Setting 'max_tokens' and"),
        (
            lambda b: b.update(model="gpt-6-luna"),
            "Function tools with reasoning_effort are not supported",
        ),
        (lambda b: b["messages"][0].update(content="Other."), "An earlier part of 'messages'"),
        (lambda b: b.update(max_tokens=1), "'max_tokens' changed in the middle"),
    ],
)
def test_chat_violation_is_answered_with_its_text(
    change: Callable[[Body], Any], complaint: str
) -> None:
    told = OnChat().complaint(change)
    assert told is not None
    assert told.startswith(complaint)
