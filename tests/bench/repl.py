"""The live session in figures: start to prompt, a long session, and idle. Run by hand.

python -m tests.bench.repl [TURNS]
"""

import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.support.repl import KEY, live, says
from tests.support.terminal import PyteTerm, until

STARTS = 12
TURNS = 300
ANSWER = (
    "An answer with `code`, a list\n\n- one\n- two\n\n```python\nx = 1\n```\n\nThe end of {}.\n"
)


def main(turns: int) -> None:
    with tempfile.TemporaryDirectory(prefix="agentcli-bench-") as scratch:
        _starts(Path(scratch))
        _long_session(Path(scratch), turns)


def _starts(scratch: Path) -> None:
    home, project = scratch / "start", scratch / "start" / "project"
    project.mkdir(parents=True)
    took_ms = [_start_ms(home, project) for _ in range(STARTS + 1)][1:]
    print(
        f"start to usable prompt, warm: median {statistics.median(took_ms):.0f} ms, "
        f"worst of {STARTS} {max(took_ms):.0f} ms"
    )


def _start_ms(home: Path, project: Path) -> float:
    """Until a typed letter stands behind the prompt."""
    began = time.monotonic()
    term = PyteTerm(["--model", "opus"], home=home, cwd=project, env={"ANTHROPIC_API_KEY": KEY})
    try:
        term.type("x")
        deadline = began + 10
        while not term.shows("> x") and time.monotonic() < deadline:
            time.sleep(0.002)
        return 1000 * (time.monotonic() - began)
    finally:
        term.close()


def _long_session(scratch: Path, turns: int) -> None:
    script = [says(ANSWER.format(number)) for number in range(turns)]
    with live(scratch, script, rows=40) as session:
        term = session.term
        term.ready()
        took_ms: list[float] = []
        sizes_mb: list[float] = []
        for number in range(turns):
            began = time.monotonic()
            term.send(f"turn {number}")
            until(partial(term.shows, f"The end of {number}."), "the answer", within_s=30)
            until(lambda: not term.shows("esc to interrupt"), "the turn has ended", within_s=30)
            took_ms.append(1000 * (time.monotonic() - began))
            sizes_mb.append(_resident_mb(term.pid))
        tenth = max(1, turns // 10)
        first, last = statistics.median(took_ms[:tenth]), statistics.median(took_ms[-tenth:])
        print(f"{turns} turns: a turn takes {first:.0f} ms at first and {last:.0f} ms at the end")
        log = next(session.home.glob(".local/state/agentcli/sessions/*/log.jsonl"))
        grown_kb = 1000 * (sizes_mb[-1] - sizes_mb[tenth])
        print(
            f"memory: {sizes_mb[tenth]:.0f} MB to {sizes_mb[-1]:.0f} MB, "
            f"{grown_kb / (turns - tenth):.1f} kB a turn; the log has "
            f"{log.stat().st_size / turns / 1000:.1f} kB a turn"
        )
        _idle(term)


def _idle(term: PyteTerm, seconds: float = 10.0) -> None:
    before, ticks = len(term.raw()), _cpu_ticks(term.pid)
    time.sleep(seconds)
    print(
        f"idle {seconds:.0f} s: {len(term.raw()) - before} bytes written, "
        f"{10 * (_cpu_ticks(term.pid) - ticks)} ms of CPU"
    )


def _resident_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1000
    return 0.0


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TURNS)
