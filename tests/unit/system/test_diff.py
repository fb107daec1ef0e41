from agentcli.system.diff import LIMIT_CHARS, Comparison, compare, compare_spliced
from agentcli.system.text import Splice

OLD = "".join(f"line {number}\n" for number in range(1, 31))


def test_diff_shows_hunks_with_context() -> None:
    new = OLD.replace("line 5\n", "five\n5\n").replace("line 25\n", "")
    assert compare(OLD, new, path="src/a.py") == Comparison(
        unified=(
            "--- a/src/a.py\n+++ b/src/a.py\n"
            "@@ -2,7 +2,8 @@\n line 2\n line 3\n line 4\n-line 5\n+five\n+5\n"
            " line 6\n line 7\n line 8\n"
            "@@ -22,7 +23,6 @@\n line 22\n line 23\n line 24\n-line 25\n"
            " line 26\n line 27\n line 28\n"
        ),
        added=2,
        removed=2,
        complete=True,
        first_line=5,
        last_line=25,
    )


def test_diff_of_splices_is_the_same() -> None:
    start = OLD.index("line 5\n")
    splice = Splice(start=start, end=start + 6, text="five")
    assert compare_spliced(OLD, [splice], path="x") == compare(
        OLD, OLD.replace("line 5\n", "five\n"), path="x"
    )


def test_created_and_emptied_files_have_empty_ranges() -> None:
    created = compare("", "one\ntwo", path="new", created=True)
    assert created.unified == (
        "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n"
    )
    assert compare("one\n", "", path="x").unified == ("--- a/x\n+++ b/x\n@@ -1,1 +0,0 @@\n-one\n")


def test_nothing_changed_is_no_diff() -> None:
    assert compare(OLD, OLD, path="x") == Comparison(unified="", added=0, removed=0, complete=True)


def test_names_with_newlines_stay_on_their_line() -> None:
    assert compare("", "x\n", path="a\nb").unified.startswith("--- a/a\\nb\n+++ b/a\\nb\n@@")


def test_a_very_large_diff_leaves_out_hunks_and_says_so() -> None:
    old = "1234567\n........\n\n\n\n\n\n\n" * 20_000
    starts = range(0, len(old), len(old) // 20_000)
    splices = [Splice(start=start, end=start + 7, text="seven") for start in starts]
    comparison = compare_spliced(old, splices, path="x")
    assert len(comparison.unified) <= LIMIT_CHARS + 100
    assert (comparison.added, comparison.removed, comparison.complete) == (20_000, 20_000, False)
    assert comparison.notes == ("the diff is too large to be shown in full",)
