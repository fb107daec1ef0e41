import codecs
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import assume, given
from hypothesis import strategies as st

from agentcli.system.text import decode, splice, to_lf
from agentcli.tools.edit.edit import EditRequest, plan_edit, plan_edits
from agentcli.types.errors import ToolError
from tests.support.examples import examples
from tests.support.files import bench, tree

CHARS = st.sampled_from([*"aab(x\"'-", " ", "\t", "\n", "\n", "\r\n", "\r", "\x0c", "é"])
TEXTS = st.lists(CHARS, max_size=40).map("".join)
BEGINNINGS = {
    "utf-8": (b"", codecs.BOM_UTF8, "ééé".encode() + b"\xe9 \xc3"),
    "utf-16-le": (codecs.BOM_UTF16_LE,),
    "utf-16-be": (codecs.BOM_UTF16_BE,),
    "latin-1": (b"\xe9", b"\x93\x81"),
}
FILES = st.builds(
    lambda text, beginning: beginning[1] + text.encode(beginning[0]),
    TEXTS,
    st.sampled_from([(codec, mark) for codec, marks in BEGINNINGS.items() for mark in marks]),
)


def raw_position(raw: str, position: int) -> int:
    """Of a position in the text with newlines for line ends."""
    at = 0
    for _ in range(position):
        at += 2 if raw.startswith("\r\n", at) else 1
    return at


@given(before=FILES, new=TEXTS, data=st.data())
@examples(300)
def test_an_exact_edit_changes_no_byte_outside_its_span(
    before: bytes, new: str, data: st.DataObject
) -> None:
    raw, encoding = decode(before)
    view = to_lf(raw)
    assume(view)
    start = data.draw(st.integers(0, len(view) - 1))
    old = view[start : data.draw(st.integers(start + 1, len(view)))]
    assume(view.find(old, view.find(old) + 1) < 0)
    assume("\r\n" not in old)  # in an argument that is a line end, and no lone return before one
    try:
        result = plan_edit(raw, EditRequest(path="f", old=old, new=new))
    except ToolError:
        return
    assume(not result.overlooked)
    after = encoding.encode(splice(raw, result.splices))
    head = encoding.encode(raw[: raw_position(raw, start)])
    tail = encoding.encode(raw[raw_position(raw, start + len(old)) :])[len(encoding.bom) :]
    assert after.startswith(head) and after.endswith(tail)
    middle = encoding.decode(after[len(head) : len(after) - len(tail)])
    assert to_lf(middle) == to_lf(new) or "\r" in new


@given(data=FILES, old=TEXTS, new=TEXTS, replace_all=st.booleans())
@examples(100)
def test_a_refusal_changes_nothing(data: bytes, old: str, new: str, replace_all: bool) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "f").write_bytes(data)
        before = tree(root)
        with suppress(ToolError):
            bench(root).edit("f", old, new, replace_all=replace_all)
            return
        assert tree(root) == before


@given(
    raw=TEXTS,
    changes=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 4), TEXTS, st.booleans()), max_size=6
    ),
)
@examples(300)
def test_edits_together_are_the_edits_one_after_another(
    raw: str, changes: list[tuple[int, int, str, bool]]
) -> None:
    text, requests = raw, list[EditRequest]()
    for start, length, new, every in changes:
        old = text[start : start + length]
        request = EditRequest(path="f", old=old, new=new, replace_all=every)
        with suppress(ToolError):
            text = splice(text, plan_edit(text, request).splices)
            requests.append(request)
    if text == raw:
        return
    together = plan_edits(raw, requests).splices
    assert splice(raw, together) == text
    places = [place for each in together for place in (each.start, each.end)]
    assert places == sorted(places)
