import asyncio
import codecs
from pathlib import Path
from typing import Any

import pytest

from agentcli.tools.edit_file import EditFileArgs
from agentcli.tools.seen import compute_sha256
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Diff, Effect, KnownFile, Output
from tests.support.files import Bench, bench, refusal, text_of, tree

CODE = "class A:\n    def f(self):\n        x = 1\n        return x\n"


def test_an_edit_is_told_in_one_line_and_shown_in_details(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    output = bench(tmp_path).edit("a.py", "        x = 1\n", "        x = 2\n        y = 3\n")
    after = CODE.replace("x = 1\n", "x = 2\n        y = 3\n")
    assert text_of(output) == "Edited a.py: lines 3-4 (+2 -1)."
    assert output.details == Diff(
        path="a.py",
        unified="--- a/a.py\n+++ b/a.py\n@@ -1,4 +1,5 @@\n class A:\n     def f(self):\n"
        "-        x = 1\n+        x = 2\n+        y = 3\n         return x\n",
        added=2,
        removed=1,
        first_line=3,
        last_line=4,
        sha256=compute_sha256(after.encode()),
        known=(KnownFile(path="a.py", sha256=compute_sha256(after.encode()), lines=((3, 4),)),),
    )
    assert (tmp_path / "a.py").read_text() == after


def test_a_tolerant_edit_shows_what_stands_there_now(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    output = bench(tmp_path).edit("a.py", "    x = 1\n    return x\n", "    x = 2\n    return x\n")
    assert text_of(output) == (
        "Edited a.py: line 3 (+1 -1). old_text differed in indentation; the file's own unchanged "
        "lines were kept.\n3\t        x = 2"
    )
    assert isinstance(output.details, Diff) and output.details.matched_by == "indentation"


def test_replace_all_counts(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a b a c a\n" * 2 + "d")
    output = bench(tmp_path).edit("a.py", "a", "xyz", replace_all=True)
    assert text_of(output) == "Edited a.py: 6 replacements."
    assert (tmp_path / "a.py").read_text() == "xyz b xyz c xyz\n" * 2 + "d"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"caf\xe9 one\r\n\x93x\x94\r\n", b"caf\xe9 two\r\n\x93x\x94\r\n"),
        (codecs.BOM_UTF8 + b"one\n", codecs.BOM_UTF8 + b"two\n"),
        (
            codecs.BOM_UTF16_LE + "é one\r\n".encode("utf-16-le"),
            codecs.BOM_UTF16_LE + "é two\r\n".encode("utf-16-le"),
        ),
        ("déjà\xa0 ".encode() + b"\xe9 one \xc3\r\n", "déjà\xa0 ".encode() + b"\xe9 two \xc3\r\n"),
        (b"\xff\xfe\xfd one \x81", b"\xff\xfe\xfd one \x81"),
        (b"a\rb\x0cone\x0b\x1c\n", b"a\rb\x0ctwo\x0b\x1c\n"),
    ],
)
def test_every_other_byte_is_kept(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "f").write_bytes(before)
    if before == after:  # begins like UTF-16 and is not
        assert refusal(bench(tmp_path).edit, "f", "one", "two").startswith("f is binary")
    else:
        bench(tmp_path).edit("f", "one", "two")
    assert (tmp_path / "f").read_bytes() == after


def test_bytes_that_are_not_utf_8_cannot_be_matched_nor_written_as_their_sign(
    tmp_path: Path,
) -> None:
    file = tmp_path / "f"
    file.write_bytes("déjà vu\n".encode() + b"a caf\xe9 in town\n")
    tools = bench(tmp_path)
    shown = text_of(tools.read("f"))
    assert "2\ta caf\ufffd in town\n" in shown

    assert refusal(tools.edit, "f", "a caf\ufffd in", "the café in") == (
        "Not edited: old_text is not in f. The \ufffd stands for a byte of the file that is not "
        "UTF-8, which no text matches: leave it out of old_text. Closest, line 2:\n"
        "2\ta caf\ufffd in town"
    )
    assert refusal(tools.edit, "f", "a caf\ufffd in town", "the café in town").endswith(
        "[line 2 has what is not UTF-8 at column 6, old_text '\\ufffd' (replacement character)]"
    )
    lost = (
        "Not written: \ufffd stands for bytes of f that are not UTF-8, and they would be lost. "
        "Leave them out of what you replace, or change them with bash."
    )
    assert refusal(tools.edit_lines, "f", "2", "one caf\ufffd in town") == lost
    assert refusal(tools.write, "f", "a caf\ufffd\n") == lost

    edited = tools.edit("f", " in town", " in tówn")
    assert isinstance(edited.details, Diff)
    assert "\n-a caf\ufffd in town\n+a caf\ufffd in tówn\n" in edited.details.unified
    assert file.read_bytes() == "déjà vu\n".encode() + b"a caf\xe9 in t" + "ówn\n".encode()

    tools.read("f")
    tools.edit_lines("f", "2", "a café in tówn")
    assert file.read_text(encoding="utf-8") == "déjà vu\na café in tówn\n"


def test_a_changed_file_takes_only_exact_edits(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(CODE)
    tools = bench(tmp_path)
    tools.read("a.py")
    file.write_text("# new\n" + CODE)
    assert refusal(tools.edit, "a.py", "x = 1\nreturn x", "x = 2\nreturn x") == (
        "Not edited: a.py changed on disk since you read it; read it again."
    )
    tools.edit("a.py", "x = 1", "x = 2")
    tools.edit("a.py", "x = 2\nreturn x", "x = 3\nreturn x")
    assert file.read_text() == "# new\n" + CODE.replace("x = 1", "x = 3")


def test_refusals_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text("a = 1\nb = 1\n")
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    (tmp_path / "binary").write_bytes(b"\0\1")
    (tmp_path / "huge").write_bytes(b"x" * ((10 << 20) + 1))
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("a = 1")
    tools = bench(tmp_path)
    calls = {
        ("confg.py", "a", "b"): "No such file: confg.py. Did you mean config.py?",
        ("latin", "café", "—"): 'latin is windows-1252, and "—" cannot be written in it.',
        ("binary", "a", "b"): "binary is binary: it has NUL bytes. Change it with bash.",
        ("huge", "x", "b"): "huge is larger than 10 MB, too large to change as text. Use "
        "sed in bash.",
        ("loop", "a", "b"): "loop is a symbolic link that leads back to itself.",
        (".", "a", "b"): ". is a directory, not a regular file.",
        ("/etc/passwd", "a", "b"): "/etc/passwd is outside the workspace. Tools reach only the "
        "workspace; for other files use bash.",
        (".git/config", "a", "b"): ".git/config is protected: git's own files and agentcli's "
        "settings are not for tools to write.",
        ("config.py", "", "b"): "Not edited: old_text is empty. To create or rewrite a file use "
        "write_file.",
        ("config.py", "a", "a"): "Not edited: old_text and new_text are the same.",
        ("config.py", " = 1", " = 2"): "Not edited: old_text occurs 2 times in config.py "
        "(lines 1, 2). Add surrounding lines, or set replace_all.",
        ("config.py", "c = 1", "c = 2"): "Not edited: old_text is not in config.py. Nothing in it "
        "is like it. Is it another file? grep for a few words of it, and copy the lines you find.",
        ("config.py", "a = 1", "a = \ud800"): 'config.py is utf-8, and "\\ud800" cannot be '
        "written in it.",
    }
    before = tree(tmp_path)
    assert {call: refusal(tools.edit, *call) for call in calls} == calls
    assert tree(tmp_path) == before


def test_a_long_answer_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"word{n} " + "x" * 900 + "\n" for n in range(30)))
    wanted = "".join(f"word{n} " + "x" * 900 + "\n" for n in range(20)) + "other\n"
    assert len(refusal(bench(tmp_path).edit, "a", wanted, "b")) <= 4000


def test_edits_of_one_file_in_one_turn_all_count(tmp_path: Path) -> None:
    numbers = range(20)
    (tmp_path / "a").write_text("".join(f"<{n}>\n" for n in numbers))
    (tmp_path / "link").symlink_to("a")
    tools = bench(tmp_path)

    async def all_at_once() -> None:
        tool = tools.edit_file
        async with asyncio.TaskGroup() as group:
            for n in numbers:
                args = EditFileArgs(
                    path="link" if n % 2 else "a", old_text=f"<{n}>", new_text=f"[{n}]"
                )
                group.create_task(tool.run(args, tools.context))

    asyncio.run(all_at_once())
    assert (tmp_path / "a").read_text() == "".join(f"[{n}]\n" for n in numbers)


def test_a_cancelled_edit_is_finished_before_the_next(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 3_000_000 + "\none\n")
    tools = bench(tmp_path)

    async def cancelled() -> None:
        args = EditFileArgs(path="a", old_text="one", new_text="two")
        task = asyncio.create_task(tools.edit_file.run(args, tools.context))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert (tmp_path / "a").read_bytes()[-4:] in (b"one\n", b"two\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_broken_hard_link_is_told_to_model_and_user(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    output = bench(tmp_path).edit("a", "one", "two")
    assert isinstance(output.details, Diff)
    assert output.details.notes == (
        "it had 1 other hard link, not changed: the old text is kept under those names",
    )
    assert text_of(output) == (
        "Edited a: line 1 (+1 -1).\n"
        "[it had 1 other hard link, not changed: the old text is kept under those names]"
    )


def test_preview_shows_the_diff_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    before = tree(tmp_path)
    tools = bench(tmp_path)
    shown = tools.preview(tools.edit_file, path="a.py", old_text="x = 1", new_text="x = 2")
    assert isinstance(shown, Diff) and (shown.added, shown.removed) == (1, 1)
    for path in ("a.py", "../a"):
        with pytest.raises(ToolError):
            tools.preview(tools.edit_file, path=path, old_text="no", new_text="x")
    assert tree(tmp_path) == before


@pytest.mark.parametrize(
    "names",
    [("file_path", "old_string", "new_string"), ("filePath", "oldText", "newText")],
)
def test_other_names_of_arguments_are_taken(tmp_path: Path, names: tuple[str, ...]) -> None:
    tool = bench(tmp_path).edit_file
    args = tool.parse(dict(zip(names, "abc", strict=True)))
    assert (args, tool.effect(args)) == (
        EditFileArgs(path="a", old_text="b", new_text="c"),
        Effect.WRITE,
    )


def edit_several(tools: Bench, path: str, *edits: tuple[str, str], **more: Any) -> Output:
    listed: Json = [{"old_text": old, "new_text": new} for old, new in edits]
    args = tools.edit_file.parse({"path": path, "edits": listed, **more})
    return asyncio.run(tools.edit_file.run(args, tools.context))


def test_several_edits_are_applied_in_order_and_shown_in_one_diff(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    edits = (("x = 1", "y = 1"), ("return x", "return y"), ("y = 1", "y = 2"))
    output = edit_several(bench(tmp_path), "a.py", *edits)
    after = CODE.replace("x = 1", "y = 2").replace("return x", "return y")
    assert (tmp_path / "a.py").read_text() == after
    assert text_of(output) == "Edited a.py: lines 3-4 (+2 -2)."
    assert isinstance(output.details, Diff)
    assert output.details.unified.endswith(
        "-        x = 1\n-        return x\n+        y = 2\n+        return y\n"
    )
    assert output.details.sha256 == compute_sha256(after.encode())


def test_distant_edits_of_a_long_file_show_only_what_changed(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"".join(b"line %d\r\n" % n for n in range(20_000)))
    output = edit_several(
        bench(tmp_path), "a", ("line 19998\n", "last\nlast\n"), ("line 0\n", "first\n")
    )
    assert text_of(output) == "Edited a: lines 1-20000 (+3 -2)."
    written = (tmp_path / "a").read_bytes()
    assert written.startswith(b"first\r\nline 1\r\n")
    assert written.endswith(b"line 19997\r\nlast\r\nlast\r\nline 19999\r\n")


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        (
            [("a = 1", "a = 2"), ("c = 1", "c = 2")],
            "Not edited: edits[1], after those before it: old_text is not in a.py.",
        ),
        ([(" = 1", " = 2")], "Not edited: edits[0]: old_text occurs 2 times in a.py (lines 1, 2)."),
        ([("a", "a")], "Not edited: edits[0]: old_text and new_text are the same."),
        ([("a = 1", "x"), ("x", "a = 1")], "Not edited: the edits together change nothing."),
    ],
)
def test_one_refused_edit_refuses_all(
    tmp_path: Path, edits: list[tuple[str, str]], told: str
) -> None:
    (tmp_path / "a.py").write_text("a = 1\nb = 1\n")
    assert refusal(edit_several, bench(tmp_path), "a.py", *edits).startswith(told)
    assert (tmp_path / "a.py").read_text() == "a = 1\nb = 1\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "old_text is missing (e.g. x = 1); new_text is missing (e.g. x = 2)."),
        ({"old_text": "a"}, 'new_text is missing (e.g. x = 2, or "" to delete old_text).'),
        ({"edits": []}, "old_text is missing (e.g. x = 1); new_text is missing (e.g. x = 2)."),
        (
            {"edits": [{"old_text": "a", "new_text": "b"}], "old_text": "a"},
            "give edits, or old_text and new_text, not both.",
        ),
        ({"edits": [{"old_text": "a"}]}, "edits.0.new_text is missing."),
    ],
)
def test_arguments_that_do_not_make_an_edit_are_invalid(
    tmp_path: Path, arguments: dict[str, Json], told: str
) -> None:
    with pytest.raises(ToolError) as raised:
        bench(tmp_path).edit_file.parse({"path": "a", **arguments})
    assert str(raised.value) == f"Invalid input: {told}"


def test_several_edits_take_other_names_too(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a a b\n")
    tools = bench(tmp_path)
    listed: Json = [
        {"old_string": "a", "new_string": "c", "replace_all": True},
        {"oldText": "b", "newText": "d"},
    ]
    args = tools.edit_file.parse({"file_path": "a", "old_text": "", "edits": listed})
    asyncio.run(tools.edit_file.run(args, tools.context))
    assert (tmp_path / "a").read_text() == "c c d\n"


LINES = "".join(f"line {number}\n" for number in range(1, 61))


def test_a_range_of_lines_as_last_read_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(LINES.replace("\n", "\r\n").encode())
    tools = bench(tmp_path)
    tools.read("a")
    assert text_of(tools.edit_lines("a", "2-58", "new")) == "Edited a: line 2 (+1 -57)."
    assert (tmp_path / "a").read_bytes() == b"line 1\r\nnew\r\nline 59\r\nline 60\r\n"
    tools.read("a")
    tools.edit_lines("a", [3, 4], "")
    assert (tmp_path / "a").read_bytes() == b"line 1\r\nnew\r\n"


def test_last_line_without_a_newline_stays_without(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo")
    tools = bench(tmp_path)
    tools.read("a")
    tools.edit_lines("a", 2, "three\n")
    assert (tmp_path / "a").read_text() == "one\nthree"


def test_a_range_whose_numbers_may_have_moved_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(LINES)
    tools = bench(tmp_path)
    moved = (
        "Not edited: a is not as you last read it, so line numbers may have moved. Look at the "
        "lines first (read_file path=a offset=5 limit=3), or give old_text."
    )
    assert refusal(tools.edit_lines, "a", "5-7", "x") == moved
    tools.read("a")
    tools.edit("a", "line 2\n", "line 2\nmore\n")
    assert refusal(tools.edit_lines, "a", "5-7", "x") == moved
    tools.read("a", limit=6)
    assert refusal(tools.edit_lines, "a", "5-7", "x") == (
        "Not edited: you have not seen all of lines 5-7. Read them: "
        "read_file path=a offset=5 limit=3."
    )
    (tmp_path / "a").write_text(LINES + "changed elsewhere\n")
    assert refusal(tools.edit_lines, "a", "5-7", "x") == moved


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"lines": "2-1", "new_text": ""}, "lines 2-1: the first number is the larger one."),
        ({"lines": "60-61", "new_text": ""}, "lines 60-61: a has lines 1-60."),
        ({"lines": "0", "new_text": ""}, "lines 0-0: a has lines 1-60."),
        ({"lines": "two", "new_text": ""}, 'lines must be like 40-96, not "two"'),
        ({"lines": "2-3"}, "new_text is missing"),
        ({"lines": "2", "new_text": "", "old_text": "x"}, "give lines with new_text, or old_text"),
        ({"lines": "2", "new_text": "line 2"}, "new_text is what these lines are already."),
    ],
)
def test_a_range_that_cannot_be_is_refused(
    tmp_path: Path, arguments: dict[str, Json], told: str
) -> None:
    (tmp_path / "a").write_text(LINES)
    tools = bench(tmp_path)
    tools.read("a")
    assert told in refusal(tools._run, tools.edit_file, path="a", **arguments)
    assert (tmp_path / "a").read_text() == LINES
