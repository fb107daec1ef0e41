"""Agents beside the session: what ten of them at once take of memory and time."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Figure
from tests.bench.process import weighed
from tests.e2e.test_agents import Crew, change, delegates, priced, reply_as
from tests.support import anthropic_streams as anthropic
from tests.support.program import PROGRAM, environment
from tests.support.provider import Provider, Reply
from tests.support.repl import KEY, says

AGENTS = 10


def figures() -> Iterator[Figure]:
    alone_mb = _peak_mb(0)
    yield Figure(
        what=f"a run with {AGENTS} agents, peak memory",
        value=_peak_mb(AGENTS),
        unit="MB",
        floor=alone_mb,
        floor_is="the run alone",
        at_most=2.0,
    )


def _peak_mb(agents: int) -> float:
    waits = [priced(anthropic.text("Wait."))] if agents else []
    parent: list[Reply] = [delegates(*range(1, agents + 1)), *waits] if agents else []
    reply = reply_as(change, *parent, says("Done."))
    with TemporaryDirectory() as scratch, Provider([reply] * 200) as provider:
        home, workspace = Path(scratch, "home"), Path(scratch, "work")
        home.mkdir()
        workspace.mkdir()
        Crew(home, workspace)
        env = environment(home, ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=provider.base_url)
        options = ("--model", "opus", "--mode", "auto-edit", "--trust-project", "-q")
        return weighed([PROGRAM, "run", *options, "go"], env=env, cwd=workspace).peak_mb
