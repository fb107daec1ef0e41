"""What the bash tool costs: a call beside a bare `subprocess`, and a command that prints much."""

import asyncio
import hashlib
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from agentcli.permissions.secrets import Redactor
from agentcli.system.process_table import ProcessTable
from agentcli.tools.bash import Bash, BashArgs
from agentcli.types.tools import Command, ToolContext
from tests.bench.figures import Figure, in_turns, wall_ms
from tests.bench.first_call import measure_gap_ms
from tests.support.bash import shells_in

CALLS = 200
MUCH_BYTES = 5_000_000
FLOOD_BYTES = 1_000_000_000
FLOODS = 3
PIECE_BYTES = 65_536


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name, asyncio.Runner() as runner:
        home = Path(name)
        context = ToolContext(call_id="bench", workspace=home, progress=lambda text: None)
        ledger = ProcessTable()
        tool = _tool(home, ledger)

        def run(command: str) -> None:
            output = runner.run(tool.run(BashArgs(command=command), context))
            assert isinstance(output.details, Command) and output.details.exit_code == 0

        def bare(command: str) -> None:
            argv = ["bash", "-c", command]
            subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)

        much = f"yes | head -c {MUCH_BYTES}"
        for what, command, runs in (
            ("bash call, echo", "echo x", CALLS),
            (f"bash call, {MUCH_BYTES // 1_000_000} MB of output", much, 10),
        ):
            taken = in_turns(
                {
                    "bare": partial(wall_ms, partial(bare, command)),
                    "tool": partial(wall_ms, partial(run, command)),
                },
                runs=runs,
            )
            yield Figure(
                what=what, value=taken["tool"], floor=taken["bare"], floor_is="bare subprocess"
            )
            if command == much:
                over_ms = taken["tool"] - taken["bare"]
                yield Figure(what=f"{what}, over bare subprocess", value=over_ms, at_most=40)
        gap_ms = measure_gap_ms(("bash", {"command": much}), thought_s=1.0)
        yield Figure(
            what="5 MB of output, from the reply to the next request", value=gap_ms, at_most=100
        )
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        flood = f"yes | head -c {FLOOD_BYTES}"
        taken = in_turns(
            {
                "bare": partial(wall_ms, partial(_read_bare, flood)),
                "tool": partial(wall_ms, partial(run, flood)),
            },
            runs=FLOODS,
        )
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
        yield Figure(
            what="bash call, 1 GB of output",
            value=taken["tool"] / 1000,
            unit="s",
            floor=taken["bare"] / 1000,
            floor_is="bare subprocess",
            at_most=2,
        )
        yield Figure(what="1 GB of output, memory", value=grown_kb / 1000, unit="MB", at_most=20)
        runner.run(ledger.close())


def _read_bare(command: str) -> None:
    """Read all output, and keep none of it."""
    with subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        while child.stdout.read(PIECE_BYTES):
            pass


def _tool(home: Path, ledger: ProcessTable) -> Bash:
    # A value of one and the same character would be no secret.
    secrets = {f"TOKEN_{n}": hashlib.sha256(b"%d" % n).hexdigest()[:40] for n in range(4)}
    return Bash(
        workspace=home,
        shells=shells_in(home / "out", ledger),
        processes=ledger,
        clean=Redactor(environ=secrets).open_bytes_stream,
    )
