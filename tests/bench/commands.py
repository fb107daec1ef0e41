"""Commands that need nothing but themselves, beside an interpreter that does nothing.

The start script that a pip before 25.2 writes imports `re` before anything of ours, so the bounds
are those of a script as newer ones and uv write it. The installed one is measured beside it.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Figure, in_turns
from tests.bench.process import INTERPRETER, timed
from tests.support.program import PROGRAM, environment

RUNS = 25
COMMANDS = ("--version", "--help", "run --help")
SCRIPT = f"""#!{sys.executable}
import sys
from agentcli.__main__ import main
if __name__ == "__main__":
    sys.exit(main())
"""


def figures() -> Iterator[Figure]:
    with TemporaryDirectory() as scratch:
        home = Path(scratch)
        script = home / "agentcli"
        script.write_text(SCRIPT)
        script.chmod(0o755)

        def took_ms(*argv: str | Path) -> float:
            return timed(argv, env=environment(home), cwd=home).wall_ms

        taken = in_turns(
            {
                "interpreter": partial(took_ms, *INTERPRETER, "-c", "pass"),
                **{name: partial(took_ms, script, *name.split()) for name in COMMANDS},
                "installed": partial(took_ms, PROGRAM, COMMANDS[0]),
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
    yield Figure(
        what=f"agentcli {COMMANDS[0]}, by the installed script",
        value=taken["installed"],
        floor=taken["interpreter"],
        floor_is="bare interpreter",
    )
