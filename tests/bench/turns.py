"""From a model's last byte to its next request, in whole sessions of the installed program.

The model runs a command at every step, in the default sandbox, or reads a part of a file. Beside
each turn, while the model would think, the same command is run by a bare `subprocess`.
"""

import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.dialects import DIALECTS, Call, Stream, of_anthropic
from tests.bench.figures import Figure, wall_ms
from tests.bench.model import Model
from tests.bench.process import Spent, weighed
from tests.support.program import PROGRAM, environment, session_log

STEPS = 300
SHORT = 10
PLACES = (10, 100, 300)
AROUND = 20
LINES = 3000
COMMAND = "echo"
CLAUDE = "anthropic/claude-opus-5-5"
NO_SANDBOX = ("--sandbox", "off")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    turns_ms: Sequence[float]
    bare_ms: Sequence[float]
    spent: Spent
    transcript_bytes: int
    """Of the session's log."""

    def at(self, step: int) -> float:
        return _near(self.turns_ms, step)


def figures() -> Iterator[Figure]:
    yield from _of_commands()
    for name, stream in DIALECTS.items():
        read = session(name, stream, reads_on, steps=STEPS)
        yield Figure(what=f"turn {SHORT}, read_file, {name}", value=read.at(SHORT))
        yield _growth(f"read_file, {name}", read, at_most=1.5)  # of a request of a megabyte
        if name == CLAUDE:
            yield _memory(session(name, stream, reads_on, steps=SHORT), read)


def _of_commands() -> Iterator[Figure]:
    short = session(CLAUDE, of_anthropic, runs_a_command, steps=SHORT, options=NO_SANDBOX)
    yield Figure(
        what=f"turn {SHORT}, bash {COMMAND}, no sandbox",
        value=short.at(SHORT),
        floor=_near(short.bare_ms, SHORT),
        floor_is="bare subprocess",
        at_most=4,
    )
    long = session(CLAUDE, of_anthropic, runs_a_command, steps=STEPS)
    for step in PLACES:
        yield Figure(
            what=f"turn {step}, bash {COMMAND}",
            value=long.at(step),
            floor=_near(long.bare_ms, step),
            floor_is="bare subprocess",
            at_most=4,
        )
    yield _growth("bash", long, at_most=1.2)
    yield Figure(
        what="CPU of 100 such turns, commands included",
        value=long.spent.cpu_s / STEPS * 100,
        unit="s",
    )


def _memory(short: Session, long: Session) -> Figure:
    return Figure(
        what=f"memory that {STEPS} turns add",
        value=max(0.0, long.spent.peak_mb - short.spent.peak_mb),
        unit="MB",
        floor=long.transcript_bytes / 1e6,
        floor_is="their log",
        at_most=4,
    )


def _growth(what: str, session: Session, *, at_most: float) -> Figure:
    return Figure(
        what=f"turn {STEPS}, {what}",
        value=session.at(STEPS),
        floor=session.at(SHORT),
        floor_is=f"turn {SHORT}",
        at_most=at_most,
    )


def runs_a_command(step: int) -> Call:
    return "bash", {"command": f"{COMMAND} {step}"}  # the same one again would be stopped


def reads_on(step: int) -> Call:
    return "read_file", {"path": "long.py", "offset": step * 5 + 1, "limit": 40}


def session(
    name: str,
    stream: Stream,
    call_at: Callable[[int], Call],
    *,
    steps: int,
    options: Sequence[str] = (),
) -> Session:
    bare_ms: list[float] = []

    def reply(step: int) -> bytes:
        bare_ms.append(wall_ms(_bare))
        return stream(step, call_at(step) if step < steps else None)

    with TemporaryDirectory() as scratch, Model(reply) as model:
        home, project = Path(scratch), Path(scratch, "project")
        project.mkdir()  # as home is nobody's workspace, and guarded more than others
        text = "".join(f"value_{n} = compute({n})  # what it says of it\n" for n in range(LINES))
        (project / "long.py").write_text(text)
        limits = ["--mode", "auto", "--max-turns", str(steps + 5), "-q"]
        spent = weighed(
            [PROGRAM, "run", "--model", name, *limits, *options, "Go on."],
            env=environment(home, **model.environment),
            cwd=project,
        )
        transcript_bytes = session_log(home).stat().st_size
    pairs = zip(model.complete[1:], model.answered, strict=False)
    return Session(
        turns_ms=[(asked - answered) * 1000 for asked, answered in pairs],
        bare_ms=bare_ms,
        spent=spent,
        transcript_bytes=transcript_bytes,
    )


def _bare() -> None:
    subprocess.run(
        ["bash", "-c", COMMAND], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True
    )


def _near(values: Sequence[float], step: int) -> float:
    return statistics.median(values[max(0, step - AROUND) : step])
