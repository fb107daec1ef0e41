"""A session of 50 MB taken up again: its log is read, checked and folded into messages."""

import hashlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from agentcli.agent.journal import Journal
from agentcli.log.paths import SessionPaths
from agentcli.session.start import open_existing
from tests.bench import record
from tests.bench.figures import Figure, in_turns, wall_ms

LOG_BYTES = 50_000_000
RUNS = 5


def figures() -> Iterator[Figure]:
    with TemporaryDirectory() as scratch:
        paths = SessionPaths(id="bench", directory=Path(scratch))
        record.write(paths.log, size_bytes=LOG_BYTES)
        taken = in_turns(
            {
                "bare": partial(wall_ms, partial(_read_bare, paths.log)),
                "ours": partial(wall_ms, partial(_take_up, paths)),
            },
            runs=RUNS,
        )
    yield Figure(
        what="a log of 50 MB, reopened and folded",
        value=taken["ours"],
        floor=taken["bare"],
        floor_is="its hashes and json.loads",
    )
    yield Figure(what="the same, to its bound", value=taken["ours"], at_most=300)


def _take_up(paths: SessionPaths) -> None:
    start = open_existing(paths)
    try:
        journal = Journal(
            start.session,
            record=lambda entry: None,
            past_entries=start.entries,
            last_seq=start.last_seq,
        )
        journal.history.build_messages()
    finally:
        start.lock.release()


def _read_bare(log: Path) -> None:
    with log.open("rb") as lines:
        for line in lines:
            hashlib.sha256(line).digest()
            json.loads(line)
