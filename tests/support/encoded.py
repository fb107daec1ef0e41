"""A request with one word in it, as each dialect encodes it: for its path, headers and decoder."""

from agentcli.providers.dialect import Dialect, EncodedRequest, Model
from agentcli.types.messages import Text, UserMessage
from agentcli.types.provider import Request


def encode_word(dialect: Dialect, model: Model, key: str | None = None) -> EncodedRequest:
    message = UserMessage(content=(Text(text="hi"),))
    return dialect.build_request(
        Request(model=model.name, system="", messages=(message,)), model, key
    )
