"""Images that the user attaches: mentioned as `@shot.png`, pasted as a path, or named by an option.

Each goes to the model after a line with its name and size. If one cannot be shown, user and model
get its name and the reason, and nothing else happens.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from agentcli.system.home import expand_home
from agentcli.system.images import ENDINGS, ImageRefused, load_picture
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import UsageError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Image

IMAGES_MAX = 10
"""The most images in one message."""
PASTED_TEXT_CHARS = 2000
"""The longest text that is searched for paths.

A longer one is a log or a file, not a dragged path.
"""
NOT_ATTACHED = "not attached: "

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

    parts: tuple[str | Image, ...] = ()
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
    shown = show_controls(name)
    try:
        picture = load_picture(path)
    except ImageRefused as error:
        return report_not_attached(shown, str(error))
    label = picture.label(shown)
    return Attachments(parts=(label, picture.image), notes=(f"attached {label}",))


def report_not_attached(shown: str, why: str) -> Attachments:
    return Attachments(
        parts=(f"[The image {shown} could not be attached: it {why}.]",),
        notes=(f"{NOT_ATTACHED}{shown} {why}",),
    )


def report_too_many(name: str) -> Attachments:
    why = f"is one too many: a message may have {IMAGES_MAX} images"
    return report_not_attached(show_controls(name), why)


def load_named_images(paths: Sequence[Path]) -> tuple[str | Image, ...]:
    """Load the images named on a command line, each after its label.

    Raise UsageError if one cannot be loaded: whoever names an image wants it to be seen.
    """
    if len(paths) > IMAGES_MAX:
        raise UsageError(
            f"{len(paths)} images are too many", hint=f"{IMAGES_MAX} may go with one prompt"
        )
    parts: list[str | Image] = []
    for path in paths:
        try:
            picture = load_picture(path)
        except ImageRefused as error:
            raise UsageError(f"{path} {error}", hint="name a PNG, JPEG, GIF or WebP file") from None
        parts += [picture.label(show_controls(path.name)), picture.image]
    return tuple(parts)


def attach_mentioned_images(text: str, workspace: Path) -> Attachments:
    """Attach the images of the workspace that a prompt mentions, and no others.

    The prompt may not have been typed by the user.
    """
    named = [name for name in find_mentions(text) if is_image_name(name)]
    there = [name for name in named if os.path.lexists(workspace / name)]
    return _attach_all((workspace / name, name, workspace) for name in there)


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
