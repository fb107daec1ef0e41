import re
from pathlib import Path

import pytest

from agentcli.log.lock import SessionLock, is_held
from tests.support.program import agentcli, script
from tests.support.repl import live, says

READY = {"dumb": "/help lists", "xterm-256color": "ask · claude-"}


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_session_that_another_process_has_leaves_the_person_in_their_own(
    tmp_path: Path, terminal: str
) -> None:
    replies = [says("One."), says("Two.")]
    with live(tmp_path, replies, env={"TERM": terminal}, rows=40) as session:
        term = session.term
        term.wait(READY[terminal])
        model = script(tmp_path / "other.json", ["Elsewhere."])
        agentcli("run", "--model", model, "x", home=session.home, cwd=session.project)
        term.send("hi")
        term.wait("One.")
        sessions = session.home / ".local/state/agentcli/sessions"
        (theirs,) = [one for one in sessions.iterdir() if not is_held(one)]
        lock = SessionLock(theirs)
        term.send(f"/resume {theirs.name}")
        term.wait("in use by another process")
        lock.release()
        (own,) = [one for one in sessions.iterdir() if one != theirs]
        term.send(f"/resume {own.name}")
        term.wait("this is the current session")
        term.send("and now")
        term.wait("Two.")
        assert session.prompts() == ["hi", "and now"]
        assert len(session.model.bodies[1]["messages"]) > len(session.model.bodies[0]["messages"])
        assert len(list(sessions.iterdir())) == 2


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_new_session_counts_anew_and_keeps_the_mode(tmp_path: Path, terminal: str) -> None:
    with live(tmp_path, [says("One."), says("Two.")], env={"TERM": terminal}, rows=40) as session:
        term = session.term
        term.wait(READY[terminal])
        term.send("hi")
        term.wait("One.")
        term.send("/mode auto-edit")
        term.wait("Auto-edit mode:")
        sessions = session.home / ".local/state/agentcli/sessions"
        (first,) = sessions.iterdir()
        term.send("/new")
        term.wait_for(lambda: not is_held(first), "the first is closed")
        (second,) = [one for one in sessions.iterdir() if one != first]
        term.send("hello")
        term.wait("Two.")
        term.send("/cost")
        term.wait_for(
            lambda: re.search(r"requests:? +1\b", "\n".join(term.screen())), "one request"
        )
        log = (second / "log.jsonl").read_text()
        (changed,) = [line for line in log.splitlines() if "mode_changed" in line]
        assert '"mode":"auto-edit"' in changed
