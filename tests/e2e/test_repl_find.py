import shutil
from pathlib import Path

import pytest

from tests.support.repl import live, says

LONG = "\n\n".join(f"Line {number} of the answer." for number in range(1, 80))


@pytest.mark.parametrize(("cols", "rows"), [(80, 24), (120, 40)])
def test_words_of_the_transcript_are_found_and_shown_in_their_place(
    tmp_path: Path, cols: int, rows: int
) -> None:
    if shutil.which("less") is None:
        pytest.skip("less is not installed")
    script = [says(LONG), says("Something else.")]
    with live(tmp_path, script, cols=cols, rows=rows) as session:
        term = session.term
        term.ready()
        term.send("tell me")
        term.wait("Line 79 of the answer.")
        term.send("more")
        term.wait("Something else.")
        term.wait_gone("esc to interrupt")
        term.send("/find nowhere")
        term.wait("nothing in the transcript has: nowhere")
        term.send("/find LINE 7")
        term.wait("17 lines with LINE 7")
        term.type("12")
        term.key("backspace", "backspace")
        term.type("17")
        term.key("enter")
        term.wait("Line 17 of the answer.")
        term.wait_for(
            lambda: term.screen()[0].strip() == "Line 17 of the answer.", "it begins with the line"
        )
        term.type("q")
        term.wait("ask ·")
        assert session.prompts() == ["tell me", "more"]
