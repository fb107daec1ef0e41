"""Commands that need nothing but themselves, beside an interpreter that does nothing."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Figure, in_turns
from tests.bench.process import INTERPRETER, timed
from tests.support.program import PROGRAM, environment

RUNS = 25
COMMANDS = ("--version", "--help", "run --help")


def figures() -> Iterator[Figure]:
    with TemporaryDirectory() as scratch:
        home = Path(scratch)

        def took_ms(*argv: str | Path) -> float:
            return timed(argv, env=environment(home), cwd=home).wall_ms

        taken = in_turns(
            {
                "interpreter": partial(took_ms, *INTERPRETER, "-c", "pass"),
                **{name: partial(took_ms, PROGRAM, *name.split()) for name in COMMANDS},
            },
            runs=RUNS,
        )
    for name in COMMANDS:
        yield Figure(
            what=f"agentcli {name}",
            value=taken[name],
            floor=taken["interpreter"],
            floor_is="bare interpreter",
            at_most=1.5,
        )
