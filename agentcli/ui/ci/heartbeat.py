"""A sign of life now and then: a CI that hears nothing for long takes a job for dead."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

EVERY_S = 30.0


@asynccontextmanager
async def run_heartbeat(
    report_alive: Callable[[float], None] | None, *, every_s: float = EVERY_S
) -> AsyncIterator[None]:
    """Calls `beat` every so often while the body runs; None: not at all."""
    if report_alive is None:
        yield
        return
    task = asyncio.ensure_future(_report_regularly(report_alive, every_s))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _report_regularly(report_alive: Callable[[float], None], every_s: float) -> None:
    while True:
        await asyncio.sleep(every_s / 2)
        report_alive(every_s)
