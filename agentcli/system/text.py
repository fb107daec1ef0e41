"""Bytes to text and back without the loss of a byte.

`decode` never replaces anything: what it returns encodes to the same bytes. Lines end at a newline
and nowhere else, so form feeds, lone carriage returns and the like are ordinary characters.
"""

import codecs
from collections.abc import Sequence
from typing import Literal

from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

Ending = Literal["\n", "\r\n"]

SNIFFED_BYTES = 8192
SHOWN_PATH_CHARS = 300

# Every byte has a character: if Windows-1252 defines none, the one with the byte's own number.
_WINDOWS_1252 = "".join(
    bytes([byte]).decode("cp1252", "ignore") or chr(byte) for byte in range(256)
)
_ITS_BYTES = codecs.charmap_build(_WINDOWS_1252)
_ONLY_WINDOWS = bytes(range(0x80, 0xA0))

STRAY_SHOWN = "\ufffd"
"""What a stray byte is shown as: a byte of a UTF-8 file that is not UTF-8."""
_STRAY = compile_later("[\udc80-\udcff]")
"""How Python carries such a byte in a text."""

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose BOM is the beginning of this one
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


class NotText(ValueError):
    """The bytes are not text that could be written back unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    codec: str
    bom: bytes = b""
    has_strays: bool = False
    """True for UTF-8 with bytes that are not. A text has half a surrogate pair for each."""

    @property
    def name(self) -> str:
        """The name for models and users."""
        if self.codec in ("latin-1", "windows-1252"):
            return "windows-1252"
        if self.codec != "utf-8":
            return self.codec
        extras = ["BOM"] * bool(self.bom) + ["invalid bytes"] * self.has_strays
        return " with ".join(("utf-8", " and ".join(extras))) if extras else "utf-8"

    @property
    def errors(self) -> Literal["strict", "surrogateescape"]:
        """What a codec does with bytes that do not fit."""
        return "surrogateescape" if self.has_strays else "strict"

    def encode(self, text: str) -> bytes:
        """Return the bytes. Raise UnicodeEncodeError for a character the encoding does not have."""
        if self.codec == "windows-1252":
            return self.bom + codecs.charmap_encode(text, "strict", _ITS_BYTES)[0]
        return self.bom + text.encode(self.codec, self.errors)

    def decode(self, data: bytes) -> str:
        """Return the text of bytes without the BOM. Raise UnicodeDecodeError if they do not fit."""
        if self.codec == "windows-1252":
            return codecs.charmap_decode(data, "strict", _WINDOWS_1252)[0]
        return data.decode(self.codec, self.errors)


UTF8 = Encoding(codec="utf-8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Splice:
    """A replacement: the characters [start, end) of a text become `text`."""

    start: int
    end: int
    text: str


def splice(text: str, splices: Sequence[Splice]) -> str:
    """Apply the splices, which must be in order and must not overlap."""
    pieces: list[str] = []
    kept_from = 0
    for splice in splices:
        pieces += (text[kept_from : splice.start], splice.text)
        kept_from = splice.end
    return "".join((*pieces, text[kept_from:]))


def sniff(head: bytes) -> Encoding:
    """Return the likely encoding by the beginning of a file. Raise NotText for a binary one."""
    for mark, codec in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return Encoding(codec=codec, bom=mark)
    if b"\0" in head[:SNIFFED_BYTES]:
        raise NotText("it has NUL bytes")
    return UTF8 if _begins_as_utf8(head) else choose_by_evidence(head)


def decode(data: bytes) -> tuple[str, Encoding]:
    """Return the text of a whole file, and the encoding that gives the same bytes back."""
    encoding = sniff(data[:SNIFFED_BYTES])
    if encoding == UTF8 or encoding.bom:
        try:
            return encoding.decode(data[len(encoding.bom) :]), encoding
        except UnicodeDecodeError as error:
            if encoding.codec != "utf-8":
                raise NotText(f"it begins like {encoding.codec} but is not") from error
    encoding = choose_by_evidence(data)
    return encoding.decode(data[len(encoding.bom) :]), encoding


def choose_by_evidence(data: bytes) -> Encoding:
    """Return the likely encoding of bytes that are not all UTF-8: UTF-8 or one of single bytes.

    Each byte that continues a character is evidence for UTF-8, each stray byte is against it.
    With as much of both it is UTF-8: there are few files where a character is one by chance."""
    fitting = data.decode("utf-8", "ignore")
    stray = len(data.decode("utf-8", "surrogateescape")) - len(fitting)
    continuing = len(data) - stray - len(fitting)
    if continuing < stray:
        return choose_one_byte_encoding(data)
    bom = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    return Encoding(codec="utf-8", bom=bom, has_strays=True)


def show_strays(text: str) -> str:
    """Return the text with each stray byte as it is shown, one character for one."""
    return text if text.isascii() else _STRAY.sub(STRAY_SHOWN, text)


def choose_one_byte_encoding(data: bytes) -> Encoding:
    """Return Latin-1 unless something shows that it is Windows-1252, which extends it.

    Latin-1 rejects a dash or a curly quote, which could be wrong in that file.
    """
    used = data.translate(None, delete=_ONLY_WINDOWS)
    return Encoding(codec="latin-1" if len(used) == len(data) else "windows-1252")


def _begins_as_utf8(data: bytes) -> bool:
    try:
        codecs.utf_8_decode(data, "strict", False)  # may be cut within a character
    except UnicodeDecodeError:
        return False
    return True


def choose_majority_ending(text: str) -> Ending:
    crlf = text.count("\r\n")
    return "\r\n" if crlf * 2 > text.count("\n") else "\n"


def to_lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def set_line_ending(text: str, ending: Ending) -> str:
    lf = to_lf(text)
    return lf if ending == "\n" else lf.replace("\n", ending)


def to_printable(text: str) -> str:
    """Return one line of limited length that any screen can show."""
    shown = escape_unprintable(text)
    return shown if len(shown) <= SHOWN_PATH_CHARS else shown[:SHOWN_PATH_CHARS] + "…"


def escape_unprintable(text: str) -> str:
    """Return one line with characters that no screen can show as backslash escapes."""
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    if _STRAY.match(char):
        return f"\\x{ord(char) - 0xDC00:02x}"
    return char.encode("unicode_escape").decode("ascii")
