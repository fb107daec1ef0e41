"""A session of 50 MB taken up again: its log is read, checked and folded into messages."""

import gc
import hashlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from agentcli import __version__
from agentcli.agent.journal import Journal
from agentcli.log.paths import SessionPaths
from agentcli.session.start import open_existing
from tests.bench import record
from tests.bench.figures import Figure, in_turns, wall_ms

LOG_BYTES = 50_000_000
RUNS = 5


def figures() -> Iterator[Figure]:
    with TemporaryDirectory() as scratch:
        own = SessionPaths(id="own", directory=Path(scratch, "own"))
        other = SessionPaths(id="other", directory=Path(scratch, "other"))
        for paths, version in ((own, __version__), (other, "another")):
            paths.directory.mkdir()
            record.write(paths.log, size_bytes=LOG_BYTES, version=version)
        taken = in_turns(
            {
                "bare": partial(wall_ms, partial(_read_bare, own.log)),
                "own": partial(wall_ms, partial(_take_up, own)),
                "other": partial(wall_ms, partial(_take_up, other)),
            },
            runs=RUNS,
        )
    for name, whose in (("own", "this version"), ("other", "another version")):
        yield Figure(
            what=f"a log of 50 MB of {whose}, reopened and folded",
            value=taken[name],
            floor=taken["bare"],
            floor_is="its hashes and json.loads",
        )
    yield Figure(what="the first of them, to its bound", value=taken["own"], at_most=300)


def _take_up(paths: SessionPaths) -> Journal:
    gc.disable()  # as at the start of the program
    start = open_existing(paths)
    try:
        journal = Journal(
            start.session,
            record=lambda entry: None,
            past=start.past,
            last_seq=start.last_seq,
        )
        journal.history.build_messages()
        return journal
    finally:
        start.lock.release()
        gc.enable()


def _read_bare(log: Path) -> None:
    with log.open("rb") as lines:
        for line in lines:
            hashlib.sha256(line).digest()
            json.loads(line)
