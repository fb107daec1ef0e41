import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentcli.features.replay.engine import ReplayOptions, replay_session
from agentcli.log.audit import audit_log
from agentcli.log.paths import SessionPaths
from agentcli.session.builder import open_session
from agentcli.types.settings import Settings
from tests.support.examples import examples

NAMES = st.sampled_from(["a.txt", "b.txt", "sub/c.txt", "none.txt", "../out.txt", ""])
WORDS = st.sampled_from(["one", "two", "three\n", "", "é ✓"])
COMMANDS = st.sampled_from(
    ["cat a.txt", "echo new > b.txt", "rm -f a.txt", "mkdir -p sub && cd sub", "false", "pwd"]
)
CALLS = st.one_of(
    st.builds(lambda path: {"read_file": {"path": path}}, NAMES),
    st.builds(lambda path, text: {"write_file": {"path": path, "content": text}}, NAMES, WORDS),
    st.builds(
        lambda path, old, new: {"edit_file": {"path": path, "old_text": old, "new_text": new}},
        NAMES,
        WORDS,
        WORDS,
    ),
    st.builds(lambda words: {"grep": {"pattern": words}}, WORDS),
    st.builds(lambda command: {"bash": {"command": command}}, COMMANDS),
    st.builds(lambda name: {name: {"x": 1}}, st.sampled_from(["grep", "no_such_tool"])),
)
REPLIES = st.lists(
    st.builds(lambda calls: {"calls": calls}, st.lists(CALLS, min_size=1, max_size=4)), max_size=4
)
MODES = st.sampled_from(["plan", "ask", "auto-edit", "auto"])


def played(root: Path, replies: list[Any], mode: Any) -> SessionPaths:
    workspace, script = root / "work", root / "script.json"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\ntwo\n")
    script.write_text(json.dumps([*replies, "Done."]))
    settings = Settings(
        workspace=workspace.resolve(),
        model=f"script/{script}",
        mode=mode,
        sessions=root / "state" / "sessions",
    )

    async def run() -> SessionPaths:
        session = open_session(settings, listeners=())
        await session.run_turn("go")
        await session.close(0)
        return session.paths

    return asyncio.run(run())


@examples(8)
@given(REPLIES, MODES)
def test_replay_of_any_session_gives_that_session(replies: list[Any], mode: str) -> None:
    with TemporaryDirectory() as scratch:
        place = played(Path(scratch).resolve(), replies, mode)
        assert audit_log(place.log).status == "intact"
        found = replay_session(place, ReplayOptions())
        assert found.is_same, (found.flow, [one for one in found.calls if one.words])
        assert replay_session(place, ReplayOptions(stub_tools=True)).flow == ""
