"""A reply of 100 000 tokens, as fast as it can be read: in one shot, and in a live session."""

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Figure
from tests.bench.model import Model
from tests.bench.process import weighed
from tests.bench.terminal import QuickTerm, cpu_s, opened
from tests.support import anthropic_streams as anthropic
from tests.support.program import PROGRAM, environment
from tests.support.scenes import ANSWER
from tests.support.terminal import until

TOKENS, TOKEN_CHARS = 100_000, 4
LAST_WORDS = "Those were the last words."


def figures() -> Iterator[Figure]:
    short, long = _reply("Hi."), _reply(_text())
    few, many = _one_shot_cpu_s(short), _one_shot_cpu_s(long)
    yield Figure(what=f"{TOKENS} tokens in one shot, CPU", value=many - few, unit="s", at_most=1)
    spent_s, took_s = _live_s(long)
    yield Figure(
        what=f"{TOKENS} tokens in the live session, CPU", value=spent_s, unit="s", at_most=3
    )
    yield Figure(what=f"{TOKENS} tokens in the live session, shown", value=took_s, unit="s")


def _text() -> str:
    size = TOKENS * TOKEN_CHARS
    return (ANSWER * (size // len(ANSWER) + 1))[:size] + f"\n\n{LAST_WORDS}\n"


def _reply(text: str) -> bytes:
    pieces = [text[at : at + TOKEN_CHARS] for at in range(0, len(text), TOKEN_CHARS)]
    return anthropic.says(*pieces).body


def _one_shot_cpu_s(reply: bytes) -> float:
    with TemporaryDirectory() as home, Model(lambda step: reply) as model:
        env = environment(Path(home), **model.environment)
        return weighed([PROGRAM, "run", "--model", "opus", "Go."], env=env, cwd=Path(home)).cpu_s


def _live_s(reply: bytes) -> tuple[float, float]:
    with (
        TemporaryDirectory() as home,
        Model(lambda step: reply) as model,
        opened(QuickTerm, Path(home), model.environment) as term,
    ):
        term.ready()
        before_s, began = cpu_s(term.pid), time.perf_counter()
        term.send("go")
        until(lambda: term.wrote(LAST_WORDS), "the end of the reply", within_s=120)
        took_s = time.perf_counter() - began
        until(lambda: not term.shows("esc to interrupt"), "the turn has ended", within_s=30)
        return cpu_s(term.pid) - before_s, took_s
