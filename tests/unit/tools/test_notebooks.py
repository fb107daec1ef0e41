import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.system.notebook import LIMIT_BYTES, NotNotebook, rewrite_notebook, show_notebook
from agentcli.system.workspace import Workspace
from agentcli.tools.edit_file import EditFile
from agentcli.tools.read_file import ReadFile
from agentcli.tools.seen import FileLocks, Seen
from agentcli.types.errors import ToolError
from agentcli.types.tools import Output, ToolContext
from tests.support.bash import text

PICTURE = "iVBORw0KGgo" * 1000


def cell(kind: str, *lines: str, **more: Any) -> dict[str, Any]:
    source = [f"{line}\n" for line in lines[:-1]] + [*lines[-1:]]
    extra = {"execution_count": 1, "outputs": []} if kind == "code" else {}
    return {"cell_type": kind, **extra, "metadata": {"kept": [1.5]}, "source": source, **more}


NOTEBOOK: dict[str, Any] = {
    "cells": [
        cell("markdown", "# Title — ü"),
        cell(
            "code",
            "x = 1",
            "print(x)",
            outputs=[
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {
                    "output_type": "display_data",
                    "data": {"image/png": PICTURE, "text/plain": ["<Figure>"]},
                    "metadata": {},
                },
            ],
        ),
        cell("code", "y = 2"),
    ],
    "metadata": {"kernelspec": {"name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
SHOWN = f"""# %% [1] markdown
# Title — ü
# %% [2] code
x = 1
print(x)
# %% [2] output
1
[image/png, {len(PICTURE)} characters, not shown]
<Figure>
# %% [3] code
y = 2
"""


def write(path: Path, notebook: Any = NOTEBOOK) -> bytes:
    data = (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()
    path.write_bytes(data)
    return data


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    path = tmp_path / "work.ipynb"
    write(path)
    return path


def edit(path: Path, old: str, new: str) -> Output:
    workspace = Workspace(path.parent)
    seen = Seen((), locate=lambda name: workspace.locate(name).path, locks=FileLocks())
    tool = EditFile(workspace=workspace, seen=seen)
    args = tool.parse({"path": path.name, "old_text": old, "new_text": new})
    return asyncio.run(tool.run(args, context(path)))


def read(path: Path, **given: int) -> Output:
    tool = ReadFile(workspace=Workspace(path.parent), images=lambda: False)
    return asyncio.run(tool.run(tool.parse({"path": path.name, **given}), context(path)))


def context(path: Path) -> ToolContext:
    return ToolContext(call_id="c", workspace=path.parent, progress=lambda text: None)


def test_notebook_is_shown_by_cell_without_base64(notebook: Path) -> None:
    data = notebook.read_bytes()
    assert show_notebook(data) == SHOWN
    assert rewrite_notebook(data, SHOWN) == data


def test_read_file_shows_cells_and_edit_file_changes_one(notebook: Path) -> None:
    before = text(read(notebook))
    assert before.split("\n")[:3] == ["1\t# %% [1] markdown", "2\t# Title — ü", "3\t# %% [2] code"]
    assert PICTURE not in before
    output = edit(notebook, "x = 1\nprint(x)", "x = 41\nprint(x + 1)")
    assert text(output).startswith("Edited work.ipynb: lines 4-5 (+2 -2).")
    after = json.loads(notebook.read_bytes())
    changed = NOTEBOOK["cells"][1] | {
        "source": ["x = 41\n", "print(x + 1)"],
        "outputs": [],
        "execution_count": None,
    }
    assert after == NOTEBOOK | {"cells": [NOTEBOOK["cells"][0], changed, NOTEBOOK["cells"][2]]}
    assert "output" not in show_notebook(notebook.read_bytes())
    assert [*after["cells"][1]] == [*NOTEBOOK["cells"][1]], "its fields keep their order"


def test_cells_are_added_moved_and_deleted_by_their_lines(notebook: Path) -> None:
    edit(notebook, "# %% [3] code\ny = 2", "# %% markdown\nMore\n# %% [3] code\ny = 2")
    kinds = [one["cell_type"] for one in json.loads(notebook.read_bytes())["cells"]]
    assert kinds == ["markdown", "code", "markdown", "code"]
    assert len(json.loads(notebook.read_bytes())["cells"][2]["id"]) == 8
    edit(notebook, "# %% [3] markdown\nMore\n", "")
    assert json.loads(notebook.read_bytes()) == NOTEBOOK


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("<Figure>", "<Other>", "only cells can be edited"),
        ("# %% [3] code", "# %% [2] code", "would have the cell [2] twice"),
        ("# %% [3] code", "# %% [9] code", "no cell [9]"),
        ("# %% [1] markdown\n", "", "lines before its first cell"),
    ],
)
def test_edit_that_means_no_notebook_is_refused(
    notebook: Path, old: str, new: str, words: str
) -> None:
    data = notebook.read_bytes()
    with pytest.raises(ToolError) as refused:
        edit(notebook, old, new)
    assert words in str(refused.value)
    assert notebook.read_bytes() == data


def test_broken_notebook_is_text_that_can_be_mended(tmp_path: Path) -> None:
    path = tmp_path / "broken.ipynb"
    path.write_text('{"cells": [}\n')
    assert text(read(path)).startswith('1\t{"cells": [}')
    edit(path, "[}", "[]}")
    assert json.loads(path.read_text()) == {"cells": []}


def test_notebook_of_100_mb_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "huge.ipynb"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(ToolError, match="has more than 50 MB, most of it output"):
        read(path)
    with pytest.raises(ToolError, match="jupyter nbconvert --clear-output"):
        edit(path, "x", "y")


def test_source_and_outputs_of_any_shape_are_shown() -> None:
    odd = {
        "cells": [
            cell("code", outputs=[{"output_type": "error", "traceback": ["\x1b[31mNo\x1b[0m"]}, 7]),
            {"cell_type": "raw", "source": "one text\nof lines"},
            cell("code", "z", outputs=[{"text": "\n".join(map(str, range(1000)))}]),
        ]
    }
    data = json.dumps(odd).encode()
    shown = show_notebook(data)
    assert "# %% [1] output\nNo\n# %% [2] raw\none text\nof lines\n" in shown
    assert "[... the output has 1000 lines and 3889 characters ...]" in shown
    assert json.loads(rewrite_notebook(data, shown)) == odd


@pytest.mark.parametrize("data", [b"", b"[]", b'{"cells": [1]}', b'{"cells": 1}', b"\xff"])
def test_what_is_no_notebook_is_said(data: bytes) -> None:
    with pytest.raises(NotNotebook):
        show_notebook(data)


def test_marker_in_a_source_is_not_taken_for_a_cell() -> None:
    with pytest.raises(NotNotebook, match="looks like the beginning of another"):
        show_notebook(json.dumps({"cells": [cell("code", "# %%", "x")]}).encode())
    with pytest.raises(NotNotebook, match="more than 50 MB"):
        show_notebook(b" " * (LIMIT_BYTES + 1))


PLAIN: dict[str, Any] = {
    "cells": [
        cell("markdown", "# Title — ü"),
        {**cell("code", "y = 2", "z = 2"), "execution_count": None},
        cell("code", "print()", outputs=[{"output_type": "stream", "text": ["\x1b[1mhi"]}]),
    ],
    "metadata": {"small": 0.25, "sign": "<a>"},
    "nbformat": 4,
    "nbformat_minor": 4,
}
USUAL = json.dumps(PLAIN, indent=1, ensure_ascii=False).encode() + b"\n"
FORMS = {
    "usual": USUAL,
    "in one line": json.dumps(PLAIN).encode(),
    "compact": json.dumps(PLAIN, separators=(",", ":")).encode(),
    "with tabs": json.dumps(PLAIN, indent="\t").encode(),
    "with CRLF": USUAL.replace(b"\n", b"\r\n"),
    "with a byte order mark": b"\xef\xbb\xbf" + USUAL,
    "with numbers written otherwise": USUAL.replace(b"0.25", b"2.50e-1").replace(b"1.5", b"1e400"),
    "with more escapes than needed": USUAL.replace(b'"<a>"', b'"\\u003ca\\/\\u003e"'),
    "with a name twice": USUAL.replace(b'"small"', b'"small": 1, "small"'),
    "with blank lines": USUAL.replace(b"  {", b"\n  {") + b"\n\n",
    "in UTF-16": USUAL.decode().encode("utf-16"),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_edit_changes_no_other_byte(form: str) -> None:
    data = FORMS[form]
    shown = show_notebook(data)
    assert rewrite_notebook(data, shown) == data
    is_wide = form == "in UTF-16"
    old, new = (one.encode("utf-16-le") if is_wide else one.encode() for one in ("y = 2", "y = 3"))
    assert rewrite_notebook(data, shown.replace("y = 2", "y = 3")) == data.replace(old, new)


@pytest.mark.parametrize("form", FORMS)
def test_new_and_moved_cells_are_written_like_the_others(form: str) -> None:
    data = FORMS[form]
    cells = show_notebook(data).partition("# %% [2]")
    added = f"# %% code\nnew = 1\n{cells[1]}{cells[2]}{cells[0]}"
    written = json.loads(rewrite_notebook(data, added))
    assert [one["source"][0].rstrip("\n") for one in written["cells"]] == [
        "new = 1",
        "y = 2",
        "print()",
        "# Title — ü",
    ]
    assert written["cells"][1:] == [*json.loads(data)["cells"][1:], json.loads(data)["cells"][0]]
    if form in ("usual", "in one line", "with tabs"):
        indent = {"usual": 1, "in one line": None, "with tabs": "\t"}[form]
        again = json.dumps(written, indent=indent, ensure_ascii=form != "usual").encode()
        assert rewrite_notebook(data, added).rstrip(b"\n") == again
    assert json.loads(rewrite_notebook(data, "")) == {**json.loads(data), "cells": []}
