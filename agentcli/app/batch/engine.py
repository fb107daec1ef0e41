"""What runs the workers of a batch: processes of this machine, or whatever else implements it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentcli.machine.process import run_to_completion

LINE_LIMIT_BYTES = 64 * 1024 * 1024
PATIENCE_S = 30.0
"""For a worker to close its session, once it was told to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJob:
    argv: tuple[str, ...]
    stdin: bytes
    stdout_path: Path
    """Gets stdout."""
    stderr_path: Path
    """Gets stderr."""


class BatchEngine(Protocol):
    async def run(self, job: WorkerJob, on_line: Callable[[bytes], None]) -> int:
        """Tells every line of stdout; returns as Popen does. Cancelled, it stops the worker."""
        ...

    def close(self) -> None: ...


class LocalEngine:
    async def run(self, job: WorkerJob, on_line: Callable[[bytes], None]) -> int:
        with job.stderr_path.open("wb") as story, job.stdout_path.open("wb") as events:
            async with _start_worker(job, story.fileno()) as worker:
                assert worker.stdout is not None
                async for line in worker.stdout:
                    events.write(line)
                    on_line(line)
                return await worker.wait()

    def close(self) -> None:
        """There is nothing to let go of."""


@asynccontextmanager
async def _start_worker(job: WorkerJob, stderr: int) -> AsyncIterator[asyncio.subprocess.Process]:
    worker = await asyncio.create_subprocess_exec(
        *job.argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        limit=LINE_LIMIT_BYTES,
        start_new_session=True,  # Ctrl-C is for us: we tell the workers
    )
    try:
        assert worker.stdin is not None
        with suppress(ConnectionError):
            worker.stdin.write(job.stdin)
            await worker.stdin.drain()
        worker.stdin.close()
        yield worker
    finally:
        await run_to_completion(_stop_worker(worker))


async def _stop_worker(worker: asyncio.subprocess.Process) -> None:
    """One that still runs is told to stop, and killed where it does not."""
    if worker.returncode is not None:
        return
    with suppress(ProcessLookupError):
        worker.terminate()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await worker.wait()
    except TimeoutError:
        worker.kill()
        await worker.wait()
