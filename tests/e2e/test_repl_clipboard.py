import base64
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pictures import png
from tests.support.repl import live, says

ONE, TWO = png(30, 20), png(40, 10)


@pytest.fixture
def display() -> Iterator[str]:
    """An X server without a screen."""
    for program in ("Xvfb", "xclip"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    reader, writer = os.pipe()
    argv = ["Xvfb", "-displayfd", str(writer), "-screen", "0", "64x64x24", "-nolisten", "tcp"]
    with subprocess.Popen(argv, pass_fds=[writer], stderr=subprocess.DEVNULL) as server:
        os.close(writer)
        try:
            with os.fdopen(reader) as number:
                yield f":{number.readline().strip()}"
        finally:
            server.terminate()


def copy(display: str, data: bytes, kind: str) -> None:
    argv = ["xclip", "-selection", "clipboard", "-target", kind, "-in"]
    env = {**os.environ, "DISPLAY": display}
    subprocess.run(argv, input=data, env=env, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(("cols", "rows"), [(80, 24), (120, 40)])
def test_images_in_the_clipboard_are_attached(
    tmp_path: Path, display: str, cols: int, rows: int
) -> None:
    env = {"DISPLAY": display}
    with live(tmp_path, [says("Seen."), says("Again.")], env=env, cols=cols, rows=rows) as session:
        term = session.term
        term.ready()
        copy(display, b"only words", "UTF8_STRING")
        term.key("c-v")
        term.wait("Not attached: the clipboard has no image.")
        copy(display, ONE, "image/png")
        term.key("c-v")
        term.wait("> @clipboard-1")
        copy(display, TWO, "image/png")
        term.key("escape")
        term.type("v")
        term.wait("@clipboard-1 @clipboard-2")
        term.type("compare")
        term.key("enter")
        term.wait("attached [image clipboard-1 · 30x20]")
        term.wait("attached [image clipboard-2 · 40x10]")
        term.wait("Seen.")
        term.send("and @clipboard")
        term.wait("attached [image clipboard · 40x10]")
        term.wait("Again.")
        first, second = (request.body.decode() for request in session.model.requests)
    one, two = (base64.b64encode(data).decode() for data in (ONE, TWO))
    assert (first.count(one), first.count(two)) == (1, 1)
    assert (second.count(one), second.count(two)) == (1, 2)


def test_clipboard_that_cannot_be_reached_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    with live(tmp_path, [says("Well.")], cols=100) as session:
        term = session.term
        term.ready()
        term.type("look at ")
        term.key("c-v")
        term.wait("Not attached: no clipboard can be reached: this is not a graphical session.")
        term.type("@clipboard")
        term.key("enter")
        term.wait("not attached: no clipboard can be reached")
        term.wait("Well.")
        assert session.prompts() == ["look at @clipboard"]
