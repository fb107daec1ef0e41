"""What the model is shown and writes back: hidden values come out byte for byte the same."""

import asyncio
import tempfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agentcli.permissions.secrets import Redactor
from agentcli.system.workspace import Workspace
from agentcli.tools.apply_patch import ApplyPatch
from agentcli.tools.edit_file import EditFile
from agentcli.tools.excerpt import LINE_CHARS
from agentcli.tools.hidden import HiddenValues
from agentcli.tools.read_file import ReadFile
from agentcli.tools.seen import Seen
from agentcli.tools.write_file import WriteFile
from agentcli.types.errors import ToolError
from agentcli.types.events import Fact
from agentcli.types.messages import Text
from agentcli.types.tools import ToolContext
from tests.support.examples import examples
from tests.support.files import make_facts
from tests.unit.permissions.test_secrets import PEM, SHAPED, VALUE

REDACTOR = Redactor(environ={"A_KEY": VALUE, "B_TOKEN": "first-line-of-it\nsecond-line-of-it"})
HIDDEN = HiddenValues(find=REDACTOR.find_hidden, reveal=REDACTOR.reveal)

ONE_LINE = [key for key in SHAPED if "\n" not in key]
PIECES = st.one_of(
    st.sampled_from([*ONE_LINE, VALUE, "first-line-of-it", "second-line-of-it", "«secret:1f»"]),
    st.sampled_from(["API_KEY=", "password=", "DB_PASSWORD='", "'", '"', "a://u:", "@", "hunter2"]),
    st.text(alphabet="ab1 -_./=:&«»é…", max_size=8),
)
LINES = st.one_of(
    st.lists(PIECES, max_size=5).map("".join).map(lambda line: [line]),
    st.sampled_from([PEM.split("\n"), ["first-line-of-it", "second-line-of-it"]]),
)
CONTENTS = st.tuples(
    st.lists(LINES, min_size=1, max_size=6)
    .map(lambda groups: list(chain(*groups)))
    .filter(lambda lines: max(map(len, lines)) <= LINE_CHARS),  # longer ones are not shown whole
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "end\n"]),
).map(lambda parts: parts[1].join([*parts[0], parts[2].replace("\n", parts[1])]))


class _Model:
    """Sees a file as a model does, and calls tools on it."""

    def __init__(self, folder: str, content: str, encoding: str = "utf-8") -> None:
        self.path = Path(folder, "f.env")
        self.path.write_bytes(content.encode(encoding))
        self._workspace, self._facts = Workspace(Path(folder)), list[Fact]()
        self._seen = Seen(self._facts, locate=lambda path: self._workspace.locate(path).path)

    def shown_lines(self, **part: int) -> list[str]:
        tool = ReadFile(workspace=self._workspace, images=lambda: False, hidden=HIDDEN)
        (block,) = self._run(tool, {"path": "f.env", **part}).content
        assert isinstance(block, Text)
        rows = REDACTOR.mask(block.text).split("\n")
        return [row.partition("\t")[2] for row in rows if not row.startswith("[")]

    def write(self, lines: list[str], ends: bool) -> None:
        tool = WriteFile(workspace=self._workspace, seen=self._seen, hidden=HIDDEN)
        self._run(tool, {"path": "f.env", "content": "\n".join(lines) + "\n" * ends})

    def edit(self, old: str, new: str) -> None:
        tool = EditFile(workspace=self._workspace, seen=self._seen, hidden=HIDDEN)
        self._run(tool, {"path": "f.env", "old_text": old, "new_text": new})

    def edit_twice(self, old: str, new: str) -> None:
        """Change a line in two edits of one call."""
        tool = EditFile(workspace=self._workspace, seen=self._seen, hidden=HIDDEN)
        steps = [(old, f"{old} # between"), (f"{old} # between", new)]
        edits = [{"old_text": one, "new_text": other} for one, other in steps]
        self._run(tool, {"path": "f.env", "edits": edits})

    def edit_line(self, number: int, new: str) -> None:
        tool = EditFile(workspace=self._workspace, seen=self._seen, hidden=HIDDEN)
        self._run(tool, {"path": "f.env", "lines": str(number), "new_text": new})

    def patch(self, old: str, new: str, *, to: str = "") -> None:
        tool = ApplyPatch(workspace=self._workspace, seen=self._seen, hidden=HIDDEN)
        move = f"*** Move to: {to}\n" if to else ""
        text = f"*** Update File: f.env\n{move}@@\n-{old}\n+{new}\n"
        self._run(tool, {"patch": f"*** Begin Patch\n{text}*** End Patch"})

    def _run(self, tool: Any, arguments: dict[str, Any]) -> Any:
        context = ToolContext(call_id="1", workspace=self._workspace.root, progress=lambda _: None)
        output = asyncio.run(tool.run(tool.parse(arguments), context))
        self._facts.extend(make_facts(tool, output))
        return output


def _refused(do: Callable[[], None]) -> str:
    try:
        do()
    except ToolError as error:
        return str(error)
    return ""


@examples(150)
@given(CONTENTS, st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]))
def test_file_written_as_it_was_shown_is_the_same(content: str, encoding: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = _Model(folder, content, encoding)
        lines, before = model.shown_lines(), model.path.read_bytes()
        refused = _refused(lambda: model.write(lines, content.endswith("\n")))

        assert model.path.read_bytes() == before, refused
        assert refused == ""


@examples(150)
@given(CONTENTS, st.data(), st.sampled_from(["edit", "edits", "lines", "patch", "move"]))
def test_line_that_is_changed_keeps_its_hidden_values(
    content: str, data: st.DataObject, how: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = _Model(folder, content)
        lines, before = model.shown_lines(), model.path.read_bytes().decode()
        number = data.draw(st.integers(0, len(lines) - 1)) if lines else 0
        if not lines or not lines[number].strip() or lines.count(lines[number]) > 1:
            return
        old, new = lines[number], f"{lines[number]} # changed"
        ways: dict[str, Callable[[], None]] = {
            "edit": lambda: model.edit(old, new),
            "edits": lambda: model.edit_twice(old, new),
            "lines": lambda: model.edit_line(number + 1, new),
            "patch": lambda: model.patch(old, new),
            "move": lambda: model.patch(old, new, to="g.env"),
        }
        refused = _refused(ways[how])
        path = model.path if model.path.exists() else model.path.with_name("g.env")
        after = path.read_bytes().decode()

        assert "is not in" not in refused
        assert after.replace(" # changed", "") == before
        assert (" # changed" in after) == (refused == "")


@examples(100)
@given(CONTENTS, st.data())
def test_part_of_a_file_is_shown_as_in_the_whole(content: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = _Model(folder, content)
        lines = model.shown_lines()
        first = data.draw(st.integers(1, max(1, len(lines))))
        part = model.shown_lines(offset=first, limit=data.draw(st.integers(1, 8)))

        assert part == lines[first - 1 :][: len(part)]


def test_value_that_is_part_of_another_is_shown_as_in_the_whole() -> None:
    key = "sk-ant-api03-" + "Ab3_-" * 18
    block = "-----BEGIN RSA PRIVATE KEY-----\n" + f"MII{'b' * 61}\n" * 12
    content = f"{key}\n{block}-----END RSA PRIVATE KEY-----\n{key}{key}\n1{key}{key}\n"
    with tempfile.TemporaryDirectory() as folder:
        model = _Model(folder, content)
        assert model.shown_lines(offset=10, limit=8) == model.shown_lines()[9:]


@examples(100)
@given(CONTENTS, st.sampled_from([*ONE_LINE, VALUE]))
def test_token_never_reaches_the_disk(content: str, secret: str) -> None:
    token = REDACTOR.mask(secret)
    with tempfile.TemporaryDirectory() as folder:
        model = _Model(folder, content)
        model.shown_lines()
        before = model.path.read_bytes().decode()
        refused = _refused(lambda: model.write([f"x {token}"], ends=True))

        after = model.path.read_bytes().decode()
        assert token not in after
        assert after == before if refused else after.rstrip() == f"x {secret}"
