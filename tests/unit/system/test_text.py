import codecs

import pytest

from agentcli.system.text import (
    Encoding,
    NotText,
    Splice,
    choose_majority_ending,
    decode,
    set_line_ending,
    show_strays,
    sniff,
    splice,
    to_printable,
)


@pytest.mark.parametrize(
    ("data", "text", "name"),
    [
        (b"", "", "utf-8"),
        (b"plain", "plain", "utf-8"),
        ("é—".encode(), "é—", "utf-8"),
        (codecs.BOM_UTF8 + "é".encode(), "é", "utf-8 with BOM"),
        (codecs.BOM_UTF16_LE + "é\n".encode("utf-16-le"), "é\n", "utf-16-le"),
        (codecs.BOM_UTF16_BE + "😀".encode("utf-16-be"), "😀", "utf-16-be"),
        (codecs.BOM_UTF32_LE + "é".encode("utf-32-le"), "é", "utf-32-le"),
        (b"caf\xe9", "café", "windows-1252"),
        (b"\x93caf\xe9\x94 \x81", "“café” \x81", "windows-1252"),
        (codecs.BOM_UTF8 + b"\xff", "\udcff", "utf-8 with BOM and invalid bytes"),
        ("é".encode() + b" \xe9", "é \udce9", "utf-8 with invalid bytes"),
        ("é—é".encode() + b" \xe9", "é—é \udce9", "utf-8 with invalid bytes"),
        (b"\xff" + "日本語".encode()[:-1], "\udcff日本\udce8\udcaa", "utf-8 with invalid bytes"),
        ("é".encode() * 5000 + b"\xff", "é" * 5000 + "\udcff", "utf-8 with invalid bytes"),
        ("« LIBERTÉ »".encode("cp1252"), "« LIBERTÉ »", "windows-1252"),
        ("„Spaß“ für".encode("cp1252"), "„Spaß“ für", "windows-1252"),
        (b"x" * 9000 + b"\xff", "x" * 9000 + "ÿ", "windows-1252"),
        (b"x" * 9000 + b"\0", "x" * 9000 + "\0", "utf-8"),
        (b"caf\xc3", "cafÃ", "windows-1252"),
    ],
)
def test_decode_gives_text_that_encodes_to_the_same_bytes(
    data: bytes, text: str, name: str
) -> None:
    decoded, encoding = decode(data)
    assert (decoded, encoding.name, encoding.encode(decoded)) == (text, name, data)


def test_every_byte_survives() -> None:
    data = bytes(range(1, 256))
    text, encoding = decode(data)
    assert encoding.encode(text) == data


@pytest.mark.parametrize(
    "data", [b"a\0b", codecs.BOM_UTF16_LE + b"\x00", codecs.BOM_UTF16_LE + b"\x00\xd8a\x00"]
)
def test_binary_is_not_decoded(data: bytes) -> None:
    with pytest.raises(NotText):
        decode(data)


def test_only_proven_windows_1252_takes_its_characters() -> None:
    latin, windows = decode(b"\xe9")[1], decode(b"\xe9\x97")[1]
    assert windows.encode("—") == b"\x97"
    with pytest.raises(UnicodeEncodeError):
        latin.encode("—")


def test_sniff_does_not_mind_a_cut_character() -> None:
    assert sniff("é".encode()[:1]) == Encoding(codec="utf-8")


def test_stray_bytes_are_shown_one_for_one() -> None:
    text = decode("ééé".encode() + b" \xe9\xff \xef\xbf\xbd")[0]
    assert (show_strays(text), show_strays("é\ud800")) == ("ééé \ufffd\ufffd \ufffd", "é\ud800")


def test_endings_are_by_majority() -> None:
    assert [choose_majority_ending(text) for text in ("", "a\nb\r\n", "a\r\nb\r\nc\n", "a\r")] == [
        "\n",
        "\n",
        "\r\n",
        "\n",
    ]
    assert set_line_ending("a\r\nb\nc\r", "\r\n") == "a\r\nb\r\nc\r"


def test_splices_leave_the_rest() -> None:
    splices = [Splice(start=1, end=2, text="XX"), Splice(start=3, end=3, text="-")]
    assert splice("abcd", splices) == "aXXc-d"


def test_printable_is_one_bounded_line() -> None:
    assert to_printable("a\nb\x1b[0m\udcff\u202e") == "a\\nb\\x1b[0m\\xff\\u202e"
    assert len(to_printable("x" * 10_000)) == 301
