import codecs
import os
from pathlib import Path

import pytest

from agentcli.tools.seen import compute_sha256
from agentcli.tools.write_file import WriteFileArgs
from agentcli.types.errors import ToolError
from agentcli.types.tools import Diff, Effect, KnownFile
from tests.support.files import bench, refusal, text_of, tree


def test_a_new_file_is_created_with_its_directories(tmp_path: Path) -> None:
    output = bench(tmp_path).write("a/b/new.py", "x = 1\ny = é\n")
    assert text_of(output) == "Created a/b/new.py: 2 lines."
    digest = compute_sha256("x = 1\ny = é\n".encode())
    assert output.details == Diff(
        path="a/b/new.py",
        unified="--- /dev/null\n+++ b/a/b/new.py\n@@ -0,0 +1,2 @@\n+x = 1\n+y = é\n",
        added=2,
        removed=0,
        created=True,
        sha256=digest,
        known=(KnownFile(path="a/b/new.py", sha256=digest, lines=((1, 2),)),),
    )
    assert tree(tmp_path) == {"a/b/new.py": "x = 1\ny = é\n".encode()}


@pytest.mark.parametrize(
    ("content", "told"), [("", "0 lines"), ("x", "1 line"), ("x\n", "1 line"), ("\n\n", "2 lines")]
)
def test_lines_are_counted(tmp_path: Path, content: str, told: str) -> None:
    assert text_of(bench(tmp_path).write("f", content)) == f"Created f: {told}."


def test_an_existing_file_must_have_been_read_and_be_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("one\n")
    tools = bench(tmp_path)
    assert refusal(tools.write, "a.py", "new") == (
        "Not written: a.py exists and you have not read it. Read it first, or use edit_file."
    )
    tools.read("a.py")
    file.write_text("two\n")
    assert refusal(tools.write, "a.py", "new") == (
        "Not written: a.py changed on disk since you read it. Read it again, or use edit_file."
    )
    assert file.read_text() == "two\n"
    tools.read("a.py")
    assert text_of(tools.write("a.py", "new\n")) == "Wrote a.py: 1 line (+1 -1)."
    assert text_of(tools.write("a.py", "newer\n")) == "Wrote a.py: 1 line (+1 -1)."


def test_what_was_not_shown_would_be_lost_and_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("".join(f"line {number}\n" for number in range(1, 6001)))
    tools = bench(tmp_path)
    tools.read("a.py", limit=3)
    assert refusal(tools.write, "a.py", "new") == (
        "Not written: you have not seen 5997 of the 6000 lines of a.py, and they would be lost. "
        "Read the rest first (read_file path=a.py offset=4 limit=5997), or change a part with "
        "edit_file."
    )
    for offset in (1, 2001, 4001):
        tools.read("a.py", offset=offset)
    assert text_of(tools.write("a.py", "new\n")) == "Wrote a.py: 1 line (+1 -6000)."


def test_line_that_was_cut_for_its_length_was_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"one\n{'x' * 3000}\n")
    tools = bench(tmp_path)
    tools.read("a.py")
    assert refusal(tools.write, "a.py", "new") == (
        "Not written: you have not seen 1 of the 2 lines of a.py, and they would be lost. "
        "Line 2 is too long to be shown whole: change a part with edit_file, or rewrite it with "
        "bash."
    )


def test_the_same_content_is_not_written_again(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text("one\n")
    before = file.stat()
    tools = bench(tmp_path)
    tools.read("a.py")
    assert text_of(tools.write("a.py", "one\n")) == "a.py already has exactly this content."
    assert file.stat().st_ino == before.st_ino


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "c\r\nd\n", b"c\r\nd\r\n"),
        (b"a\nb\n", "c\r\nd", b"c\nd"),
        (b"caf\xe9\n", "th\u00e9\n", b"th\xe9\n"),
        (codecs.BOM_UTF8 + b"a\n", "\ufeffb\n", codecs.BOM_UTF8 + b"b\n"),
        (
            codecs.BOM_UTF16_BE + "a\r\n".encode("utf-16-be"),
            "é\n",
            codecs.BOM_UTF16_BE + "é\r\n".encode("utf-16-be"),
        ),
        (b"", "c\r\n", b"c\r\n"),
    ],
)
def test_a_rewrite_keeps_encoding_and_line_endings(
    tmp_path: Path, before: bytes, content: str, after: bytes
) -> None:
    (tmp_path / "f").write_bytes(before)
    tools = bench(tmp_path)
    tools.read("f")
    tools.write("f", content)
    assert (tmp_path / "f").read_bytes() == after


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9\n")
    (tmp_path / "binary").write_bytes(b"\0")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    tools = bench(tmp_path)
    tools.read("latin")
    before = tree(tmp_path / "folder")
    assert {
        path: refusal(tools.write, path, content)
        for path, content in {
            "latin": "日本",
            "binary": "x",
            "folder": "x",
            "fifo": "x",
            "new/": "x",
            "latin/x": "x",
            "../x": "x",
            ".git/hooks/pre-commit": "x",
            "surrogate": "\ud800",
            "huge": "x" * (11 << 20),
        }.items()
    } == {
        "latin": 'latin is windows-1252, and "日" cannot be written in it.',
        "binary": "binary is binary: it has NUL bytes. Change it with bash.",
        "folder": "folder is a directory, not a regular file.",
        "fifo": "fifo is a named pipe (FIFO), not a regular file.",
        "new/": "Not written: new/ names a directory, not a file.",
        "latin/x": "Not written: latin/x: what should be its directory is a file. Nothing changed.",
        "../x": "../x is outside the workspace. Tools reach only the workspace; for other files "
        "use bash.",
        ".git/hooks/pre-commit": ".git/hooks/pre-commit is protected: git's own files and "
        "agentcli's settings are not for tools to write.",
        "surrogate": 'surrogate is utf-8, and "\\ud800" cannot be written in it.',
        "huge": "Not written: huge would be larger than 10 MB.",
    }
    assert tree(tmp_path / "folder") == before
    assert not (tmp_path / "new").exists()


def test_preview_shows_the_diff_and_changes_nothing(tmp_path: Path) -> None:
    tools = bench(tmp_path)
    shown = tools.preview(tools.write_file, path="a/new.py", content="x\n")
    assert isinstance(shown, Diff) and shown.added == 1 and shown.created
    assert tree(tmp_path) == {} and not (tmp_path / "a").exists()
    (tmp_path / "old").write_text("")
    for path in ("old", "../x"):
        with pytest.raises(ToolError):
            tools.preview(tools.write_file, path=path, content="x")


def test_other_names_of_arguments_are_taken(tmp_path: Path) -> None:
    tool = bench(tmp_path).write_file
    args = tool.parse({"filePath": "a", "contents": "b"})
    assert (args, tool.effect(args)) == (WriteFileArgs(path="a", content="b"), Effect.WRITE)
