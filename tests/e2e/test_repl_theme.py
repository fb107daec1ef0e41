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
        term.wait_for(lambda: any(code in term.raw() for code in DIM.values()), "dim text is drawn")
        assert {name for name, code in DIM.items() if code in term.raw()} == {theme}


@pytest.mark.parametrize(("cols", "rows"), [(80, 24), (120, 40)])
@pytest.mark.parametrize("base", ["dark", "light"])
def test_theme_of_the_users_own_is_used_and_what_is_faint_is_said(
    tmp_path: Path, base: str, cols: int, rows: int
) -> None:
    folder = tmp_path / "home/.config/agentcli/themes"
    folder.mkdir(parents=True)
    (folder / "mine.toml").write_text(f'base = "{base}"\ndim = "#808182"\n')
    (folder / "broken.toml").write_text('acent = "red"\n')
    env = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    arguments = ["--theme", "mine"]
    with live(
        tmp_path, [says("Heard.")], env=env, arguments=arguments, cols=cols, rows=rows
    ) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("Heard.")
        term.wait_gone("esc to interrupt")
        assert b"38;2;128;129;130" in term.raw()
        assert b"warning: theme mine: dim is hard to read" in term.raw()
        term.send("/theme broken")
        term.wait("did you mean accent?")
        term.send(f"/theme {base}")
        term.wait(f"Theme: {base}")
        term.send("/theme mine")
        term.wait("mine: dim is hard to read")
