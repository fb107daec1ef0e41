import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from agentcli.log.checkpoint.keep import CheckpointKeeper
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.undo import StateChange, UndoResult, undo_changes
from agentcli.types.events import Checkpointed
from tests.support.actions import (
    ACTIONS,
    NAMES,
    Action,
    KeepsAll,
    append,
    change_mode,
    remove,
    seen,
    write,
)
from tests.support.examples import examples

texts = st.sampled_from([b"", b"one\n", b"one\ntwo\nthree\n", b"\0binary\xff", b"no newline"])
actions = st.tuples(st.sampled_from(ACTIONS), st.sampled_from(NAMES), texts)
own_actions = st.lists(
    st.tuples(st.just(write), st.sampled_from(["mine", "dir/mine", "my/own"]), texts)
    | st.tuples(
        st.sampled_from([append, remove, change_mode]), st.sampled_from(["mine", "my/own"]), texts
    ),
    max_size=2,
)
calls = st.lists(st.lists(actions, min_size=1, max_size=4), min_size=1, max_size=5)
initial = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from([b"", b"first\nsecond\n", b"\0\1\2"]), max_size=4
)


@dataclass
class Ground:
    root: Path
    store: ObjectStore
    keeper: CheckpointKeeper
    facts: list[Checkpointed] = field(default_factory=list)

    def call(self, *batch: Action) -> None:
        before = self.keeper.begin_checkpoint(f"call_{len(self.facts)}", None)
        self.do(*batch)
        fact = self.keeper.finish_checkpoint(before)
        self.facts += [fact] if fact else []

    def do(self, *batch: Action) -> None:
        for act, name, text in batch:
            act(self.root, name, text)

    def undo(self) -> UndoResult:
        changes = [StateChange(before=one.before, after=one.after) for one in reversed(self.facts)]
        return undo_changes(self.store, self.root, changes=changes)

    def redo(self, undone: UndoResult) -> UndoResult:
        change = StateChange(before=undone.before, after=undone.after)
        return undo_changes(self.store, self.root, changes=[change])


@contextmanager
def ground(files: dict[str, bytes]) -> Iterator[Ground]:
    with tempfile.TemporaryDirectory() as made:
        root = Path(made, "work")
        root.mkdir()
        for name, text in files.items():
            write(root, name, text)
        store = ObjectStore(Path(made, "kept.git"))
        keeper = CheckpointKeeper(store, session="s", root=root, scope=KeepsAll)
        try:
            yield Ground(root, store, keeper)
        finally:
            keeper.close()


RUNS = examples(40, suppress_health_check=[HealthCheck.too_slow])


@RUNS
@given(initial, calls)
def test_undo_gives_the_bytes_of_before_and_redo_those_of_after(
    files: dict[str, bytes], done: list[list[Action]]
) -> None:
    with ground(files) as here:
        first = seen(here.root)
        for batch in done:
            here.call(*batch)
        last = seen(here.root)
        undone = here.undo()
        assert (undone.conflicts, seen(here.root)) == ((), first)
        assert (here.redo(undone).conflicts, seen(here.root)) == ((), last)


@RUNS
@given(initial, calls, st.lists(own_actions, min_size=5, max_size=5))
def test_undo_leaves_what_the_person_did(
    files: dict[str, bytes], done: list[list[Action]], own: list[list[Action]]
) -> None:
    with ground(files) as without_agent:
        for batch in own:
            without_agent.do(*batch)
        expected = seen(without_agent.root)
    with ground(files) as here:
        for theirs, mine in zip_longest(done, own, fillvalue=()):
            here.call(*theirs)
            here.do(*mine)
        here.undo()
        assert seen(here.root) == expected


@RUNS
@given(st.integers(0, 9), st.integers(0, 9))
def test_undo_merges_lines_and_leaves_those_that_both_changed(agent: int, person: int) -> None:
    lines = [b"line %d\n" % number for number in range(10)]

    def with_line(number: int, line: bytes, of: list[bytes]) -> list[bytes]:
        return [*of[:number], line, *of[number + 1 :]]

    by_agent = with_line(agent, b"by the agent\n", lines)
    by_both = b"".join(with_line(person, b"by the person\n", by_agent))
    by_person = b"".join(with_line(person, b"by the person\n", lines))
    with ground({"a": b"".join(lines)}) as here:
        here.call((write, "a", b"".join(by_agent)))
        here.do((write, "a", by_both))
        undone = here.undo()
        found = (here.root / "a").read_bytes()
        assert found == (by_both if agent == person else by_person)
        assert [one.path for one in undone.conflicts] == ["a"] * (agent == person)


@RUNS
@given(initial, calls)
def test_watched_scan_sees_what_a_fresh_one_sees(
    files: dict[str, bytes], done: list[list[Action]]
) -> None:
    with ground(files) as here:
        for batch in done:
            here.call(*batch)
            fresh = CheckpointKeeper(here.store, session="f", root=here.root, scope=KeepsAll)
            expected = fresh.begin_checkpoint("fresh", None).tree
            fresh.close()
            assert here.keeper.begin_checkpoint("c", None).tree == expected
