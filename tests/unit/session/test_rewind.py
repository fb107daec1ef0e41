import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentcli.features.undo.rewind import find_target, list_targets, redo, rewind
from agentcli.log.sessions import find_session
from agentcli.session.builder import open_session
from agentcli.session.session import Session
from agentcli.types.errors import UsageError
from agentcli.types.events import (
    CheckpointFailed,
    Compacted,
    ContextNote,
    ModelChanged,
    NoteReason,
    SessionForked,
    Undone,
)
from agentcli.types.messages import Usage
from agentcli.types.settings import Settings

SCRIPT = [
    *({"calls": [{"write_file": {"path": "a.txt", "content": "1\n"}}]}, "One."),
    *(
        {
            "calls": [
                {"write_file": {"path": "b.txt", "content": "2\n"}},
                {"write_file": {"path": "c.txt", "content": "2\n"}},
            ]
        },
        "Two.",
    ),
    "Three.",
]


def settings(tmp_path: Path) -> Settings:
    (tmp_path / "work").mkdir(exist_ok=True)
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    return Settings(
        workspace=tmp_path / "work",
        model=f"script/{script}",
        mode="auto-edit",
        sessions=tmp_path / "sessions",
    )


def with_session(tmp_path: Path, work: Callable[[Session], Awaitable[None]]) -> Path:
    """Do the work in a session after its first two turns. Return its log."""

    async def talk() -> Path:
        session = open_session(settings(tmp_path), listeners=())
        await session.run_turn("first")
        await session.run_turn("second")
        await work(session)
        await session.close(0)
        return session.paths.log

    return asyncio.run(talk())


def list_files(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "work").iterdir())


def test_target_has_its_time_its_files_and_its_cost(tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        first, second = list_targets(session)
        assert (first.turn, first.prompt, first.paths) == (1, "first", ["a.txt"])
        assert (second.turn, second.prompt, second.paths) == (2, "second", ["b.txt", "c.txt"])
        assert second.at >= first.at > "2020"
        assert second.spending.requests == 2

    with_session(tmp_path, work)


def test_cached_beginning_stays_the_same_objects(tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        before = session.journal.history.build_messages()
        rewind(session, list_targets(session)[1], scope="both")
        after = session.journal.history.build_messages()
        assert 0 < len(after) < len(before)
        assert all(old is new for old, new in zip(before, after, strict=False))
        redo(session)
        assert [*map(id, session.journal.history.build_messages())] == [*map(id, before)]

    with_session(tmp_path, work)


def test_model_is_told_which_files_keep_later_changes(tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        rewind(session, list_targets(session)[1], scope="conversation")
        note = session.facts[-1]
        assert isinstance(note, ContextNote)
        assert note.why == NoteReason.REWIND
        assert "b.txt, c.txt" in note.text

    with_session(tmp_path, work)
    assert list_files(tmp_path) == ["a.txt", "b.txt", "c.txt"]


def test_edit_of_the_user_stays_and_is_named(tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        (tmp_path / "work" / "b.txt").write_text("mine\n")
        report = rewind(session, list_targets(session)[1], scope="both")
        assert report is not None
        assert [one.path for one in report.result.conflicts] == ["b.txt"]
        assert isinstance(session.facts[-1], ContextNote)
        assert "b.txt" in session.facts[-1].text

    with_session(tmp_path, work)
    assert (tmp_path / "work" / "b.txt").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (
            Compacted(summary="s", tokens_before=9, usage=Usage()),
            "the conversation was summarized since: it is sent in full again",
        ),
        (ModelChanged(model="x/y"), "the model was changed since: it stays x/y"),
    ],
)
def test_what_happened_since_is_said(tmp_path: Path, fact: Compacted, said: str) -> None:
    async def work(session: Session) -> None:
        before = session.journal.history.build_messages()
        session.journal.append(fact)
        target = list_targets(session)[1]
        assert target.warnings == [said]
        rewind(session, target, scope="conversation")
        kept = session.journal.history.build_messages()[:-1]  # but for the note on files
        assert kept == before[: len(kept)]

    with_session(tmp_path, work)


def test_files_of_a_forks_origin_stay(tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        session.journal.append(SessionForked(session=session.paths.id, origin="old", at_seq=1))
        target = list_targets(session)[1]
        assert target.warnings == ["it was said in the session old: its files stay as they are"]
        with pytest.raises(UsageError, match="belong to the session it was forked from"):
            rewind(session, target, scope="both")
        rewind(session, target, scope="conversation")

    with_session(tmp_path, work)
    assert list_files(tmp_path) == ["a.txt", "b.txt", "c.txt"]


def test_call_without_a_stored_state_is_a_warning(tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        session.journal.append(CheckpointFailed(call_id="call_9", reason="no space left on device"))
        assert [target.warnings for target in list_targets(session)] == [
            ["the changes of 1 call since were not stored: they stay"]
        ] * 2

    with_session(tmp_path, work)


def test_undo_of_a_forks_origin_is_not_redone(tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        rewind(session, list_targets(session)[1], scope="files")
        session.journal.append(SessionForked(session=session.paths.id, origin="old", at_seq=1))
        assert redo(session) is None

    with_session(tmp_path, work)
    assert list_files(tmp_path) == ["a.txt"]


def test_turn_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async def work(session: Session) -> None:
        with pytest.raises(UsageError, match="7 is not a turn of this conversation"):
            find_target(list_targets(session), 7, named="7")

    with_session(tmp_path, work)


@pytest.mark.parametrize("killed_before", ["undone", "rewound"])
def test_rewind_that_was_killed_is_completed_by_repeating_it(
    killed_before: str, tmp_path: Path
) -> None:
    async def work(session: Session) -> None:
        rewind(session, list_targets(session)[1], scope="both")

    log = with_session(tmp_path, work)
    lines = log.read_bytes().splitlines(keepends=True)
    fact = f'"type":"{killed_before}"'.encode()
    at = next(at for at, line in enumerate(lines) if fact in line)
    os.truncate(log, sum(map(len, lines[:at])))
    if killed_before == "undone":  # and only one of two files was restored by then
        (tmp_path / "work" / "c.txt").write_text("2\n")
        undone = json.loads(lines[at])["fact"]
        states = {"before": undone["before"], "planned": undone["after"]}
        begun = {"id": undone["id"], "root": str(tmp_path / "work"), "turns": 2, **states}
        (log.parent / "undo.json").write_text(json.dumps(begun))

    async def resume() -> None:
        paths = find_session(log.parent.name, tmp_path / "sessions")
        session = open_session(settings(tmp_path), listeners=(), resume=paths)
        targets = list_targets(session)
        assert [target.turn for target in targets] == [1, 2]
        rewind(session, targets[1], scope="both")
        assert [target.turn for target in list_targets(session)] == [1]
        assert list_files(tmp_path) == ["a.txt"]
        while redo(session) is not None:
            pass  # files and conversation are two facts if the first was recorded
        await session.close(0)

    asyncio.run(resume())
    assert list_files(tmp_path) == ["a.txt", "b.txt", "c.txt"]
    assert not (log.parent / "undo.json").exists()


def test_rewind_that_was_killed_before_the_conversation_went_on_stays_as_it_was_left(
    tmp_path: Path,
) -> None:
    """The file that it had removed does not come back with a later undo."""

    async def work(session: Session) -> None:
        rewind(session, list_targets(session)[1], scope="files")
        undone = next(fact for fact in session.facts if isinstance(fact, Undone))
        states = {"before": undone.before, "planned": undone.after}
        begun = {"id": "undo-9", "root": str(tmp_path / "work"), "turns": 2, **states}
        (session.paths.directory / "undo.json").write_text(json.dumps(begun))
        await session.run_turn("third")
        rewind(session, list_targets(session)[0], scope="files")

    with_session(tmp_path, work)
    assert list_files(tmp_path) == []
