"""No line that the model was not shown and did not write is ever dropped by write_file."""

import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentcli.tools.excerpt import LINE_CHARS
from agentcli.types.errors import ToolError
from tests.support.examples import examples
from tests.support.files import bench, text_of

NAME = "a.txt"
PIECES = re.compile(r"<\d+>|~\d+~")

marks = st.sampled_from(["", "é", "x" * LINE_CHARS])
"""In the middle of a line whose beginning and end are its own; some are too long to be shown."""
steps = st.one_of(
    st.tuples(st.just("read"), st.integers(-6, 12), st.integers(1, 6)),
    st.tuples(st.just("edit"), st.integers(0, 11), st.sampled_from(["", "new", "new\n", "\nnew"])),
    st.tuples(st.just("join"), st.integers(0, 11), st.just("")),
    st.tuples(st.just("write"), st.integers(0, 3), st.just("")),
    st.tuples(st.just("outside"), st.integers(0, 11), st.just("")),
)


@examples(300)
@given(st.lists(marks, min_size=1, max_size=10), st.booleans(), st.lists(steps, max_size=12))
def test_what_was_neither_shown_nor_written_is_never_dropped(
    marked: list[str], has_end: bool, done: list[tuple[str, int, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        path, tools = root / NAME, bench(root)
        lines = [f"<{number}>{mark}~{number}~" for number, mark in enumerate(marked)]
        path.write_text("\n".join(lines) + "\n" * has_end, encoding="utf-8")
        unseen = {piece for line in lines for piece in PIECES.findall(line)}
        for number, (what, at, more) in enumerate(done):
            before = path.read_text(encoding="utf-8")
            try:
                match what:
                    case "read":
                        shown = text_of(tools.read(NAME, offset=at, limit=more))
                        unseen -= {piece for piece in unseen if piece in shown}
                    case "edit":
                        tools.edit(NAME, f"<{at}>", more)
                    case "join":
                        tools.edit(NAME, f"\n<{at}>", f"<{at}>")
                    case "outside":
                        path.write_text(f"{before}~9{number}~\n", encoding="utf-8")
                        unseen.add(f"~9{number}~")
                    case "write":
                        tools.write(NAME, f"written {at}\n")
                        assert not {piece for piece in unseen if piece in before}, before
            except ToolError:
                assert path.read_text(encoding="utf-8") == before
