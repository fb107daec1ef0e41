"""Images that the user attaches: mentioned as `@shot.png`, pasted as a path, or named by an option.

Each goes to the model after a line with its name and size. If one cannot be shown, user and model
get its name and the reason, and nothing else happens.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import unquote

from agentcli.system.files import expand_home, is_file, read_regular
from agentcli.system.images import (
    ENDINGS,
    ImageRefused,
    Picture,
    decode_picture,
    load_picture,
)
from agentcli.system.pdf import READ_BYTES, PdfRefused, read_pdf
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import UsageError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Attachment, Document

IMAGES_MAX = 10
"""The most images in one message."""
PASTED_TEXT_CHARS = 2000
"""The longest text that is searched for paths.

A longer one is a log or a file, not a dragged path.
"""
NOT_ATTACHED = "not attached: "
PDF_PAGES_MAX = 100
"""The most pages in one message: providers take no more."""
PDF_FILE_CHARS = 20_000_000
"""The longest file in base64. Providers take about 30 MB in all, and the rest must fit."""
PDF_ENDING = ".pdf"
PAGE_RANGE = r"[:#](\d+)(?:-(\d+))?$"
"""The pages, or the lines, at the end of a mention: `spec.pdf#3-5`."""

# Compiled on first use: most runs need none of these.
_MENTION = r'(?<![^\s(])@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]+))'
# Only the blanks that a shell splits at: names of screenshots contain other ones.
_PASTED = (
    r"(?<![^ \t\n(])(?:'(?P<single>[^'\n]+)'|\"(?P<double>[^\"\n]+)\""
    r"|(?P<bare>(?:file://|~?/)(?:\\.|[^ \t\n\"'\\])+))"
)
_ESCAPED = r"\\(.)"
_TRAILING_PUNCTUATION = ".,;:)!?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachments:
    """Parts that go to the model besides the message, and notes about them for the user."""

    parts: tuple[Attachment, ...] = ()
    notes: tuple[str, ...] = ()

    def __add__(self, other: "Attachments") -> "Attachments":
        return Attachments(parts=self.parts + other.parts, notes=self.notes + other.notes)


def find_mentions(text: str) -> list[str]:
    """Return the names written after an @, each once."""
    found = re.finditer(_MENTION, text) if "@" in text else ()
    return list(
        dict.fromkeys(it["quoted"] or it["bare"].rstrip(_TRAILING_PUNCTUATION) for it in found)
    )


def is_image_name(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def attach_image(path: Path, name: str) -> Attachments:
    """Read and decode an image. This takes a moment."""
    return _attach_picture(partial(load_picture, path), name)


def attach_image_data(data: bytes, name: str) -> Attachments:
    """Decode an image that is in memory. This takes a moment."""
    return _attach_picture(partial(decode_picture, data), name)


def _attach_picture(load: Callable[[], Picture], name: str) -> Attachments:
    shown = show_controls(name)
    try:
        picture = load()
    except ImageRefused as error:
        return report_not_attached(shown, str(error))
    label = picture.format_label(shown)
    return Attachments(parts=(label, picture.image), notes=(f"attached {label}",))


def attach_pdf(path: Path, name: str, *, pages: tuple[int, int] | None) -> Attachments:
    """Read pages of a PDF, or all that a provider takes of it. This takes a moment."""
    shown = show_controls(name)
    first, last = pages or (1, PDF_PAGES_MAX)
    try:
        data = read_regular(path) if path.stat().st_size <= READ_BYTES else b""
        found = read_pdf(data, first=first, limit=min(last - first + 1, PDF_PAGES_MAX))
    except OSError as error:
        return report_not_attached(shown, f"cannot be read: {error.strerror}", kind="PDF")
    except PdfRefused as error:
        return report_not_attached(shown, str(error), kind="PDF")
    if len(found.file) > PDF_FILE_CHARS and not found.has_text:
        return report_not_attached(shown, "is too large; name fewer pages", kind="PDF")
    some = f"page {first}" if found.last == first else f"pages {first}-{found.last}"
    label = f"[{shown} · {some} of {found.count}]"
    document = Document(
        name=shown,
        data=found.file if len(found.file) <= PDF_FILE_CHARS else "",
        text=found.text if found.has_text else "",
        pages=len(found.texts),
    )
    return Attachments(parts=(label, document), notes=(f"attached {label}",))


def report_not_attached(shown: str, why: str, *, kind: str = "image") -> Attachments:
    return Attachments(
        parts=(f"[The {kind} {shown} could not be attached: it {why}.]",),
        notes=(f"{NOT_ATTACHED}{shown} {why}",),
    )


def report_too_many(name: str) -> Attachments:
    why = f"is one too many: a message may have {IMAGES_MAX} images"
    return report_not_attached(show_controls(name), why)


def load_named_images(paths: Sequence[Path]) -> tuple[Attachment, ...]:
    """Load the images named on a command line, each after its label.

    Raise UsageError if one cannot be loaded: whoever names an image wants it to be seen.
    """
    if len(paths) > IMAGES_MAX:
        raise UsageError(
            f"{len(paths)} images are too many",
            hint=f"attach at most {IMAGES_MAX} images to one prompt",
        )
    parts: list[Attachment] = []
    for path in paths:
        try:
            picture = load_picture(path)
        except ImageRefused as error:
            raise UsageError(f"{path} {error}", hint="name a PNG, JPEG, GIF or WebP file") from None
        parts += [picture.format_label(show_controls(path.name)), picture.image]
    return tuple(parts)


def attach_mentioned_images(text: str, workspace: Path) -> Attachments:
    """Attach the images and PDFs of the workspace that a prompt mentions, and no others.

    The prompt may not have been typed by the user.
    """
    mentions = find_mentions(text)
    named = [name for name in mentions if is_image_name(name)]
    there = [name for name in named if os.path.lexists(workspace / name)]
    attached = _attach_all((workspace / name, name, workspace) for name in there)
    for name in mentions:
        plain, pages = split_range(name)
        path = workspace / plain
        if plain.lower().endswith(PDF_ENDING) and is_file(path) and not leads_out(path, workspace):
            attached += attach_pdf(path, plain, pages=pages)
    return attached


def split_range(written: str) -> tuple[str, tuple[int, int] | None]:
    """Return a mention without the lines or pages at its end, and these."""
    found = re.search(PAGE_RANGE, written)
    if found is None:
        return written, None
    first = max(1, int(found[1][:9]))
    return written[: found.start()], (first, max(first, int((found[2] or found[1])[:9])))


def attach_pasted_images(text: str) -> Attachments:
    """Attach the images whose paths were pasted: quoted, escaped, or as a file URL.

    A terminal pastes the path of a file that is dragged into it.
    """
    return _attach_all((path, path.name, None) for path in dict.fromkeys(find_pasted_paths(text)))


def begins_with_image(text: str) -> bool:
    first = re.match(_PASTED, text)
    return any(
        _resolve_image_path(written) for written in (text.strip(), _unquote(first) if first else "")
    )


def find_pasted_paths(text: str) -> Iterator[Path]:
    if len(text) > PASTED_TEXT_CHARS:
        return
    # Not every terminal escapes blanks, so the whole text may be one path.
    for written in (text.strip(), *map(_unquote, re.finditer(_PASTED, text))):
        if path := _resolve_image_path(written):
            yield path


def leads_out(path: Path, workspace: Path) -> bool:
    """Return whether a path named relative to the workspace resolves to one outside it.

    Do not ask this of an absolute path: that one is where it says it is.
    """
    return not Path(os.path.realpath(path)).is_relative_to(workspace)


def _attach_all(found: Iterator[tuple[Path, str, Path | None]]) -> Attachments:
    attached = Attachments()
    for number, (path, name, workspace) in enumerate(found):
        if number == IMAGES_MAX:
            return attached + report_too_many(name)
        if workspace is not None and leads_out(path, workspace):
            attached += report_not_attached(show_controls(name), "leads out of the workspace")
        else:
            attached += attach_image(path, name)
    return attached


def _unquote(found: re.Match[str]) -> str:
    quoted: str | None = found["single"] or found["double"]
    return quoted or re.sub(_ESCAPED, r"\1", found["bare"].rstrip(_TRAILING_PUNCTUATION))


def _resolve_image_path(written: str) -> Path | None:
    """Return the path if it is absolute, has the name of an image and exists; else None."""
    if not is_image_name(written) or "\0" in written:
        return None
    if written.startswith("file://"):
        written = "/" + unquote(written).removeprefix("file://").partition("/")[2]
    if not written.startswith(("/", "~/")):
        return None
    path = expand_home(written)
    return path if os.path.lexists(path) else None
