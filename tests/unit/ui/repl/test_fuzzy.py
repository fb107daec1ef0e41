from agentcli.ui.repl.completion import find_best


def test_name_of_the_file_counts_more_than_its_folders() -> None:
    paths = ["calc/notes.md", "src/calc.py", "src/local/x.py", "docs/recall.md"]
    assert find_best("calc", paths) == ["src/calc.py", "calc/notes.md"]
    assert find_best("cl", paths)[0] in ("src/calc.py", "docs/recall.md")


def test_letters_must_come_in_order() -> None:
    assert find_best("zx", ["xz.py"]) == []


def test_empty_query_fits_everything() -> None:
    assert find_best("", ["b", "a"]) == ["b", "a"]
