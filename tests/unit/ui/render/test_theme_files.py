import os
from pathlib import Path

import pytest
from rich.style import Style

from agentcli.settings import load_settings
from agentcli.types.errors import SettingsError, UsageError
from agentcli.ui.render.theme import ANSI, DARK, NONE, choose_theme
from agentcli.ui.render.theme_files import load_theme

GOOD = """
base = "dark"
background = "#1e1e2e"
accent = "#89b4fa"
added = "#e6e6e6 on #12301c"
[syntax]
keyword = "bold #cba6f7"
"""


@pytest.fixture
def themes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "agentcli" / "themes"
    folder.mkdir(parents=True)
    return folder


def test_file_changes_some_styles_of_a_theme(themes: Path) -> None:
    (themes / "mocha.toml").write_text(GOOD)
    found = load_theme("mocha")
    assert (found.theme.name, found.warnings) == ("mocha", ())
    assert found.theme.accent == Style.parse("#89b4fa")
    assert found.theme.ok == DARK.ok
    changed = [kind for kind in DARK.syntax if found.theme.syntax[kind] != DARK.syntax[kind]]
    assert {str(kind) for kind in changed} >= {"Token.Keyword"}
    settings = load_settings({"theme": "mocha"}, workspace=themes)
    assert settings.theme == "mocha"


def test_pipe_is_no_theme(themes: Path) -> None:
    os.mkfifo(themes / "pipe.toml")
    with pytest.raises(SettingsError, match="Not a regular file"):
        load_theme("pipe")


def test_terminal_with_few_colours_gets_the_usual_ones(themes: Path) -> None:
    (themes / "mocha.toml").write_text(GOOD)
    own = load_theme("mocha").theme
    for environ, theme in (
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, own),
        ({"TERM": "xterm-256color"}, own),
        ({"TERM": "xterm"}, ANSI),
        ({"TERM": "xterm", "NO_COLOR": "1"}, NONE),
    ):
        assert choose_theme("mocha", None, environ=environ, is_tty=True, own=own)[0] == theme


def test_style_that_is_hard_to_read_is_named(themes: Path) -> None:
    (themes / "faint.toml").write_text('dim = "#444444"\nadded = "#e6e6e6 on #dddddd"\n')
    first, second = load_theme("faint").warnings
    assert first.startswith("dim is hard to read: contrast 1.")
    assert second.startswith("added is hard to read: contrast 1.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("accent = 7", "accent = 7 is no style"),
        ('accent = "no such colour"', "is no style"),
        ('acent = "red"', "did you mean accent?"),
        ('base = "pink"', "base must be dark or light"),
        ('background = "dark"', "is no colour"),
        ("syntax = 1", "syntax must be a table"),
        ('[syntax]\nkeywords = "red"', "did you mean keyword?"),
        ('[syntax]\nkeyword = "reddish"', "syntax.keyword"),
        ("accent = ", "Invalid value"),
        ("\udcff", "cannot read"),
    ],
)
def test_fault_of_a_file_is_said_with_the_file(themes: Path, text: str, words: str) -> None:
    path = themes / "bad.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(SettingsError) as refused:
        load_theme("bad")
    assert words in str(refused.value)
    assert refused.value.hint == f"edit {path}"


def test_theme_without_a_file_is_refused_with_those_there_are(themes: Path) -> None:
    (themes / "mocha.toml").write_text(GOOD)
    with pytest.raises(SettingsError, match="there is no theme other") as refused:
        load_theme("other")
    assert refused.value.hint == "themes: dark, light, ansi, none, mocha"
    with pytest.raises(UsageError, match="or a file in"):
        load_settings({"theme": "other"}, workspace=themes)
