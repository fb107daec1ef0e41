"""Images for models: any bytes come in, only an image that every provider takes goes out.

An image stays in a conversation for good, and one that a provider refuses would end it. So each is
decoded before it is trusted, and made smaller if a provider would not take it unchanged.
"""

import base64
import os
import stat
import subprocess
from pathlib import Path

from agentcli.system import own_process
from agentcli.system.extras import build_extra_command
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Image

SIDE_PIXELS = 2000
"""The limit of Anthropic for many images; every model scales to less by itself."""
LIMIT_BYTES = 2_000_000
"""Anthropic takes 5 MiB of base64 per image and 32 MB per request, and ten images must fit."""
READ_BYTES = 50_000_000
TIME_LIMIT_S = 30
_MISSING_LIBRARY = 3
"""The exit code of `image_decoder.py` without its library."""

ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")

_STARTS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class ImageRefused(Exception):
    """The reason why no model can be shown the image, as the rest of a sentence about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    image: Image
    width: int
    height: int
    full_width: int
    """The size before it was made smaller."""
    full_height: int

    @property
    def is_smaller(self) -> bool:
        return (self.width, self.height) != (self.full_width, self.full_height)

    def format_label(self, name: str) -> str:
        """Return the line that precedes it in a conversation and that the user sees."""
        size = f"{self.full_width}x{self.full_height}"
        shown = f", shown as {self.width}x{self.height}" if self.is_smaller else ""
        return f"[image {name} · {size}{shown}]"


def detect_image_type(head: bytes) -> str | None:
    """Return the type that the data claims to be; its first 16 bytes are enough."""
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media for start, media in _STARTS if head.startswith(start)), None)


def load_picture(path: Path) -> Picture:
    """Return the image in a file. Raise ImageRefused for anything else."""
    try:
        return decode_picture(_read(path))
    except (OSError, ValueError) as error:  # no path holds a NUL
        problem = getattr(error, "strerror", None) or str(error)
        raise ImageRefused(f"cannot be read: {problem.lower()}") from error


def decode_picture(data: bytes) -> Picture:
    """Return the decoded image. Raise ImageRefused. Takes a moment: not for the event loop."""
    claimed = detect_image_type(data[:16])
    if not data:
        raise ImageRefused("is empty")
    if claimed is None:
        raise ImageRefused("is not a PNG, JPEG, GIF or WebP image")
    if len(data) > READ_BYTES:
        raise ImageRefused(f"is larger than {READ_BYTES // 1_000_000} MB; make a smaller copy")
    head, _, made = _decode(data).partition(b"\n")
    media_type, *sizes = head.decode("ascii").split(" ")
    width, height, full_width, full_height = map(int, sizes)
    return Picture(
        image=Image(media_type=media_type, data=base64.b64encode(made or data).decode("ascii")),
        width=width,
        height=height,
        full_width=full_width,
        full_height=full_height,
    )


def _decode(data: bytes) -> bytes:
    program = Path(__file__).with_name("image_decoder.py")
    try:
        ran = own_process.run(
            [
                *own_process.build_python_command(program),
                *(str(SIDE_PIXELS), str(LIMIT_BYTES)),
            ],
            workspace=None,
            given=data,
            timeout_s=TIME_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise ImageRefused(f"could not be decoded within {TIME_LIMIT_S} s") from None
    if ran.returncode == _MISSING_LIBRARY:
        raise ImageRefused(f"cannot be shown without Pillow: {build_extra_command('images')}")
    if ran.returncode == 1:
        raise ImageRefused(f"cannot be shown: {_read_last_line(ran.stderr)}")
    if ran.returncode:
        raise ImageRefused(f"cannot be shown: its decoder ended with {ran.returncode}")
    return ran.stdout


def _read_last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:200] if lines else "unknown error"


def _read(path: Path) -> bytes:
    _require_file(path.stat())
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        _require_file(os.fstat(handle))  # it may have been replaced by something endless
        return file.read(READ_BYTES + 1)


def _require_file(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ImageRefused("is not a regular file")
