"""Turns, edits of the user, rewinds and redos in any order, against a model of them."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from agentcli.features.undo.rewind import SCOPES, find_target, list_targets, redo, rewind
from agentcli.log.sessions import find_session
from agentcli.session.builder import open_session
from agentcli.session.session import Session
from agentcli.types.errors import UsageError
from agentcli.types.messages import Text, UserMessage
from agentcli.types.settings import Settings
from tests.support.examples import examples

FILES = ("a.txt", "b.txt")
Step = tuple[str, ...] | tuple[str, int, str]
turns = st.tuples(st.just("turn"), st.sampled_from(FILES))
talk = st.just(("talk",))
own_edits = st.just(("own",))
rewinds = st.tuples(st.just("rewind"), st.integers(0, 9), st.sampled_from(sorted(SCOPES)))
redos = st.just(("redo",))
resumes = st.just(("resume",))
steps = st.lists(turns | talk | own_edits | rewinds | redos | resumes, min_size=1, max_size=9)


@dataclass
class Change:
    turn: int
    file: str
    text: str
    stands: bool = True


@dataclass
class Taken:
    """A rewind, as far as a redo needs it."""

    said: list[int] | None
    changes: list[Change]
    went_on: bool = False


@dataclass
class Model:
    """What should be true after each step."""

    turns: int = 0
    said: list[int] = field(default_factory=list)
    """The numbers of the turns in effect."""
    changes: list[Change] = field(default_factory=list)
    own: int = 0
    taken: list[Taken] = field(default_factory=list)

    def turn(self, file: str = "") -> None:
        self.turns += 1
        self.said.append(self.turns)
        for one in self.taken:
            one.went_on = True
        if file:
            self.changes.append(Change(self.turns, file, f"{file} of turn {self.turns}\n"))

    def rewind(self, turn: int, scope: str) -> None:
        before = list(self.said)
        gone = [one for one in self.changes if one.stands and one.turn >= turn]
        if scope == "conversation":
            gone = []
        for one in gone:
            one.stands = False
        if scope != "files":
            self.said = [one for one in self.said if one < turn]
            self.taken.append(Taken(before, gone))
        elif gone:
            self.taken.append(Taken(None, gone))

    def may_redo(self) -> bool:
        """Whether nothing was said since; the files of an undo alone are merged instead."""
        return bool(self.taken) and not self.taken[-1].went_on

    def redo(self) -> None:
        last = self.taken.pop()
        self.said = self.said if last.said is None else last.said
        for one in last.changes:
            one.stands = True

    @property
    def files(self) -> dict[str, str]:
        standing = [one for one in self.changes if one.stands]
        own = {"own.txt": f"edit {self.own}\n"} if self.own else {}
        return {**{one.file: one.text for one in standing}, **own}


def write_script(path: Path, done: Sequence[Step]) -> str:
    replies: list[object] = []
    number = 0
    for step in done:
        if step[0] == "turn":
            number += 1
            text = f"{step[1]} of turn {number}\n"
            # It is read first: after a rewind, a file that is there may be unknown to the model.
            replies.append({"calls": [{"read_file": {"path": step[1]}}]})
            replies.append({"calls": [{"write_file": {"path": step[1], "content": text}}]})
        if step[0] in ("turn", "talk"):
            number += step[0] == "talk"
            replies.append(f"Answer {number}.")
    path.write_text(json.dumps(replies))
    return f"script/{path}"


def read_said(session: Session) -> list[int]:
    """The numbers of the user's messages that the model gets."""
    texts = [
        block.text
        for message in session.journal.history.build_messages()
        if isinstance(message, UserMessage)
        for block in message.content[:1]
        if isinstance(block, Text)
    ]
    return [int(text.split()[1]) for text in texts if text.startswith("message ")]


def read_files(root: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in root.iterdir()}


async def follow(root: Path, sessions: Path, done: Sequence[Step], model_name: str) -> None:
    settings = Settings(workspace=root, model=model_name, mode="auto-edit", sessions=sessions)
    session, model = open_session(settings, listeners=()), Model()
    for step in done:
        match step:
            case ("turn" | "talk", *file):
                model.turn(*map(str, file))
                await session.run_turn(f"message {model.turns}")
            case ("own",):
                model.own += 1
                (root / "own.txt").write_text(f"edit {model.own}\n")
            case ("rewind", int(at), str(scope)) if model.said:
                turn = model.said[at % len(model.said)]
                target = find_target(list_targets(session), turn, named=str(turn))
                rewind(session, target, scope=SCOPES[scope])
                model.rewind(turn, scope)
            case ("redo",) if model.may_redo():
                redo(session)
                model.redo()
            case ("redo",) if model.taken and model.taken[-1].said is not None:
                with pytest.raises(UsageError, match="went on"):
                    redo(session)
            case ("resume",):
                await session.close(0)
                again = Settings(
                    workspace=root,
                    model=trim_script(model_name, model.turns),
                    mode="auto-edit",
                    sessions=sessions,
                )
                paths = find_session(session.paths.id, sessions)
                session = open_session(again, listeners=(), resume=paths)
            case _:
                pass
        assert read_said(session) == model.said, step
        assert read_files(root) == model.files, step
        assert [target.turn for target in list_targets(session)] == model.said
    await session.close(0)


def trim_script(name: str, turns_done: int) -> str:
    """The script from the first reply that is still to come: a process starts it from the top."""
    path = Path(name.removeprefix("script/"))
    replies = json.loads(path.read_text())
    ends = [at for at, one in enumerate(replies) if isinstance(one, str)]
    rest = path.with_name(f"from-{turns_done}.json")
    rest.write_text(json.dumps(replies[ends[turns_done - 1] + 1 :] if turns_done else replies))
    return f"script/{rest}"


@examples(40, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_files_and_conversation_are_as_a_model_of_them_says(done: list[Step]) -> None:
    with TemporaryDirectory() as made:
        root, sessions = Path(made, "work"), Path(made, "state", "sessions")
        root.mkdir()
        name = write_script(Path(made, "script.json"), done)
        asyncio.run(follow(root, sessions, done, name))
