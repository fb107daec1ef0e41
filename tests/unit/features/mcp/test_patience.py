import asyncio

import pytest

from agentcli.features.mcp.host import PausableTimeout


def test_limit_ends_what_takes_too_long() -> None:
    async def scenario() -> None:
        async with PausableTimeout().limit(0.01):
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())


def test_limit_stands_still_while_it_is_paused() -> None:
    async def scenario() -> str:
        patience = PausableTimeout()
        async with patience.limit(0.2):
            with patience.pause(), patience.pause():
                await asyncio.sleep(0.4)
            return "not ended"

    assert asyncio.run(scenario()) == "not ended"


def test_limit_that_begins_in_a_pause_runs_after_it() -> None:
    async def scenario() -> None:
        patience = PausableTimeout()
        with patience.pause():
            waiting = asyncio.ensure_future(limited(patience))
            await asyncio.sleep(0.1)
            assert not waiting.done()
        await waiting

    async def limited(patience: PausableTimeout) -> None:
        async with patience.limit(0.01):
            await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())
