import pytest

from agentcli.tools.edit.whitespace import build_trail_map, is_kind_of_indent, iter_indent_maps


def mapped(pairs: list[tuple[str, str]], indent: str, *indents: str) -> set[str | None]:
    return {each(indent) for each in iter_indent_maps(pairs, indents)}


@pytest.mark.parametrize(
    ("pairs", "indent", "wanted"),
    [
        ([("", "")], "  ", {"  "}),
        ([("", "    "), ("  ", "      ")], "    ", {"        "}),
        ([("    ", ""), ("      ", "  ")], "        ", {"    "}),
        ([("    ", "")], "  ", {None}),
        ([("\t", "    ")], "\t\t", {"        "}),
        ([("    ", "\t"), ("        ", "\t\t")], "            ", {"\t\t\t"}),
        ([("     ", "\t ")], "    ", {"\t"}),
        ([("  ", "\t")], "    ", {None}),
        ([("  ", "    "), ("    ", "        ")], "      ", {"            "}),
        ([("    ", "  "), ("        ", "    ")], "            ", {"      "}),
        ([("    ", "  "), ("        ", "    ")], "  ", {None}),
        ([("\t\t", "\t"), ("\t\t\t\t", "\t\t")], "\t\t\t\t\t\t", {"\t\t\t"}),
        ([("  ", "    "), ("    ", "      ")], "      ", {"        "}),
    ],
)
def test_indentation_is_mapped_where_one_map_explains_all(
    pairs: list[tuple[str, str]], indent: str, wanted: set[str | None]
) -> None:
    assert mapped(pairs, indent, *(own for _, own in pairs)) == wanted


@pytest.mark.parametrize(
    ("drifted", "own", "indent", "indents", "wanted"),
    [
        # Written with 2 for each 4 of the file, or 2 less: as deep as 8, or 6?
        ("  ", "    ", "    ", ("    ", "        "), {None}),
        ("  ", "    ", "    ", ("    ", "      "), {None}),
        ("  ", "    ", "  ", ("    ", "        "), {"    "}),
        # The same for a file that has 2.
        ("    ", "  ", "        ", ("  ", "    "), {None}),
        ("    ", "  ", "      ", ("  ", "    "), {"    "}),
        # Written with 8 for each 4, or 4 more; 12 can only be 4 more.
        ("        ", "    ", "                ", ("    ", "        "), {None}),
        ("        ", "    ", "            ", ("    ", "        "), {"        "}),
        ("\t\t", "\t", "\t\t\t\t", ("\t", "\t\t"), {None}),
        ("\t\t", "\t", "\t\t\t", ("\t", "\t\t"), {"\t\t"}),
    ],
)
def test_a_shift_that_may_be_another_width_is_not_mapped(
    drifted: str, own: str, indent: str, indents: tuple[str, ...], wanted: set[str | None]
) -> None:
    assert mapped([(drifted, own)], indent, *indents) == wanted


@pytest.mark.parametrize(
    ("pair", "indent", "wanted"),
    [
        # One line drifted by a space: did the others?
        (("     ", "    "), "        ", {None}),
        (("     ", "    "), "         ", {"        "}),
        # A tab and a space are nothing that 8 or 4 spaces become.
        (("\t", "    "), "\t ", {None}),
    ],
)
def test_a_map_to_where_the_file_is_never_indented_is_doubted(
    pair: tuple[str, str], indent: str, wanted: set[str | None]
) -> None:
    assert mapped([pair], indent, "    ", "        ") == wanted


def test_tabs_are_not_mapped_in_a_file_that_has_both() -> None:
    assert mapped([("\t", "    ")], "\t\t", "    ", "\t") == set()
    assert mapped([("    ", "\t")], "        ", "    ", "\t") == set()


@pytest.mark.parametrize(
    ("indent", "indents", "fits"),
    [
        ("", [], True),
        ("    ", ["  "], True),
        ("\t", ["  "], False),
        ("\t\t", ["\t"], True),
        ("\t ", ["\t"], False),
        ("\t\t ", ["\t "], True),
        (" \t\t", ["\t"], False),
        (" \t", [" \t\t"], True),
    ],
)
def test_kinds_of_indentation_are_told_apart(indent: str, indents: list[str], fits: bool) -> None:
    assert is_kind_of_indent(indent, indents) == fits


@pytest.mark.parametrize(
    ("pairs", "trail", "replaced", "wanted"),
    [
        ([("", "")], "  ", "", "  "),
        ([("  ", "")], "  ", "", ""),
        ([("  ", "")], " ", "", None),
        ([("", "  ")], "", "", ""),
        ([("", "  ")], "", "  ", None),
        ([("", "  "), (" ", "")], "", "", None),
    ],
)
def test_ends_of_lines_are_mapped(
    pairs: list[tuple[str, str]], trail: str, replaced: str, wanted: str | None
) -> None:
    assert build_trail_map(pairs)(trail, replaced) == wanted
