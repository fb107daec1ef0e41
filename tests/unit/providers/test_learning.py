import asyncio
from dataclasses import replace

from agentcli.providers.catalog import resolve
from agentcli.providers.connection import WORTH_ASKING_TOKENS, LearnedModel
from agentcli.providers.dialect import Model
from agentcli.types.messages import Usage

UNKNOWN = resolve("vllm/qwen")
TOLD = replace(UNKNOWN, window_tokens=700)
LONG = Usage(input_tokens=WORTH_ASKING_TOKENS)


def test_provider_is_asked_once_after_a_reply_to_a_long_prompt() -> None:
    times = 0

    async def ask() -> Model:
        nonlocal times
        times += 1
        return TOLD

    async def session() -> list[Model]:
        learning = LearnedModel(UNKNOWN, ask)
        known = []
        for usage in (Usage(input_tokens=10), LONG, LONG):
            learning.note(usage)
            await asyncio.sleep(0)
            known.append(learning.model)
        await learning.close()
        return known

    assert asyncio.run(session()) == [UNKNOWN, TOLD, TOLD]
    assert times == 1


def test_session_that_ends_does_not_wait_for_what_it_would_learn() -> None:
    async def ask() -> Model:
        await asyncio.Event().wait()
        return TOLD

    async def session() -> Model:
        learning = LearnedModel(UNKNOWN, ask)
        learning.note(LONG)
        await asyncio.sleep(0)
        await learning.close()
        return learning.model

    assert asyncio.run(asyncio.wait_for(session(), timeout=5)) == UNKNOWN


def test_nobody_is_asked_about_a_model_that_is_known() -> None:
    async def session() -> Model:
        learning = LearnedModel(TOLD)
        learning.note(LONG)
        await learning.close()
        return learning.model

    assert asyncio.run(session()) == TOLD
