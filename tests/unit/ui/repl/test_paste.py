from agentcli.ui.repl.composer import Pastes, clean_paste


def test_short_paste_is_itself() -> None:
    assert Pastes().insert_paste("one\r\ntwo\rthree") == "one\ntwo\nthree"


def test_long_paste_is_one_character_and_comes_back_whole() -> None:
    pastes, text = Pastes(), "line\n" * 40
    atom = pastes.insert_paste(text)
    assert len(atom) == 1
    assert pastes.format_label(atom) == "[paste #1 · 40 lines]"
    assert pastes.expand(f"look: {atom}!") == f"look: {text}!"


def test_long_line_is_counted_in_characters() -> None:
    pastes = Pastes()
    assert pastes.format_label(pastes.insert_paste("x" * 900)) == "[paste #1 · 900 characters]"


def test_same_paste_again_is_recognised() -> None:
    pastes, text = Pastes(), "line\n" * 40
    atom = pastes.insert_paste(text)
    assert pastes.find_repeated(text, f"before {atom}") == text
    assert pastes.find_repeated("other", f"before {atom}") is None


def test_what_looks_like_an_atom_or_cannot_be_encoded_is_replaced() -> None:
    assert clean_paste("a\U0010f001b\ud800c") == "a\ufffdb\ufffdc"
