import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentcli.features.fork.engine import ForkChanges, fork_session
from agentcli.log.paths import SessionPaths
from agentcli.providers.catalog import resolve
from agentcli.session.builder import open_session
from agentcli.types.errors import Ending
from agentcli.types.settings import Settings
from agentcli.types.spending import Spending, select_own_facts, sum_spending
from tests.support import anthropic_streams as anthropic
from tests.support.examples import examples
from tests.support.outcomes import using
from tests.support.provider import Provider, Reply, sse, stream

UNIT_TOKENS = 50_000
"""Far more than what is estimated of a prompt, which a new process estimates otherwise."""
TURNS = 6
UNITS = st.lists(st.integers(1, 3), min_size=TURNS, max_size=TURNS)
PROCESSES = st.sets(st.integers(1, TURNS - 1))
"""The turns that begin in another process."""
CAPS = st.integers(1, 8)


def replies(units: Sequence[int]) -> list[Reply]:
    prompt = {"input_tokens": 100, "output_tokens": 1}
    return [
        stream(
            sse(
                anthropic.events(
                    [anthropic.text("Done.")],
                    usage=prompt,
                    final_usage={"output_tokens": unit * UNIT_TOKENS},
                )
            )
        )
        for unit in units
    ]


def limit(name: str, units: int) -> dict[str, Any]:
    """A cap half a unit above so many units."""
    tokens = units * UNIT_TOKENS + UNIT_TOKENS // 2
    price = resolve("opus").price
    assert price is not None
    return {name: tokens if name == "max_tokens" else tokens * price.output / 1_000_000}


@contextmanager
def environment(home: Path, provider: Provider) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(using(provider), HOME=str(home))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


async def play(
    chosen: Settings, processes: set[int], place: SessionPaths | None = None
) -> tuple[list[Ending], Spending, SessionPaths]:
    """Ask turn by turn, in a session that is closed and resumed where a process begins."""
    session = open_session(chosen, listeners=(), resume=place)
    endings = []
    for turn in range(TURNS):
        if turn in processes:
            await session.close(0)
            session = open_session(chosen, listeners=(), resume=session.paths)
        endings.append((await session.run_turn(f"turn {turn}")).ending)
    spent = sum_spending(select_own_facts(session.facts))
    await session.close(0)
    return endings, spent, session.paths


@examples(12)
@given(UNITS, CAPS, PROCESSES, st.sampled_from(["max_cost", "max_tokens"]))
def test_any_split_over_processes_stops_where_one_process_does(
    units: list[int], cap: int, processes: set[int], name: str
) -> None:
    with TemporaryDirectory() as scratch:
        root = Path(scratch).resolve()
        chosen = Settings(
            workspace=root, model="opus", sessions=root / "sessions", **limit(name, cap)
        )
        played = []
        for split in (set(), processes):
            with Provider(replies(units)) as provider, environment(root, provider):
                endings, spent, _ = asyncio.run(play(chosen, split))
            played.append((endings, spent))
    assert played[0] == played[1]
    endings, _ = played[0]
    stops = sum(sum(units[:turn]) <= cap for turn in range(TURNS))
    assert endings[:stops] == [Ending.DONE] * stops
    reached = Ending.COST_LIMIT if name == "max_cost" else Ending.TOKEN_LIMIT
    assert set(endings[stops:]) <= {reached}


def test_fork_has_paid_for_nothing_that_it_took_over(tmp_path: Path) -> None:
    chosen = Settings(
        workspace=tmp_path, model="opus", sessions=tmp_path / "sessions", **limit("max_tokens", 2)
    )
    whole = [Ending.DONE] * 3 + [Ending.TOKEN_LIMIT] * (TURNS - 3)
    with Provider(replies([1] * TURNS)) as provider, environment(tmp_path, provider):
        first, _, place = asyncio.run(play(chosen, set()))
        forked = fork_session(place, ForkChanges(), sessions=chosen.sessions).paths
        again, spent, _ = asyncio.run(play(chosen, {1, 2, 3}, forked))
    assert first == again == whole
    assert spent.usage.output_tokens == 3 * UNIT_TOKENS
