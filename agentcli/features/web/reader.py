"""A fetched page as text or an image: by its type, in its charset, whatever it claims to be."""

import codecs
import json
import re
import subprocess
from pathlib import Path

from agentcli.features.web.client import FetchedPage
from agentcli.features.web.converter import MISSING_LIBRARY
from agentcli.system import own_process
from agentcli.system.extras import build_install_command
from agentcli.system.images import ImageRefused, decode_picture, detect_image_type
from agentcli.system.output import group_digits
from agentcli.system.pdf import PdfRefused, read_pdf
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Image

CONVERT_S = 60.0
PDF_PAGES = 300
MARKUP_BYTES = 1_000_000
"""The most of a page's markup that is converted. Its text is far shorter."""

_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXTS = re.compile(
    r"text/.*|application/(?:.*\+)?(?:json|xml|yaml|toml|javascript|x-sh|sql|x-ndjson|graphql).*"
    r"|image/svg\+xml|message/.*"
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
_META_BYTES = 2048
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LATIN = ("iso-8859-1", "latin-1", "latin1", "ascii", "us-ascii")
"""Names under which browsers read windows-1252."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageText:
    """What a model is shown of a page."""

    text: str = ""
    title: str = ""
    media: str = ""
    notes: tuple[str, ...] = ()
    """Clauses on what is missing: "only the first 300 pages were read"."""
    image: Image | None = None
    file: bytes = b""
    """The bytes to store, if they can be shown in no other way."""


def read_page(
    page: FetchedPage, *, takes_images: bool, markup_bytes: int = MARKUP_BYTES
) -> PageText:
    """Return what a model can be shown. Takes a moment: not for the event loop."""
    media = _find_media(page)
    body = page.body
    if media == "application/pdf":
        return _read_pdf(body, media)
    if detect_image_type(body[:16]):
        return _read_image(body, media, takes_images=takes_images)
    if not _TEXTS.fullmatch(media) and media not in _HTML:
        return PageText(media=media, notes=("it is not text",), file=body)
    text, notes = decode(body, page.headers.get("content-type", ""))
    if media in _HTML:
        markup = text.encode("utf-8", "replace")
        if len(markup) > markup_bytes:
            notes += (f"only the first {group_digits(markup_bytes)} bytes were read",)
            markup = markup[:markup_bytes].decode("utf-8", "ignore").encode()
        return _read_converted(markup, media, address=str(page.address), notes=notes)
    if "json" in media:
        text, more = _indent_json(text)
        notes += more
    return PageText(text=text, media=media, notes=notes)


def _find_media(page: FetchedPage) -> str:
    """Return the type of a page, by its first bytes where these are certain."""
    body = page.body
    claimed = page.headers.get("content-type", "").partition(";")[0].strip().lower()
    start = body[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if body.startswith(b"%PDF-"):
        return "application/pdf"
    if found := detect_image_type(body[:16]):
        return found
    is_unsaid = claimed in ("", "application/octet-stream", "text/plain")
    if claimed != "text/plain" and start.startswith((b"<!doctype html", b"<html")):
        return "text/html"
    if is_unsaid and b"\0" in body[:1024] and not _find_mark(body):
        return "application/octet-stream"
    return "text/plain" if is_unsaid else claimed


def _find_mark(body: bytes) -> str:
    return next((name for mark, name in _MARKS if body.startswith(mark)), "")


def decode(body: bytes, content_type: str) -> tuple[str, tuple[str, ...]]:
    """Return the text, and a note if its charset is unknown or wrong."""
    said = _CHARSET.search(content_type) or _CHARSET.search(
        body[:_META_BYTES].decode("ascii", "replace")
    )
    name = _find_mark(body) or (said[1].lower() if said else "")
    name = "windows-1252" if name in _LATIN else name
    try:
        return body.decode(name or "utf-8"), ()
    except (UnicodeDecodeError, LookupError):
        is_known = bool(name) and _is_charset(name)
    if not name:
        return body.decode("windows-1252", "replace"), ()
    # A page that is cut ends within a character, and most that lie about it are UTF-8.
    text = body.decode(name if is_known else "utf-8", "replace")
    wrong = f"it is not valid {name[:40]}" if is_known else f"its charset {name[:40]} is unknown"
    return text, (wrong,) if "\ufffd" in text[:-4] else ()


def _is_charset(name: str) -> bool:
    try:
        b"a".decode(name, "replace")  # nothing is looked up for an empty text
    except LookupError:
        return False
    return True


def _indent_json(text: str) -> tuple[str, tuple[str, ...]]:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False), ()
    except (ValueError, RecursionError):
        return text, ("it is not valid JSON",)


def _read_pdf(body: bytes, media: str) -> PageText:
    try:
        pages = read_pdf(body, limit=PDF_PAGES)
    except PdfRefused as error:
        return PageText(media=media, notes=(f"it {error}",), file=body)
    notes: tuple[str, ...] = (f"it {pages.fault}",) if pages.fault else ()
    if pages.last < pages.count:
        notes += (f"only the first {pages.last} of {pages.count} pages were read",)
    if not pages.has_text:
        notes += ("it has no text: its pages are images",)
    return PageText(text=pages.text, title=pages.title, media=media, notes=notes)


def _read_converted(
    data: bytes, media: str, *, address: str, notes: tuple[str, ...] = ()
) -> PageText:
    script = Path(__file__).with_name("converter.py")
    try:
        ran = own_process.run(
            [*own_process.build_python_command(script), address],
            workspace=None,
            given=data,
            timeout_s=CONVERT_S,
        )
    except subprocess.TimeoutExpired:
        notes += (f"it was not converted within {CONVERT_S:g} s",)
        return PageText(media=media, notes=notes, file=data)
    if ran.returncode == MISSING_LIBRARY:
        missing = f"to read it: {build_install_command('markdownify')}"
        return PageText(media=media, notes=(*notes, missing), file=data)
    if ran.returncode:
        return PageText(media=media, notes=(*notes, "it could not be converted"), file=data)
    found = json.loads(ran.stdout)
    return PageText(
        text=found["text"], title=found["title"], media=media, notes=(*notes, *found["notes"])
    )


def _read_image(body: bytes, media: str, *, takes_images: bool) -> PageText:
    if not takes_images:
        return PageText(media=media, notes=("the model in use cannot see images",), file=body)
    try:
        picture = decode_picture(body)
    except ImageRefused as error:
        return PageText(media=media, notes=(f"the image {error}",), file=body)
    return PageText(text=picture.format_label("from the web"), media=media, image=picture.image)
