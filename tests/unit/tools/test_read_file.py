import base64
import codecs
import os
from pathlib import Path

import pytest

from agentcli.system.pdf import read_pdf
from agentcli.tools import read_file
from agentcli.tools.arguments import parse_arguments
from agentcli.tools.read_file import ReadFile, ReadFileArgs
from agentcli.tools.seen import compute_sha256
from agentcli.tools.text_file import LIMIT_BYTES
from agentcli.types.messages import Document, Image, Text
from agentcli.types.tools import Effect, FileView
from tests.support.files import bench, refusal, text_of
from tests.support.pdf import make_pdf
from tests.support.pictures import image, png


def read(root: Path, data: bytes, **arguments: int) -> str:
    (root / "f.txt").write_bytes(data)
    return text_of(bench(root).read("f.txt", **arguments))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"one\ntwo\n", "1\tone\n2\ttwo"),
        (b"one\n\ttwo", "1\tone\n2\t\ttwo\n[no newline at the end]"),
        (b"\n\n", "1\t\n2\t"),
        (b"", "[empty file]"),
        (b"one\r\ntwo\r\n", "1\tone\n2\ttwo\n[CRLF line endings]"),
        (b"one\r\ntwo\n", "1\tone\n2\ttwo\n[mixed CRLF and LF line endings]"),
        (b"a\rb\x0cc\xc2\x85d\xe2\x80\xa8e\n", "1\ta\rb\x0cc\x85d\u2028e"),
        (b"caf\xe9\n", "1\tcafé\n[encoding windows-1252]"),
        (
            "déjà vu\n".encode() + b"caf\xe9\n",
            "1\tdéjà vu\n2\tcaf\ufffd\n"
            "[encoding utf-8 with invalid bytes, shown as \ufffd; edits keep them]",
        ),
        (codecs.BOM_UTF8 + b"x\n", "1\tx\n[encoding utf-8 with BOM]"),
        (
            codecs.BOM_UTF16_LE + "é\r\n".encode("utf-16-le"),
            "1\té\n[CRLF line endings]\n[encoding utf-16-le]",
        ),
    ],
)
def test_lines_are_numbered_and_what_they_do_not_show_is_said(
    tmp_path: Path, data: bytes, text: str
) -> None:
    assert read(tmp_path, data) == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"limit": 2}, "1\tl1\n2\tl2\n[lines 1-2 of 5; continue with offset=3]"),
        ({"offset": 4}, "4\tl4\n5\tl5\n[lines 4-5 of 5]"),
        ({"offset": 2, "limit": 1}, "2\tl2\n[lines 2-2 of 5; continue with offset=3]"),
        ({"offset": -2}, "4\tl4\n5\tl5\n[lines 4-5 of 5]"),
        ({"offset": -99}, "1\tl1\n2\tl2\n3\tl3\n4\tl4\n5\tl5"),
        ({"offset": 0, "limit": 1}, "1\tl1\n[lines 1-1 of 5; continue with offset=2]"),
    ],
)
def test_a_part_is_read_from_either_end(
    tmp_path: Path, arguments: dict[str, int], text: str
) -> None:
    assert read(tmp_path, b"l1\nl2\nl3\nl4\nl5\n", **arguments) == text


@pytest.mark.parametrize("first", [1, 2, 81, 82, 83, 500, 998])
def test_part_of_a_long_file_is_the_same_wherever_it_begins(tmp_path: Path, first: int) -> None:
    lines = [f"line {number} {'x' * (number % 90)}" for number in range(1, 1001)]
    data = "".join(f"{line}\n" for line in lines).encode()
    shown = [f"{number}\t{lines[number - 1]}" for number in range(first, first + 3)]
    told = read(tmp_path, data, offset=first, limit=3).split("\n")
    assert told[:3] == shown
    assert told[3].startswith(f"[lines {first}-{first + 2} of 1000")


@pytest.mark.skipif(not Path("/proc/self/mounts").exists(), reason="there is no such file system")
def test_file_that_does_not_know_its_size_is_read_to_its_end() -> None:
    root = Path("/proc/sys/kernel")
    told = text_of(bench(root).read("ostype"))
    assert told == f"1\t{(root / 'ostype').read_text().strip()}"


def test_past_the_end_tells_the_number_of_lines(tmp_path: Path) -> None:
    assert refusal(read, tmp_path, b"a\nb\n", offset=10**12) == (
        "The file has 2 lines; offset 1000000000000 is past the end. offset=-50 shows the last 50."
    )


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    assert refusal(parse_arguments, ReadFileArgs, {"path": "x", "limit": limit}) == (
        f"Invalid input: limit must be greater than or equal to 1, not {limit} (Lines, e.g. 100)."
    )


def test_output_is_cut_at_lines_bytes_and_characters(tmp_path: Path) -> None:
    many = read(tmp_path, b"x\n" * 5231, limit=9999)
    assert many.endswith("2000\tx\n[lines 1-2000 of 5231; continue with offset=2001]")
    wide = read(tmp_path, ("é" * 1000 + "\n").encode() * 100)
    assert wide.endswith("\n[lines 1-24 of 100; continue with offset=25]")
    assert len(wide.encode()) < 50_100
    long = read(tmp_path, b"y" * 31_234)
    assert long == (
        f"1\t{'y' * 2000}… [line has 31234 characters]\n"
        "[line 1 is cut: sed -n 1p FILE | cut -c2001- in bash shows the rest]\n"
        "[no newline at the end]"
    )


def test_details_are_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "f.txt").write_bytes(b"a\nb\nc\n")
    output = bench(tmp_path).read("f.txt", offset=2, limit=1)
    assert (output.details, output.truncated) == (
        FileView(
            path="f.txt",
            media="text",
            size_bytes=6,
            first_line=2,
            last_line=2,
            total_lines=3,
            encoding="utf-8",
            sha256=compute_sha256(b"a\nb\nc\n"),
            shown=((2, 2),),
        ),
        True,
    )


def test_a_directory_is_listed(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "two\nlines").write_text("")
    (tmp_path / os.fsdecode(b"bad\xff")).write_text("")
    (tmp_path / "link").symlink_to("sub")
    assert text_of(bench(tmp_path).read(".")) == "bad\\xff\nlink\nsub/\ntwo\\nlines"
    assert text_of(bench(tmp_path).read("sub")) == "[empty directory]"


def test_a_long_listing_is_cut(tmp_path: Path) -> None:
    for number in range(503):
        (tmp_path / f"{number:03}").touch()
    read = bench(tmp_path).read
    output = read(".")
    assert output.truncated
    assert text_of(output).endswith("498\n499\n[entries 1-500 of 503; continue with offset=501]")
    assert text_of(read(".", offset=501)) == "500\n501\n502\n[entries 501-503 of 503]"
    assert text_of(read(".", offset=-1)) == "502\n[entries 503-503 of 503]"
    assert refusal(read, ".", offset=504) == "It has 503 entries; offset 504 is past the end."


def test_a_listing_of_long_names_stays_within_the_limit(tmp_path: Path) -> None:
    for number in range(250):
        (tmp_path / f"{number:0250}").touch()
    output = text_of(bench(tmp_path).read("."))
    assert output.endswith("[entries 1-199 of 250; continue with offset=200]")


def test_an_image_is_shown_to_models_that_take_them(tmp_path: Path) -> None:
    (tmp_path / "logo").write_bytes(png(30, 20))
    assert bench(tmp_path).read("logo").content == (image(png(30, 20)),)
    assert refusal(bench(tmp_path, images=False).read, "logo") == (
        "logo is an image (image/png), and this model does not take images. Tell "
        "the user if you need to know what it shows."
    )


def test_a_large_image_is_shown_smaller_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "wide.png").write_bytes(png(5000, 10))
    label, shown = bench(tmp_path).read("wide.png").content
    assert label == Text(text="[image wide.png · 5000x10, shown as 2000x4]")
    assert isinstance(shown, Image)


def test_an_image_that_cannot_be_decoded_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cut.png").write_bytes(png(300, 200)[:60])
    assert refusal(bench(tmp_path).read, "cut.png").startswith("cut.png cannot be shown: it is")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x7fELF\0" + b"x" * 48_208, "binary file, 48 213 bytes (ELF executable)"),
        (b"a\0b", "binary file, 3 bytes (use bash with file, strings or xxd)"),
        (b"\xff\xfea", "binary file, 3 bytes (use bash with file, strings or xxd)"),
    ],
)
def test_binary_files_are_named(tmp_path: Path, data: bytes, text: str) -> None:
    assert read(tmp_path, data) == text


def test_missing_outside_and_special_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "config.py").write_text("")
    os.mkfifo(tmp_path / "fifo")
    tools = bench(tmp_path)
    assert [refusal(tools.read, path) for path in ("confg.py", "../x", "/dev/zero", "fifo")] == [
        "No such file: confg.py. Did you mean config.py?",
        "../x is outside the workspace. Tools reach only the workspace; for other files use bash.",
        "/dev/zero is outside the workspace. Tools reach only the workspace; for other files "
        "use bash.",
        "fifo is a named pipe (FIFO), not a regular file.",
    ]


def test_other_names_of_arguments_are_taken(tmp_path: Path) -> None:
    tool: ReadFile = bench(tmp_path).read_file
    args = tool.parse({"file_path": "a", "offset": None})
    assert (args, tool.effect(args)) == (ReadFileArgs(path="a"), Effect.READ)


def test_full_outputs_in_a_readable_root_are_read(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/1.log").write_text("printed\n")
    tools = bench(tmp_path / "ws", readable=(tmp_path / "out",))
    assert text_of(tools.read(str(tmp_path / "out/1.log"))) == "1\tprinted"


LINE = b"0123456789 abcdefghijklmnopqrstuvwxyz \xc3\xa9\n"
COUNT = LIMIT_BYTES // len(LINE) + 10


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("big")
    (root / "utf8").write_bytes(LINE * COUNT)
    (root / "late").write_bytes(LINE * COUNT + b"\xff\n")
    latin = LINE.decode().encode("latin-1")
    (root / "latin").write_bytes(b"x" * 9000 + b"\n" + latin * (COUNT * 2))
    wide = LINE.decode().replace("\n", "\r\n").encode("utf-16-be")
    (root / "utf16").write_bytes(codecs.BOM_UTF16_BE + wide * COUNT)
    (root / "torn").write_bytes(codecs.BOM_UTF16_BE + wide * COUNT + b"\xd8\x00\x00a")
    (root / "oneline").write_bytes(b"x" * (LIMIT_BYTES + 1))
    return root


SHOWN = LINE.decode().rstrip("\n")
STRAYS = "[encoding utf-8 with invalid bytes, shown as \ufffd; edits keep them]"


@pytest.mark.parametrize(
    ("path", "arguments", "text"),
    [
        ("utf8", {"limit": 1}, f"1\t{SHOWN}\n[lines 1-1; continue with offset=2]"),
        (
            "utf8",
            {"offset": 5000, "limit": 1},
            f"5000\t{SHOWN}\n[lines 5000-5000; continue with offset=5001]",
        ),
        ("utf8", {"offset": COUNT}, f"{COUNT}\t{SHOWN}\n[lines {COUNT}-{COUNT} of {COUNT}]"),
        ("utf8", {"offset": -1}, f"-1\t{SHOWN}\n[lines -1 to -1, counted from the end]"),
        (
            "utf8",
            {"offset": -9000, "limit": 1},
            f"-9000\t{SHOWN}\n[lines -9000 to -9000, counted from the end; "
            "continue with offset=-8999]",
        ),
        (
            "utf16",
            {"offset": -1},
            f"-1\t{SHOWN}\n[lines -1 to -1, counted from the end]\n[encoding utf-16-be]",
        ),
        (
            "utf16",
            {"offset": 3, "limit": 1},
            f"3\t{SHOWN}\n[lines 3-3; continue with offset=4]\n[encoding utf-16-be]",
        ),
        (
            "late",
            {"offset": -1},
            f"-1\t\ufffd\n[lines -1 to -1, counted from the end]\n{STRAYS}",
        ),
        (
            "late",
            {"offset": COUNT + 1},
            f"{COUNT + 1}\t\ufffd\n[lines {COUNT + 1}-{COUNT + 1} of {COUNT + 1}]\n{STRAYS}",
        ),
        (
            "latin",
            {"offset": -1},
            f"-1\t{SHOWN}\n[lines -1 to -1, counted from the end]\n[encoding windows-1252]",
        ),
        (
            "latin",
            {"offset": 2, "limit": 1},
            f"2\t{SHOWN}\n[lines 2-2; continue with offset=3]\n[encoding windows-1252]",
        ),
        (
            "oneline",
            {},
            f"1\t{'x' * 2000}… [line has {LIMIT_BYTES + 1} characters]",
        ),
    ],
)
def test_of_a_very_large_file_only_the_way_to_the_lines_is_read(
    big: Path, path: str, arguments: dict[str, int], text: str
) -> None:
    assert text_of(bench(big).read(path, **arguments)) == text


def test_past_the_end_of_a_very_large_file(big: Path) -> None:
    assert [refusal(bench(big).read, path, offset=10**9) for path in ("utf8", "oneline")] == [
        f"The file has {COUNT} lines; offset 1000000000 is past the end. offset=-50 shows the "
        "last 50.",
        "The file has 1 line; offset 1000000000 is past the end. offset=-50 shows the last 50.",
    ]


def test_a_very_large_file_that_only_begins_like_text_is_binary(big: Path) -> None:
    assert text_of(bench(big).read("torn", offset=-1)).startswith("binary file, ")


def test_a_sparse_giant_costs_no_more_than_its_end(tmp_path: Path) -> None:
    with (tmp_path / "giant").open("wb") as file:
        file.write(b"start\n" + b"x" * 9000)
        file.seek(20 * 10**9)
        file.write(b"\nlast\n")
    assert text_of(bench(tmp_path).read("giant", offset=-1)) == (
        "-1\tlast\n[lines -1 to -1, counted from the end]"
    )
    assert refusal(bench(tmp_path).read, "giant", offset=-9).startswith("The last 4 MB of the")
    assert text_of(bench(tmp_path).read("giant", limit=1)) == (
        "1\tstart\n[lines 1-1; continue with offset=2]"
    )
    assert "… [line has more than 6" in text_of(bench(tmp_path).read("giant"))


def test_pdf_is_read_by_page(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    data = make_pdf("One", "", "Three")
    assert read(tmp_path, data, offset=2, limit=1) == (
        "[page 2 of 3]\n[no text: it is an image]\n[pages 2-2 of 3; continue with offset=3]\n"
        "[its pages are images; the user can show them with an @ before the path]"
    )
    whole = read(tmp_path, data)
    assert whole.startswith("[page 1 of 3]\nOne\n[page 2 of 3]\n")
    assert whole.endswith("[page 3 of 3]\nThree\n[pages 1-3 of 3]")


def test_negative_offset_counts_the_last_pages_of_a_pdf(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    data = make_pdf(*map(str, range(1, 31)))
    assert read(tmp_path, data, offset=-2) == (
        "[page 29 of 30]\n29\n[page 30 of 30]\n30\n[pages 29-30 of 30]"
    )
    assert read(tmp_path, data, offset=-9, limit=1) == (
        "[page 22 of 30]\n22\n[pages 22-22 of 30; continue with offset=23]"
    )
    document, note = read_document(tmp_path, data, offset=-3)
    assert (document.pages, count_pages(document), note) == (3, 3, "[pages 28-30 of 30]")
    assert document.text.startswith("[page 28 of 30]\n28\n")


def read_document(root: Path, data: bytes, *, offset: int = 1) -> tuple[Document, str]:
    (root / "f.pdf").write_bytes(data)
    document, note = bench(root, documents=True).read("f.pdf", offset=offset).content
    assert isinstance(document, Document) and isinstance(note, Text)
    return document, note.text


def count_pages(document: Document) -> int:
    return read_pdf(base64.b64decode(document.data), limit=999).count


def test_document_has_the_pages_whose_text_fits(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    document, note = read_document(tmp_path, make_pdf(*("x" * 15_000 for _ in range(6))))
    assert (document.pages, count_pages(document)) == (3, 3)
    assert note == "[pages 1-3 of 6; continue with offset=4]"
    document, note = read_document(tmp_path, make_pdf(*map(str, range(30))))
    assert (document.pages, count_pages(document)) == (10, 10)
    assert note == "[pages 1-10 of 30; continue with offset=11]"
    scan, note = read_document(tmp_path, make_pdf("", ""))
    assert count_pages(scan) == 2 and note == "[pages 1-2 of 2]"


def test_document_is_as_small_as_a_request_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    data = make_pdf(*("word " * 200 for _ in range(8)))
    whole, _ = read_document(tmp_path, data)
    monkeypatch.setattr(read_file, "LIMIT_DOCUMENT_CHARS", len(whole.data) // 2)
    document, note = read_document(tmp_path, data)
    assert 1 <= document.pages < 8 and len(document.data) <= len(whole.data) // 2
    assert count_pages(document) == document.pages
    assert note == f"[pages 1-{document.pages} of 8; continue with offset={document.pages + 1}]"
