import base64
from pathlib import Path

import pytest

from agentcli.log.reader import read_log
from agentcli.types.events import ContextNote
from tests.support.pictures import png
from tests.support.program import agentcli
from tests.support.provider import Recorded, Reply, Script
from tests.support.repl import live, runs, says
from tests.support.terminal import until

SHOT = png(30, 20)
ENCODED = base64.b64encode(SHOT).decode("ascii")


@pytest.mark.parametrize("env", [{}, {"TERM": "dumb"}])
def test_images_are_attached_by_mention_and_by_a_path_that_was_dragged_in(
    tmp_path: Path, env: dict[str, str]
) -> None:
    (tmp_path / "my shot.png").write_bytes(SHOT)
    dragged = str(tmp_path / "my shot.png").replace(" ", "\\ ")
    with live(tmp_path, [says("One."), says("Two.")], env=env) as session:
        term = session.term
        (session.project / "here.png").write_bytes(SHOT)
        term.wait("/help lists") if env else term.ready()
        term.send(f"{dragged} what is this?")
        term.wait("attached [image my shot.png · 30x20]")
        term.wait("One.")
        term.send("and @here.png")
        term.wait("attached [image here.png · 30x20]")
        term.wait("Two.")
        first, second = (request.body.decode() for request in session.model.requests)
    assert (first.count(ENCODED), second.count(ENCODED)) == (1, 2)


def test_image_in_a_message_to_the_running_turn_is_attached(tmp_path: Path) -> None:
    waits = "touch begun; until [ -e go_on ]; do sleep 0.05; done"
    steps = iter(range(100))

    def seen(request: Recorded) -> Reply:
        """The message is told when its image has been read, which takes a step or two."""
        step = next(steps)
        is_there = ENCODED in request.body.decode()
        return says("Seen.") if is_there else runs(f"echo {step}", f"toolu_{step}")

    script: Script = [runs(waits, "toolu_first"), *[seen] * 100]
    with live(tmp_path, script, arguments=["--mode", "auto"], cols=100) as session:
        term, project = session.term, session.project
        (project / "here.png").write_bytes(SHOT)
        (project / "notes.txt").write_text("remember")
        term.wait("auto ·")
        term.send("go")
        until(lambda: (project / "begun").exists(), "the command runs")
        term.type("see @here.png and @notes.txt and @missing.png ")
        term.key("tab")
        term.wait_gone("> see @here.png")
        (project / "go_on").touch()
        term.wait("Seen.")
        told = [row.strip() for row in term.history() if "attached" in row]
        assert told == [
            "attached [image here.png · 30x20]",
            "attached notes.txt (1 line)",
            "not attached: missing.png does not exist",
        ]
        assert session.model.requests[-1].body.decode().count(ENCODED) == 1
        (log,) = session.home.glob(".local/state/agentcli/sessions/*/log.jsonl")
        facts = [entry.fact for entry in read_log(log).entries]
        (steered,) = [fact for fact in facts if isinstance(fact, ContextNote) and fact.attached]
        assert (steered.why, [part.type for part in steered.attached]) == (
            "user",
            ["text", "image", "text"],
        )
        assert "image here.png" in agentcli("export", log, home=session.home).out
        replayed = agentcli("replay", "--stub-tools", "--check", log, home=session.home)
        assert (replayed.code, replayed.err) == (0, "")
