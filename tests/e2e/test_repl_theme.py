from pathlib import Path

import pytest

from tests.support.repl import live, says

DIM = {"dark": b"38;2;160;160;160", "light": b"38;2;98;98;98"}


@pytest.mark.parametrize(
    ("told", "theme"),
    [
        (b"rgb:0000/0000/0000", "dark"),
        (b"rgb:1e1e/1e1e/1e1e", "dark"),
        (b"rgb:2e/34/40", "dark"),
        (b"rgba:fdfd/f6f6/e3e3/ffff", "light"),
    ],
)
def test_session_has_the_colours_for_the_background_it_is_told(
    tmp_path: Path, told: bytes, theme: str
) -> None:
    env = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with live(tmp_path, [says("Heard.")], env=env) as session:
        term = session.term
        term.write(b"\x1b]11;" + told + b"\x1b\\")  # it waits there until it is asked for
        term.ready()
        term.send("go")
        term.wait("Heard.")
        term.wait_gone("esc to interrupt")
        assert {name for name, code in DIM.items() if code in term.raw()} == {theme}
