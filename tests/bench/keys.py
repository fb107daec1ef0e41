"""From a key to the screen while a reply streams, beside a program that only echoes."""

import os
import pty
import statistics
import subprocess
import time
import tty
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.figures import Figure
from tests.bench.process import INTERPRETER
from tests.bench.terminal import QuickTerm, opened
from tests.support.provider import Provider
from tests.support.repl import KEY, paced

KEYS = 120
PER_LINE = 30
PAUSE_S = 0.04
"""A fast typist."""
FIRST_LETTER = 0x100
"""Letters that neither the reply nor the terminal's own sequences have."""
MEDIAN_MS, SLOW_MS = 8, 16
BARE = "a bare echo"
ECHO = """
import os
while data := os.read(0, 1024):
    os.write(1, data)
"""
TEXT = "word " * 30_000


def figures() -> Iterator[Figure]:
    floor_ms = _measure_echo()
    with (
        TemporaryDirectory() as home,
        Provider([paced(TEXT, tokens_per_s=40)]) as model,
        opened(
            QuickTerm,
            Path(home),
            {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.base_url},
        ) as term,
    ):
        term.ready()
        term.send("go")
        term.wait("Writing")
        taken_ms = _measure(term)
    for what, pick, at_most in (
        ("median", statistics.median, MEDIAN_MS),
        ("95th percentile", _get_slow, SLOW_MS),
    ):
        floor = pick(floor_ms)
        yield Figure(what=f"key, {BARE}, {what}", value=floor)
        over = pick(taken_ms) - floor
        yield Figure(what=f"key to screen, {what}, over {BARE}", value=over, at_most=at_most)


def _measure(term: QuickTerm) -> list[float]:
    taken_ms = []
    for number in range(KEYS):
        if number and number % PER_LINE == 0:
            term.key("c-u")
        letter = chr(FIRST_LETTER + number)
        began = time.perf_counter()
        term.type(letter)
        term.shown_after(partial(term.wrote, letter), "the key")
        taken_ms.append((time.perf_counter() - began) * 1000)
        time.sleep(PAUSE_S)
    return taken_ms


def _measure_echo() -> list[float]:
    ours, theirs = pty.openpty()
    tty.setraw(theirs)
    taken_ms = []
    with subprocess.Popen([*INTERPRETER, "-c", ECHO], stdin=theirs, stdout=theirs) as echo:
        os.write(ours, b"x")
        os.read(ours, 1024)  # it has started
        for _ in range(KEYS):
            began = time.perf_counter()
            os.write(ours, b"x")
            os.read(ours, 1024)
            taken_ms.append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE_S)
        echo.kill()
    os.close(ours)
    os.close(theirs)
    return taken_ms


def _get_slow(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]
