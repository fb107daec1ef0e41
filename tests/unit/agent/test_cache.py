from dataclasses import replace

import pytest

from agentcli.agent.cache import CacheWatch
from agentcli.types.messages import Text, Usage, UserMessage
from agentcli.types.tools import ToolSpec
from agentcli.types.wire import Request

FIRST = UserMessage(content=(Text(text="one"),))
REQUEST = Request(model="m", system="s", messages=(FIRST,))
WROTE = Usage(input_tokens=10, cache_write_tokens=5000)
READ = Usage(input_tokens=10, cache_read_tokens=5000)
MISSED = Usage(input_tokens=5010)


def longer(request: Request) -> Request:
    return replace(request, messages=(*request.messages, UserMessage(content=(Text(text="two"),))))


def watched(*steps: tuple[Request, Usage]) -> list[str | None]:
    watch = CacheWatch()
    return [watch.miss(request, usage) for request, usage in steps]


def test_cache_that_was_read_is_no_news() -> None:
    assert watched((REQUEST, WROTE), (longer(REQUEST), READ)) == [None, None]


def test_provider_without_a_cache_is_never_said_to_miss_it() -> None:
    assert watched((REQUEST, MISSED), (longer(REQUEST), MISSED)) == [None, None]


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (replace(REQUEST, system="other"), "the system prompt changed"),
        (replace(REQUEST, model="n"), "the model changed"),
        (
            replace(REQUEST, tools=(ToolSpec(name="t", description="", schema={}),)),
            "the tools changed",
        ),
        (
            replace(REQUEST, messages=(UserMessage(content=(Text(text="1"),)),)),
            "message 1 changed",
        ),
        (REQUEST, "nothing in it changed, so it had expired"),
    ],
)
def test_missed_cache_names_the_first_part_that_changed(changed: Request, named: str) -> None:
    assert watched((REQUEST, WROTE), (longer(changed), MISSED))[1] == (
        f"5010 tokens of prompt were not read from the cache: {named}"
    )
