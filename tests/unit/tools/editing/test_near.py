from agentcli.tools.editing.near import not_found
from agentcli.tools.editing.readings import Reading
from agentcli.tools.editing.view import LfView

TEXT = "import os\n\n\ndef first(path):\n    return path\n\n\ndef second(path):\n    return 2\n"


def told(old: str, new: str = "") -> str:
    return not_found(LfView(TEXT), Reading(old, new), path="f")


def test_the_lines_most_of_it_agrees_on_are_closest() -> None:
    assert told("def second(path):\n    return 3\n") == (
        "old_text is not in f. Closest, line 8:\n8\tdef second(path):\n9\t    return 2"
    )


def test_without_a_shared_line_words_decide() -> None:
    assert told("def second(path, mode):") == (
        "old_text is not in f. Closest, line 8:\n8\tdef second(path):"
    )


def test_nothing_close_is_nothing_shown() -> None:
    assert told("zebra") == "old_text is not in f."


def test_long_lines_are_cut() -> None:
    view = LfView("word " * 1000 + "\nend\n")
    shown = not_found(view, Reading("word " * 1000 + "\nEnd\n", ""), path="f")
    assert len(shown) < 400
