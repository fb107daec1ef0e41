"""What the bash tool costs: `python -m tests.bench.bash`.

Time of one call beside a bare subprocess that runs the same command, and the growth of memory while
a command prints a gigabyte.
"""

import asyncio
import os
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from agentcli.guard.secrets import Redactor
from agentcli.machine.ledger import Ledger
from agentcli.tools.bash import Args, Bash
from agentcli.types.tools import Command, ToolContext
from agentcli.types.verdicts import Confinement

CALLS = 300
GIGABYTE = 1_000_000_000


def bare_ms() -> float:
    began = time.perf_counter()
    subprocess.run(["bash", "-c", "echo x"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return (time.perf_counter() - began) * 1000


async def call_ms(tool: Bash, context: ToolContext) -> float:
    began = time.perf_counter()
    await tool.run(Args(command="echo x"), context)
    return (time.perf_counter() - began) * 1000


async def overhead(tool: Bash, context: ToolContext) -> None:
    bare, called = [], []
    for _ in range(CALLS):  # in turns, so that both see the same weather
        bare.append(bare_ms())
        called.append(await call_ms(tool, context))
    for name, times in (("bare subprocess", bare), ("bash tool", called)):
        ninth = statistics.quantiles(times, n=10)[8]
        print(f"{name:<16} median {statistics.median(times):5.2f} ms   p90 {ninth:5.2f} ms")
    print(f"{'overhead':<16} median {statistics.median(called) - statistics.median(bare):5.2f} ms")


async def memory(tool: Bash, context: ToolContext) -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    output = await tool.run(Args(command=f"yes | head -c {GIGABYTE}"), context)
    took_s = time.perf_counter() - began
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert isinstance(output.details, Command)
    assert output.details.output_bytes == GIGABYTE
    print(f"1 GB of output   {took_s:5.2f} s   peak memory +{grown_kb / 1024:.1f} MB")


async def measure(home: Path) -> None:
    ledger = Ledger()
    tool = Bash(
        workspace=home,
        out_dir=home / "out",
        sandbox=None,
        confinement=lambda call_id: Confinement(),
        environ=os.environ,
        ledger=ledger,
        clean=Redactor(environ={f"TOKEN_{n}": f"{n}" * 40 for n in range(4)}).bytes_stream,
    )
    context = ToolContext(call_id="bench", workspace=home, progress=lambda text: None)
    await overhead(tool, context)
    await memory(tool, context)
    await ledger.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(measure(Path(name)))
