from collections.abc import Sequence

from agentcli.providers.catalog import resolve
from agentcli.providers.dialect import Model, encode_part
from agentcli.types.messages import Text, UserMessage
from agentcli.types.provider import Message

OPUS = resolve("opus")
MESSAGES = [UserMessage(content=(Text(text=name),)) for name in "abc"]


def make(message: Message, before: Message | None, model: Model) -> Sequence[str]:
    assert isinstance(message, UserMessage)
    name = message.content[0].text if isinstance(message.content[0], Text) else ""
    return [f"{name}{number}" for number in range(1 if before is None else 2)]


def test_part_of_a_conversation_is_encoded_as_in_the_whole() -> None:
    whole = encode_part(make, MESSAGES, model=OPUS, start=0, end=None)
    assert whole == ["a0", "b0", "b1", "c0", "c1"]
    assert encode_part(make, MESSAGES, model=OPUS, start=0, end=2) == whole[:3]
    assert encode_part(make, MESSAGES, model=OPUS, start=2, end=9) == whole[3:]
    assert encode_part(make, MESSAGES, model=OPUS, start=3, end=None) == []
