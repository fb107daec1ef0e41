import hashlib
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.fork.engine import find_cut, fork
from agentcli.log.audit import audit_log
from agentcli.log.paths import SessionPaths
from agentcli.log.reader import read_log
from agentcli.types.checks import Verified
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallFinished,
    Fact,
    OutputStored,
    SessionEnded,
    SessionNamed,
    SessionResumed,
    TurnEnded,
)
from agentcli.types.messages import Usage
from agentcli.types.tools import ChildTurn, Command
from tests.support.log_page import PAGE, build_fields_section
from tests.support.record import (
    DONE,
    SESSION,
    STARTED,
    A,
    B,
    asked,
    finished,
    judge_both,
    judged,
    replied,
    rewrite,
    write,
)

FIXTURES = Path(__file__).parents[3] / "fixtures"
LOGS = sorted([*FIXTURES.rglob("log.jsonl"), *(FIXTURES / "triage").glob("*.jsonl")])
CANCELLED = TurnEnded(ending=Ending.CANCELLED)
RESUMED = SessionResumed(
    session="s", version="0", workspace="/w", model="m", mode="ask", tools=(), tools_sha256=""
)
OPEN_TURN = (STARTED, asked("x"), replied(A, B), judged(A), finished(A))
FRESH: dict[str, tuple[Fact, ...]] = {
    "ended": SESSION,
    "resumed": (*SESSION, RESUMED, asked("more"), replied(), DONE, SessionEnded(exit_code=0)),
    "named": (*SESSION, SessionNamed(name="n")),
    "interrupted": (*OPEN_TURN, CANCELLED, SessionEnded(exit_code=130)),
    "killed": OPEN_TURN,
    "disk full": (*OPEN_TURN, SessionEnded(exit_code=3)),
    "repaired": (*OPEN_TURN, SessionEnded(exit_code=3), CANCELLED, RESUMED),
    "refused": (STARTED, TurnEnded(ending=Ending.DENIED), SessionEnded(exit_code=6)),
}


def test_table_of_fields_is_current() -> None:
    assert build_fields_section() in PAGE.read_text(), "python -m tests.support.contracts"


@pytest.mark.parametrize("log", LOGS, ids=lambda log: str(log.relative_to(FIXTURES)))
def test_page_and_program_agree_on_recorded_logs(log: Path) -> None:
    ours, of_page = judge_both(log)
    assert of_page == ours


@pytest.mark.parametrize("name", FRESH)
def test_page_and_program_agree_on_how_sessions_end(name: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path, FRESH[name])
    ours, of_page = judge_both(path)
    assert of_page == ours
    assert ours[0] == ("open" if name in ("killed", "disk full", "repaired") else "intact")


@pytest.mark.parametrize(
    "spoiled", [{"at": 1}, {"session": None}, {"parent": "1"}, {"parent": 9}, {"fact": []}]
)
def test_page_and_program_agree_on_records_that_are_none(
    spoiled: dict[str, Any], tmp_path: Path
) -> None:
    first = json.loads((FIXTURES / "triage/healthy.jsonl").read_bytes().splitlines()[0])
    body = json.dumps({**first, **spoiled, "hash": ""}, separators=(",", ":")).encode()
    body = body.removesuffix(b',"hash":""}')
    seal = hashlib.sha256(body + b"}").hexdigest()
    (tmp_path / "log.jsonl").write_bytes(body + f',"hash":"{seal}"}}\n'.encode())
    ours, of_page = judge_both(tmp_path / "log.jsonl")
    assert of_page == ours == ("broken", 1)


@pytest.mark.parametrize("at", ["2", "b"])
def test_page_and_program_agree_on_forks(at: str, tmp_path: Path) -> None:
    directory = tmp_path / "origin"
    directory.mkdir()
    origin = SessionPaths(id="s", directory=directory)
    write(origin.log)
    recorded = read_log(origin.log).entries
    forked = fork(origin, recorded, cut=find_cut(recorded, at), sessions=tmp_path)
    ours, of_page = judge_both(forked.log)
    assert of_page == ours == ("open", None)


def test_page_and_program_agree_on_logs_that_were_cut_or_changed(tmp_path: Path) -> None:
    write(tmp_path / "whole.jsonl")
    whole, path = (tmp_path / "whole.jsonl").read_bytes(), tmp_path / "log.jsonl"
    chance = random.Random(24)
    for _ in range(60):
        at = chance.randrange(len(whole))
        changed = whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
        for data in (whole[:at], changed):
            path.write_bytes(data)
            ours, of_page = judge_both(path)
            assert of_page == ours, (at, data[at : at + 1])


@pytest.mark.parametrize(
    ("text", "status"), [("made\n", "intact"), ("forged", "broken"), (None, "intact")]
)
@pytest.mark.parametrize("seal", ["details", "verified", "later", "child"])
def test_page_and_program_agree_on_outputs(
    seal: str, text: str | None, status: str, tmp_path: Path
) -> None:
    log_path = "/elsewhere/out/1.log"
    sha256 = hashlib.sha256(b"made\n").hexdigest()
    command = Command(command="make", cwd="/w", log_path=log_path, output_sha256=sha256)
    done = finished(A)
    sealed: Fact = CallFinished(result=replace(done.result, details=command))
    if seal == "later":
        sealed = OutputStored(call_id="a", log_path=log_path, sha256=sha256)
    if seal == "verified":
        sealed = Verified(
            command="make", exit_code=0, output="", log_path=log_path, output_sha256=sha256
        )
    facts = (sealed,) if seal in ("details", "child") else (done, sealed)
    facts = (STARTED, asked("x"), replied(A), judged(A), *facts, DONE, SessionEnded(exit_code=0))
    (tmp_path / "out").mkdir()
    path = tmp_path / "log.jsonl"
    if seal == "child":
        write(tmp_path / "out" / "child-1.jsonl", facts)
        used = ChildTurn(
            role="", ending="done", calls=1, usage=Usage(), cost_usd=0, log_path="/x/child-1.jsonl"
        )
        facts = (*facts[:4], CallFinished(result=replace(done.result, details=used)), *facts[5:])
    write(path, facts)
    if text is not None:
        (tmp_path / "out" / "1.log").write_text(text)
    ours, of_page = judge_both(path)
    assert of_page == ours
    assert ours[0] == status
    if text is None and seal != "child":
        assert "the output out/1.log is missing" in audit_log(path).notes[0]


Change = Callable[[random.Random, list[dict[str, Any]]], None]


def drop(chance: random.Random, facts: list[dict[str, Any]]) -> None:
    facts.pop(chance.randrange(len(facts)))


def repeat(chance: random.Random, facts: list[dict[str, Any]]) -> None:
    facts.insert(chance.randrange(len(facts) + 1), chance.choice(facts))


def swap(chance: random.Random, facts: list[dict[str, Any]]) -> None:
    one, other = chance.randrange(len(facts)), chance.randrange(len(facts))
    facts[one], facts[other] = facts[other], facts[one]


def drop_field(chance: random.Random, facts: list[dict[str, Any]]) -> None:
    within = _pick_object(chance, facts)
    # The program also takes an inner object without its type for what its other fields make it.
    within.pop(chance.choice(sorted(within.keys() - {"type"}) or ["type"]))


def spoil_field(chance: random.Random, facts: list[dict[str, Any]]) -> None:
    within = _pick_object(chance, facts)
    within[chance.choice(sorted(within))] = chance.choice([[[]], {"type": {}}, "unheard of"])


def _pick_object(chance: random.Random, facts: list[dict[str, Any]]) -> dict[str, Any]:
    """A fact, or an object somewhere within it; it is replaced by a copy of its own."""
    index = chance.randrange(len(facts))
    facts[index] = json.loads(json.dumps(facts[index]))
    within = facts[index]
    while chance.random() < 0.5:
        inner = [value for value in within.values() if isinstance(value, dict) and value]
        inner += [
            item
            for value in within.values()
            if isinstance(value, list)
            for item in value
            if isinstance(item, dict) and item
        ]
        if not inner:
            break
        within = chance.choice(inner)
    return within


@pytest.mark.parametrize("change", [drop, repeat, swap, drop_field, spoil_field])
@pytest.mark.parametrize("name", ["resumed", "interrupted", "repaired", "recorded"])
def test_page_and_program_agree_on_forgeries(name: str, change: Change, tmp_path: Path) -> None:
    source, path = tmp_path / "source.jsonl", tmp_path / "log.jsonl"
    if name == "recorded":
        shutil.copy(FIXTURES / "sessions" / "parallel" / "log.jsonl", source)
    else:
        write(source, FRESH[name])
    verdicts = set()
    for seed in range(25):
        shutil.copy(source, path)
        rewrite(path, partial(change, random.Random(seed)))
        ours, of_page = judge_both(path)
        assert of_page == ours, path.read_text()
        verdicts.add(ours[0])
    assert "broken" in verdicts
