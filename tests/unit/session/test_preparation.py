import asyncio
import sys
import threading

from agentcli.session.preparation import Preparation, Step, switch_often
from agentcli.types.deltas import RequestSent
from agentcli.types.errors import Ending
from agentcli.types.events import Event, TurnEnded

ENDED = TurnEnded(ending=Ending.DONE)


class Desk:
    """Steps that note when they ran, and a way to wait for the last of them."""

    def __init__(self, *, after_s: float = 0.0) -> None:
        self.ran: list[str] = []
        self.threads: set[int] = set()
        self.is_done = threading.Event()
        self.preparation = Preparation(
            [self._note("first"), self._fail, self._note("last"), self.is_done.set],
            after_s=after_s,
        )

    def _note(self, name: str) -> Step:
        def step() -> None:
            self.ran.append(name)
            self.threads.add(threading.get_ident())

        return step

    def _fail(self) -> None:
        raise ValueError("as the call will fail, too")

    async def see(self, *events: Event) -> None:
        for event in events:
            self.preparation(event)


def test_steps_run_once_in_order_beside_the_loop_whatever_fails() -> None:
    desk = Desk()

    async def work() -> None:
        await desk.see(RequestSent())
        assert await asyncio.to_thread(desk.is_done.wait, 10)
        await desk.see(ENDED, RequestSent())
        await asyncio.sleep(0)

    asyncio.run(work())
    desk.preparation.close()
    assert desk.ran == ["first", "last"]
    assert threading.get_ident() not in desk.threads


def test_reply_that_comes_at_once_finds_nothing_started() -> None:
    desk = Desk(after_s=0.0)

    async def work() -> None:
        await desk.see(RequestSent(), ENDED)
        for _ in range(5):
            await asyncio.sleep(0)  # a timer that is due runs in the next round

    asyncio.run(work())
    desk.preparation.close()
    assert desk.ran == []


def test_closing_stops_before_the_next_step() -> None:
    begun, may_end = threading.Event(), threading.Event()
    ran: list[str] = []

    def wait() -> None:
        begun.set()
        may_end.wait(10)
        ran.append("the present step")

    preparation = Preparation([wait, lambda: ran.append("the next step")], after_s=0.0)

    async def work() -> None:
        preparation(RequestSent())
        assert await asyncio.to_thread(begun.wait, 10)
        closing = asyncio.create_task(asyncio.to_thread(preparation.close))
        assert await asyncio.to_thread(preparation.closing.wait, 10)
        may_end.set()
        await closing

    asyncio.run(work())
    assert ran == ["the present step"]


def test_threads_switch_often_until_the_outermost_is_done() -> None:
    usual_s = sys.getswitchinterval()
    with switch_often():
        often_s = sys.getswitchinterval()
        with switch_often():
            assert sys.getswitchinterval() == often_s
        assert sys.getswitchinterval() == often_s
    assert often_s < usual_s
    assert sys.getswitchinterval() == usual_s
