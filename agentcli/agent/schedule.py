"""The order of one reply's calls: reads together, everything else alone."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import groupby
from typing import Any

from agentcli.types.messages import ToolCall


async def run_batch(
    calls: Sequence[ToolCall],
    *,
    is_read: Callable[[ToolCall], bool],
    run: Callable[[ToolCall], Coroutine[Any, Any, object]],
) -> None:
    """Runs every call. A call that does more than read never overlaps another one."""
    if len(calls) == 1:  # as nearly always: there is nothing to order, and no task to be made
        await run(calls[0])
        return
    for together, group in groupby(calls, key=is_read):
        if together:
            await _run_all(run(call) for call in group)
        else:
            for call in group:
                await run(call)


async def _run_all(coroutines: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Like gather, but whatever happens, nothing is still running when it returns."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
