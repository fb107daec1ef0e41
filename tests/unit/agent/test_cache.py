from dataclasses import replace
from itertools import count

import pytest

from agentcli.agent.prompt_cache import CacheWatch
from agentcli.types.messages import Text, Usage, UserMessage
from agentcli.types.provider import Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec

FIRST = UserMessage(content=(Text(text="one"),))
REQUEST = Request(model="m", system="s", messages=(FIRST,))
WROTE = Usage(input_tokens=10, cache_write_tokens=5000)
READ = Usage(input_tokens=10, cache_read_tokens=5000)
MISSED = Usage(input_tokens=5010)


def longer(request: Request) -> Request:
    return replace(request, messages=(*request.messages, UserMessage(content=(Text(text="two"),))))


def watched(*steps: tuple[Request, Usage], apart_s: float = 420.0) -> list[str | None]:
    watch = CacheWatch(count(step=apart_s).__next__)
    return [watch.detect_miss(request, usage) for request, usage in steps]


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
        (replace(REQUEST, tool_choice="none"), "the choice of tools changed"),
        (
            REQUEST,
            "nothing changed, so it expired 7 minutes after the last request",
        ),
    ],
)
def test_missed_cache_names_the_first_part_that_changed(changed: Request, named: str) -> None:
    assert watched((REQUEST, WROTE), (longer(changed), MISSED))[1] == (
        f"5010 prompt tokens were not read from the cache: {named}"
    )


def test_cache_that_was_read_in_part_names_what_changed_behind_it() -> None:
    def answered(text: str) -> Request:
        result = ToolResult(call_id="c", name="t", status="ok", content=(Text(text=text),))
        return replace(REQUEST, messages=(FIRST, ToolMessage(results=(result,))))

    half = Usage(input_tokens=3010, cache_read_tokens=2000)
    assert watched((answered("long"), WROTE), (longer(answered("short")), half))[1] == (
        "3010 of 5010 prompt tokens were not read from the cache: "
        "old results were left out to make room"
    )
    summary = replace(REQUEST, messages=(UserMessage(content=(Text(text="summary"),)),))
    assert watched((longer(REQUEST), WROTE), (summary, MISSED))[1] == (
        "5010 prompt tokens were not read from the cache: the conversation was compacted"
    )


def test_cache_that_was_not_kept_though_there_was_no_wait_is_its_providers_affair() -> None:
    assert watched((REQUEST, WROTE), (longer(REQUEST), MISSED), apart_s=1.0)[1] == (
        "5010 prompt tokens were not read from the cache: "
        "nothing changed, so the provider dropped it"
    )


def test_cache_is_cold_at_first_after_a_change_and_after_a_wait() -> None:
    watch = CacheWatch(iter([0.0, 10.0, 700.0]).__next__)
    assert watch.explain_cold_cache(REQUEST) == "it is the first request"
    watch.detect_miss(REQUEST, WROTE)
    assert watch.explain_cold_cache(replace(REQUEST, model="n")) == "the model changed"
    assert watch.explain_cold_cache(longer(REQUEST)) == ""
    assert watch.explain_cold_cache(longer(REQUEST)) == "12 minutes have passed"


def test_conversation_after_a_rewind_is_still_cached() -> None:
    watch = CacheWatch(lambda: 0.0)
    watch.detect_miss(longer(REQUEST), WROTE)
    assert watch.explain_cold_cache(REQUEST) == ""
