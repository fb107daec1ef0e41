import base64
from pathlib import Path

import pytest

from tests.support.pictures import png
from tests.support.repl import live, says

SHOT = png(30, 20)


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
    encoded = base64.b64encode(SHOT).decode("ascii")
    assert (first.count(encoded), second.count(encoded)) == (1, 2)
