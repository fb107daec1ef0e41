import os
from pathlib import Path

import pytest

from agentcli.system.output import BoundedOutput, OutputExcerpt, cap, group_digits


def kept(tmp_path: Path, data: bytes, *, chunk_bytes: int = 65_536) -> BoundedOutput:
    path = tmp_path / "1.log"
    bounded = BoundedOutput(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    for at in range(0, len(data), chunk_bytes):
        bounded.feed(data[at : at + chunk_bytes])
    bounded.close()
    return bounded


def shown(bounded: BoundedOutput) -> OutputExcerpt:
    return bounded.read_lines().build_excerpt(limit_bytes=30_000, head_bytes=10_000)


def test_numbers_are_grouped_by_thousands() -> None:
    assert [group_digits(number) for number in (0, 999, 1000, 4_812_331)] == [
        "0",
        "999",
        "1 000",
        "4 812 331",
    ]


def test_short_output_is_shown_whole(tmp_path: Path) -> None:
    assert shown(kept(tmp_path, b"a\nb")) == OutputExcerpt(
        text="a\nb", lines=2, shown_lines=2, is_cut=False
    )
    assert shown(kept(tmp_path, b"")) == OutputExcerpt(
        text="", lines=0, shown_lines=0, is_cut=False
    )


def test_long_output_is_its_ends_and_a_note(tmp_path: Path) -> None:
    data = b"".join(b"%09d\n" % number for number in range(100_000))
    result = shown(kept(tmp_path, data))
    head = "".join(f"{number:09}\n" for number in range(1_000))
    tail = "".join(f"{number:09}\n" for number in range(98_000, 100_000))
    note = (
        f"[... 970 000 bytes, 97 000 lines left out; all of it: {tmp_path}/1.log, "
        "read it with read_file or grep ...]\n"
    )
    assert result == OutputExcerpt(
        text=head + note + tail, lines=100_000, shown_lines=3_000, is_cut=True
    )
    assert (tmp_path / "1.log").read_bytes() == data


def test_output_over_the_limit_but_within_memory_is_cut_as_well(tmp_path: Path) -> None:
    data = b"".join(b"%09d\n" % number for number in range(5_000))
    note = "[... 20 000 bytes, 2 000 lines left out; all of it:"
    assert note in shown(kept(tmp_path, data)).text


def test_long_line_is_cut_in_its_middle(tmp_path: Path) -> None:
    result = shown(kept(tmp_path, b"before\n" + b"x" * 1500 + b"y" * 1500 + b"\nafter\n"))
    assert result.text == (
        f"before\n{'x' * 1000}[... 1 001 characters left out ...]{'y' * 999}\nafter\n"
        f"[... lines were cut; all of it: {tmp_path}/1.log, read it with read_file or grep ...]\n"
    )
    assert (result.lines, result.shown_lines, result.is_cut) == (3, 3, True)


def test_one_endless_line_shows_its_ends(tmp_path: Path) -> None:
    result = shown(kept(tmp_path, b"a" * 5_000_000 + b"z" * 5_000_000))
    assert result == OutputExcerpt(
        text=f"{'a' * 1000}\n[... 9 998 000 bytes left out; all of it: {tmp_path}/1.log, "
        f"read it with read_file or grep ...]\n{'z' * 1000}",
        lines=1,
        shown_lines=1,
        is_cut=True,
    )


def test_cut_through_a_character_leaves_no_trace(tmp_path: Path) -> None:
    result = shown(kept(tmp_path, "é€😀".encode() * 100_000))
    assert "�" not in result.text


def test_invalid_bytes_are_replaced_once_each(tmp_path: Path) -> None:
    assert shown(kept(tmp_path, b"a\xff\xfeb\x00")).text == "a��b�"


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7])
def test_character_split_between_chunks_is_whole(tmp_path: Path, chunk_bytes: int) -> None:
    bounded = kept(tmp_path, "é€😀\n".encode(), chunk_bytes=chunk_bytes)
    assert shown(bounded).text == "é€😀\n"


def test_card_is_all_of_a_short_output(tmp_path: Path) -> None:
    bounded = kept(tmp_path, b"\x1b[1ma\x1b[0m\nb\nc\n")
    assert bounded.read_lines().build_card(first=1, last=2) == ("a\nb\nc", "")


def test_card_is_the_ends_of_a_long_output(tmp_path: Path) -> None:
    bounded = kept(tmp_path, b"".join(b"%d\n" % number for number in range(100_000)))
    assert bounded.read_lines().build_card(first=2, last=2) == ("0\n1", "99998\n99999")
    bounded = kept(tmp_path, b"a\nb\nc\nd\n")
    assert bounded.read_lines().build_card(first=1, last=2) == ("a", "c\nd")


def test_latest_lines_are_plain(tmp_path: Path) -> None:
    bounded = kept(tmp_path, b"a\nb\n\x1b[1m10%\r\x1b[32m20%")
    assert bounded.read_last_lines(2) == "b\n20%"


def test_log_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    bounded = BoundedOutput(tmp_path / "full", os.open("/dev/full", os.O_WRONLY))
    bounded.feed(b"x\n" * 50_000)
    bounded.close()
    assert bounded.log_fault == "No space left on device"
    assert "the first 0 bytes, 0 lines, of it:" in shown(bounded).text


def test_log_has_a_limit_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "1.log"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    bounded = BoundedOutput(path, handle, limit_bytes=1000)
    for _ in range(50_000):
        bounded.feed(b"012345\n")
    bounded.close()
    assert path.read_bytes() == b"012345\n" * 142 + b"012345"
    assert bounded.log_fault == "it ends at 1 000 bytes"
    assert bounded.lines == 143
    assert "bytes left out; the first 1 000 bytes, 143 lines, of it:" in shown(bounded).text


def test_lines_are_those_of_the_log_however_the_output_is_cut(tmp_path: Path) -> None:
    for data, lines in ((b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"\n\n", 2)):
        for chunk_bytes in (1, 2, 65_536):
            assert kept(tmp_path, data, chunk_bytes=chunk_bytes).lines == lines


def test_cap_leaves_what_fits_alone() -> None:
    assert cap("é" * 50, 100) == ("é" * 50, False)


def test_cap_says_what_it_left_out() -> None:
    text, was_cut = cap("a" * 5_000 + "z" * 5_000, 1_000)
    assert was_cut
    assert len(text) <= 1_000
    assert text == f"{'a' * 313}\n[... 9 060 bytes left out ...]\n{'z' * 627}"
