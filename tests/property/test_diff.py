from hypothesis import given
from hypothesis import strategies as st
from unidiff.patch import PatchSet

from agentcli.system.diff import Comparison, compare, compare_spliced, split_lines
from agentcli.system.text import Splice, splice
from tests.support.examples import examples

LINES = st.lists(
    st.sampled_from(["a", "b", "", "  ", "c\r", "\x0c", "\x85é", "\u2028", "-x", "+++ y", "@@"]),
    max_size=30,
)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"]))


def applied(comparison: Comparison, old: str) -> str:
    if not comparison.unified:
        return old
    before = split_lines(old)
    after: list[str] = []
    reached = 0
    (patched,) = PatchSet.from_string(comparison.unified)
    assert (patched.added, patched.removed) == (comparison.added, comparison.removed)
    for hunk in patched:
        start = hunk.source_start - 1 if hunk.source_length else hunk.source_start
        assert [line[1:] for line in hunk.source] == [
            line if line.endswith("\n") else line + "\n"
            for line in before[start : start + hunk.source_length]
        ]
        after += before[reached:start]
        after += _new_lines(str(hunk))
        reached = start + hunk.source_length
    return "".join(after + before[reached:])


def _new_lines(hunk: str) -> list[str]:
    lines: list[str] = []
    last_mark = ""
    for line in split_lines(hunk)[1:]:
        if line.startswith("\\"):
            if last_mark in "+ ":
                lines[-1] = lines[-1].removesuffix("\n")
        elif line[0] in "+ ":
            lines.append(line[1:])
        last_mark = line[0]
    return lines


@given(old=TEXTS, new=TEXTS)
@examples(300)
def test_diff_applied_to_the_old_text_gives_the_new(old: str, new: str) -> None:
    assert applied(compare(old, new, path="x"), old) == new


@given(old=TEXTS, data=st.data())
@examples(300)
def test_diff_of_splices_applied_to_the_old_text_gives_the_spliced(
    old: str, data: st.DataObject
) -> None:
    borders = sorted(data.draw(st.lists(st.integers(0, len(old)), max_size=8)))
    splices = [
        Splice(start=start, end=end, text=data.draw(TEXTS))
        for start, end in zip(borders[::2], borders[1::2], strict=False)
    ]
    assert applied(compare_spliced(old, splices, path="x"), old) == splice(old, splices)
