"""PDFs: some of their pages as text, and as a file with these pages alone."""

import base64
import json
import subprocess
from pathlib import Path

from agentcli.system import own_process
from agentcli.system.extras import build_extra_command
from agentcli.types.fast_dataclass import dataclass

MAGIC = b"%PDF-"
READ_BYTES = 50_000_000
TIME_LIMIT_S = 60.0
_MISSING_LIBRARY = 3
"""The exit code of `pdf_pages.py` without its library."""


class PdfRefused(Exception):
    """The reason why nothing of it can be read, as the rest of a sentence about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfPages:
    title: str
    first: int
    last: int
    count: int
    """The number of pages of the whole file."""
    texts: tuple[str, ...]
    file: str
    """A file with these pages, in base64."""
    fault: str = ""
    """What kept the rest of the pages from being read; empty if nothing did."""

    @property
    def has_text(self) -> bool:
        return any(self.texts)

    @property
    def text(self) -> str:
        """The text of all pages, each after a line with its number."""
        return "\n\n".join(
            f"[page {number} of {self.count}]\n{text}"
            for number, text in enumerate(self.texts, self.first)
        )


def read_pdf(data: bytes, *, first: int = 1, limit: int) -> PdfPages:
    """Return pages of a PDF, at most `limit` from `first`, which counts from the end if negative.

    Raise PdfRefused. Takes a moment: not for the event loop."""
    if len(data) > READ_BYTES:
        raise PdfRefused(f"is larger than {READ_BYTES // 1_000_000} MB")
    program = Path(__file__).with_name("pdf_pages.py")
    command = [*own_process.build_python_command(program), str(first), str(limit)]
    try:
        ran = own_process.run(command, workspace=None, given=data, timeout_s=TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise PdfRefused(f"could not be read within {TIME_LIMIT_S:g} s") from None
    if ran.returncode == _MISSING_LIBRARY:
        raise PdfRefused(f"needs a library to be read: {build_extra_command('pdf')}")
    if ran.returncode:
        raise PdfRefused(f"could not be read: its reader ended with {ran.returncode}")
    found = json.loads(ran.stdout)
    if found["fault"] and not found["texts"]:
        raise PdfRefused(found["fault"])
    if first > found["count"]:
        raise PdfRefused(f"has {found['count']} pages, and page {first} is past the end")
    return PdfPages(
        title=found["title"],
        first=found["first"],
        last=found["first"] + len(found["texts"]) - 1,
        count=found["count"],
        texts=tuple(found["texts"]),
        file=found["file"] or base64.b64encode(data).decode("ascii"),
        fault=found["fault"],
    )
