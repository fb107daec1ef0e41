import asyncio

from agentcli.ui.oneshot.runner import run_heartbeat


def test_heart_beats_while_the_body_runs_and_no_longer() -> None:
    beats: list[float] = []

    async def body() -> None:
        enough = asyncio.Event()

        def beat(every_s: float) -> None:
            beats.append(every_s)
            if len(beats) == 3:
                enough.set()

        async with run_heartbeat(beat, every_s=0.01):
            await enough.wait()

    asyncio.run(body())
    assert beats == [0.01] * 3


def test_without_a_beat_nothing_runs() -> None:
    async def body() -> int:
        async with run_heartbeat(None):
            return len(asyncio.all_tasks())

    assert asyncio.run(body()) == 1
