"""A separate program: it reads a PDF on stdin and writes some of its pages to stdout.

It is separate because untrusted files may crash, hang or use up memory. Then only this process
ends. Called with the first page, counted from the end if it is negative, and the number of pages.
The output is one JSON object.
"""

import base64
import io
import json
import sys
from collections.abc import Sequence
from typing import Any

from agentcli.system.extras import build_install_command
from agentcli.system.memory_limit import limit_memory

try:
    from pypdf import PageObject, PdfReader, PdfWriter
    from pypdf.errors import DependencyError, PyPdfError
except ImportError:
    sys.exit(3)  # `pdf.py` knows what that means

MEMORY_BYTES = 3_000_000_000


def main(first: int, limit: int) -> None:
    limit_memory(MEMORY_BYTES)
    sys.stdout.write(json.dumps(read_pages(sys.stdin.buffer.read(), first, limit=limit)))


def read_pages(data: bytes, first: int, *, limit: int) -> dict[str, Any]:
    """Return the text of these pages, a file with them alone, and what is wrong, if anything."""
    found: dict[str, Any] = {
        "title": "",
        "first": first,
        "count": 0,
        "texts": [],
        "file": "",
        "fault": "",
    }
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return found | {"fault": "is encrypted: without its password nobody can read it"}
        found["title"] = str((reader.metadata and reader.metadata.title) or "")[:300]
        found["count"] = count = len(reader.pages)
        found["first"] = first if first > 0 else max(1, count + 1 + first)
        pages = reader.pages[found["first"] - 1 : found["first"] - 1 + limit]
        for page in pages:
            found["texts"].append(page.extract_text().strip())
        if len(pages) < count or reader.is_encrypted:
            found["file"] = _write_pages(pages)
    except DependencyError:
        needed = build_install_command("cryptography")
        found["fault"] = f"is encrypted in a way that needs more: {needed}"
    except (PyPdfError, ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
        found["fault"] = f"is broken ({type(error).__name__})"
    return found


def _write_pages(pages: Sequence[PageObject]) -> str:
    writer, written = PdfWriter(), io.BytesIO()
    for page in pages:
        writer.add_page(page)
    writer.write(written)
    return base64.b64encode(written.getvalue()).decode("ascii")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
