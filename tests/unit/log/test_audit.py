import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.audit.render import (
    sign_file,
    verify_log,
    verify_signature,
    write_head,
)
from agentcli.log.audit import audit_log, read_head
from agentcli.types.errors import Ending, SettingsError
from agentcli.types.events import (
    ContextNote,
    Fact,
    SessionEnded,
    SessionForked,
    SessionResumed,
    TurnEnded,
)
from tests.support.record import (
    DONE,
    SESSION,
    STARTED,
    A,
    B,
    asked,
    finished,
    judged,
    replied,
    rewrite,
    write,
)

RESUMED = SessionResumed(
    session="s", version="0", workspace="/w", model="m", mode="ask", tools=(), tools_sha256=""
)


def faults(tmp_path: Path, *facts: Fact) -> list[tuple[int, str]]:
    write(tmp_path / "log.jsonl", facts)
    return [(fault.line, fault.reason) for fault in audit_log(tmp_path / "log.jsonl").faults]


def test_whole_session_is_intact(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl")
    found = audit_log(tmp_path / "log.jsonl")
    assert (found.status, found.records, found.faults, found.notes) == ("intact", 16, (), ())


def test_session_without_its_closing_record_is_open(tmp_path: Path) -> None:
    write(tmp_path / "log.jsonl", SESSION[:-1])
    found = audit_log(tmp_path / "log.jsonl")
    assert found.status == "open"
    assert found.notes[0].startswith("no closing record after 15")


def test_resumed_session_is_one_session(tmp_path: Path) -> None:
    assert faults(tmp_path, *SESSION, RESUMED, asked("more"), replied(), DONE) == []


@pytest.mark.parametrize(
    ("facts", "line", "reason"),
    [
        ((asked("x"),), 1, "a session starts once, with its first record"),
        ((STARTED, STARTED), 2, "a session starts once, with its first record"),
        ((STARTED, replied()), 2, "model_replied outside of a turn"),
        ((STARTED, asked("x"), asked("y")), 3, "a turn starts within a turn"),
        ((STARTED, DONE), 2, "a turn ends that did not start"),
        ((*SESSION, asked("x")), 17, "a turn starts in a session that has ended"),
        (
            (STARTED, asked("x"), SessionEnded(exit_code=0)),
            3,
            "the session ends without an error within a turn",
        ),
        ((STARTED, asked("x"), RESUMED), 3, "resumed, but the turn before had not ended"),
        ((STARTED, asked("x"), replied(A), finished(A)), 4, "a (bash) ran without a verdict"),
        ((STARTED, asked("x"), replied(A), judged(B)), 4, "a verdict on b, which is not an"),
        ((STARTED, asked("x"), replied(A), finished(B)), 4, "a result for b, which is not an"),
        ((STARTED, asked("x"), replied(A), judged(A), judged(A)), 5, "a second verdict on a"),
        ((STARTED, asked("x"), replied(A, B), replied()), 4, "a reply before a, b got a result"),
        ((STARTED, asked("x"), replied(A), DONE), 4, "the turn ends before a got a result"),
    ],
)
def test_what_cannot_have_happened_is_named(
    tmp_path: Path, facts: tuple[Fact, ...], line: int, reason: str
) -> None:
    ((found_line, found_reason), *_) = faults(tmp_path, *facts)
    assert (found_line, found_reason[: len(reason)]) == (line, reason)


def test_cancelled_turn_may_leave_calls_that_never_ran(tmp_path: Path) -> None:
    cancelled = TurnEnded(ending=Ending.CANCELLED)
    assert faults(tmp_path, STARTED, asked("x"), replied(A, B), cancelled) == []


CANCELLED = TurnEnded(ending=Ending.CANCELLED)
INTERRUPTED = (STARTED, asked("x"), replied(A, B), judged(A), finished(A), CANCELLED)


@pytest.mark.parametrize("count", range(len(SESSION)))
def test_log_that_was_cut_off_is_not_verified(
    tmp_path: Path, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.jsonl"
    write(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:count]))
    assert verify_log(str(path), head=None, key=None, as_json=False) == 7
    told = capsys.readouterr().out
    assert told.startswith(f"INCOMPLETE: {count} record")
    assert "every call has one result" not in told
    if count:
        write_head(str(path), tmp_path / "head")
        assert verify_log(str(path), head=tmp_path / "head", key=None, as_json=False) == 0
        path.write_bytes(b"".join(lines[: count - 1]))
        assert verify_log(str(path), head=tmp_path / "head", key=None, as_json=False) == 7


def test_bytes_after_the_closing_record_are_of_a_log_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path)
    with path.open("ab") as file:
        file.write(b'{"v":2,')
    assert audit_log(path).status == "open"
    assert verify_log(str(path), head=None, key=None, as_json=False) == 7


def test_calls_that_an_interrupted_turn_left_open_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.jsonl"
    write(path, (*INTERRUPTED, SessionEnded(exit_code=130)))
    assert audit_log(path).unanswered == ("b",)
    assert verify_log(str(path), head=None, key=None, as_json=False) == 0
    told = capsys.readouterr().out
    assert "every call has one result, except 1 of interrupted turns: b\n" in told


def test_result_of_a_denied_call_is_found_although_the_chain_was_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path)

    def change(facts: list[dict[str, Any]]) -> None:
        facts[3]["verdict"]["decision"] = "deny"

    rewrite(path, change)
    found = audit_log(path)
    assert [(fault.line, fault.reason) for fault in found.faults] == [
        (5, "a (bash) ran, but it was denied")
    ]


def test_log_that_was_rewritten_whole_is_found_by_the_head_that_was_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path)
    kept = audit_log(path).head
    rewrite(path, lambda facts: facts[1]["message"].update(content=[]))
    assert audit_log(path).status == "intact"
    assert [fault.line for fault in audit_log(path, kept=kept).faults] == [16]


def test_record_that_still_names_the_origin_after_a_fork_is_named(tmp_path: Path) -> None:
    fork = SessionForked(session="new", origin="s", at_seq=1)
    assert faults(tmp_path, STARTED, fork) == [(2, "belongs to session s")]


def test_record_of_a_type_this_version_does_not_know_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path)
    rewrite(path, lambda facts: facts.insert(1, {"type": "from_the_future", "x": 1}))
    found = audit_log(path)
    assert (found.status, found.records) == ("intact", 17)
    assert found.notes[0].startswith("1 records are of types only a newer version knows")


def test_extra_field_of_a_newer_version_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path, [STARTED, ContextNote(text="x", why="y")])
    rewrite(path, lambda facts: facts[1].update(mood="good"))
    assert audit_log(path).faults == ()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"session": 1, "seq": "x", "hash": 2}'])
def test_file_that_is_not_a_head_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "head").write_text(text)
    with pytest.raises(SettingsError, match="is not an exported hash"):
        read_head(tmp_path / "head")


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")
def test_head_is_signed_by_one_key_and_no_other(tmp_path: Path) -> None:
    for name in ("mine", "other"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True
        )
    head = tmp_path / "head.json"
    head.write_text(json.dumps({"session": "s", "seq": 1, "hash": "0"}))
    assert sign_file(head, tmp_path / "mine") == tmp_path / "head.json.sig"
    assert sign_file(head, tmp_path / "mine") == tmp_path / "head.json.sig"
    assert "signed with the SSH key" in verify_signature(head, tmp_path / "mine.pub")
    with pytest.raises(SettingsError, match="ssh-keygen failed"):
        verify_signature(head, tmp_path / "other.pub")
    head.write_text("{}")
    with pytest.raises(SettingsError, match="ssh-keygen failed"):
        verify_signature(head, tmp_path / "mine.pub")


@pytest.mark.skipif(shutil.which("minisign") is None, reason="minisign is not installed")
def test_head_is_signed_with_minisign(tmp_path: Path) -> None:
    keys = [f"-p{tmp_path / 'mine.pub'}", f"-s{tmp_path / 'mine'}"]
    subprocess.run(["minisign", "-G", "-W", *keys], check=True, capture_output=True)
    head = tmp_path / "head.json"
    head.write_text("{}")
    assert sign_file(head, tmp_path / "mine") == tmp_path / "head.json.minisig"
    assert "signed with the minisign key" in verify_signature(head, tmp_path / "mine.pub")
    head.write_text("{ }")
    with pytest.raises(SettingsError, match="minisign failed"):
        verify_signature(head, tmp_path / "mine.pub")


def test_key_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read the key"):
        sign_file(tmp_path / "head", tmp_path / "none")
