import pytest

from agentcli.ui.render.highlight import (
    Highlighter,
    LineLexer,
    find_lexer_by_name,
    find_lexer_for_file,
)
from agentcli.ui.render.theme import DARK


def kinds(language: str, *lines: str) -> list[set[str]]:
    """The kinds of token in each line."""
    lexer = find_lexer_by_name(language)
    assert lexer is not None
    one = LineLexer(lexer)
    return [{str(kind) for kind, piece in one.split_line(line) if piece.strip()} for line in lines]


def test_string_over_lines_stays_a_string() -> None:
    first, second, third, _ = kinds("python", 'x = """a', "it isn't over", 'end"""', "y = 1")
    assert any("String" in kind for kind in first)
    assert all("String" in kind for kind in second | third)


@pytest.mark.parametrize("language", ["c", "js", "java", "css", "go"])
def test_comment_over_lines_stays_a_comment(language: str) -> None:
    lines = kinds(language, "/** It's", ' * "quoted', " */")
    assert all("Comment" in kind for line in lines for kind in line)


def test_comment_ends_within_a_line() -> None:
    _, last = kinds("js", "/* a", "b */ let x = 1;")
    assert any("Keyword" in kind for kind in last)


def test_string_that_looks_like_a_comment_is_none() -> None:
    _, last = kinds("js", "glob('/*.py')", "let x")
    assert not any("Comment" in kind for kind in last)


def test_very_long_line_is_not_lexed() -> None:
    lexer = find_lexer_by_name("python")
    assert lexer is not None
    assert len(LineLexer(lexer).split_line("x = 1; " * 1_000)) == 1


def test_looking_ahead_changes_nothing() -> None:
    highlighter = Highlighter(find_lexer_by_name("python"), DARK)
    highlighter.preview_line('x = """')
    twin = Highlighter(find_lexer_by_name("python"), DARK)
    assert highlighter.style_line("y = 1") == twin.style_line("y = 1")


def test_unknown_names_have_no_colours() -> None:
    assert find_lexer_by_name("no-such-language") is None
    assert find_lexer_for_file("LICENSE-UNKNOWN.zzz") is None
    assert Highlighter(None, DARK).style_line("x").spans == []
