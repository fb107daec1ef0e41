from agentcli.providers.dialect import Model, Price
from agentcli.providers.length import IMAGE_TOKENS
from agentcli.providers.swap import SwapForecast, forecast_swap, list_dropped
from agentcli.types.messages import (
    AssistantMessage,
    Echo,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
)
from agentcli.types.provider import Message
from agentcli.types.tools import ToolMessage, ToolResult

OPUS = Model(provider="anthropic", name="claude-opus-5-5", protocol="anthropic")
SMALL = Model(
    provider="ollama",
    name="qwen",
    protocol="openai-chat",
    images=False,
    window_tokens=32_000,
    price=Price(input=1.0, output=2.0),
)
OWN = Echo(protocol="anthropic", model="claude-opus-5-5", data={})
REPLY = AssistantMessage(
    content=(Thinking(text="a", echo=OWN), Thinking(text="b", echo=OWN), Opaque(echo=OWN)),
    stop="end",
    protocol="anthropic",
    model="claude-opus-5-5",
    usage=Usage(input_tokens=10, cache_read_tokens=90_000, output_tokens=990),
)
PICTURE = UserMessage(content=(Image(media_type="image/png", data="AAAA"),))


def test_model_that_made_a_conversation_loses_nothing() -> None:
    assert list_dropped([PICTURE, REPLY], OPUS) == ()


def test_other_model_is_told_what_it_would_lose() -> None:
    assert forecast_swap([PICTURE, REPLY], SMALL) == SwapForecast(
        model=SMALL,
        dropped=(
            "2 thinking blocks of another model, which qwen cannot read.",
            "1 block that only another provider can read, such as its searches.",
            "1 image that qwen cannot see; a note replaces each.",
        ),
        prompt_tokens=91_000,
        fits=False,
        cost_usd=0.091,
    )


def test_what_nobody_counted_is_estimated() -> None:
    call = ToolCall(id="a", name="bash", input={"command": "ls"})
    result = ToolResult(call_id="a", name="bash", status="ok", content=(Text(text="a b c"),))
    uncounted: list[Message] = [
        UserMessage(content=(Text(text="List it"), *PICTURE.content)),
        AssistantMessage(content=(call,), stop="tool_calls", protocol="", model=""),
        ToolMessage(results=(result,)),
    ]
    found = forecast_swap(uncounted, SMALL)
    assert IMAGE_TOKENS < found.prompt_tokens < IMAGE_TOKENS + 50
    assert found.fits is True
    after = forecast_swap([REPLY, *uncounted], SMALL)
    assert after.prompt_tokens == 91_000 + found.prompt_tokens


def test_model_nobody_knows_may_fit() -> None:
    found = forecast_swap([REPLY], OPUS)
    assert (found.fits, found.cost_usd) == (None, None)
