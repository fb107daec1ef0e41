"""A separate program: it reads an image on stdin and writes what a model can be shown to stdout.

It is separate because decoding untrusted bytes may crash, hang or use up memory. Then only this
process ends. Its first line is `MEDIA WIDTH HEIGHT FULL_WIDTH FULL_HEIGHT`. The bytes after it are
the re-encoded image; there are none if the image is fine unchanged.
"""

import io
import sys
from collections.abc import Iterator
from typing import Any, TypeAlias

from agentcli.system.memory_limit import limit_memory

try:
    from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError
except ImportError:
    sys.exit(3)  # `images.py` knows what that means

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
MEDIA = {"PNG": "image/png", "JPEG": "image/jpeg", "MPO": "image/jpeg", "WEBP": "image/webp"}
"""Media types that every provider takes. A GIF is converted to PNG."""
PIXELS_MAX = 100_000_000
MEMORY_BYTES = 2_000_000_000
QUALITIES = ((1.0, 85), (1.0, 60), (0.75, 60), (0.5, 50))
"""Fractions of the largest side with JPEG qualities, tried in order until the bytes fit."""

_Prepared: TypeAlias = tuple[tuple[Any, ...], bytes]


def main(side: int, limit_bytes: int) -> int:
    limit_memory(MEMORY_BYTES)
    Image.MAX_IMAGE_PIXELS = PIXELS_MAX // 2  # Pillow refuses more than twice this number
    data = sys.stdin.buffer.read()
    try:
        head, made = _reencode(data, side=side, limit_bytes=limit_bytes)
    except (Image.DecompressionBombError, MemoryError):
        return _refuse(f"it has more than {PIXELS_MAX // 1_000_000} million pixels")
    except UnidentifiedImageError:
        return _refuse("its header is broken")
    except (OSError, SyntaxError, ValueError, EOFError, OverflowError) as error:
        return _refuse(f"it is broken: {error}")
    sys.stdout.buffer.write(" ".join(map(str, head)).encode("ascii") + b"\n" + made)
    return 0


def _reencode(data: bytes, *, side: int, limit_bytes: int) -> _Prepared:
    """Prepare the image; re-encode it if data beside the pixels, such as a profile, is broken."""
    try:
        return _prepare(data, side=side, limit_bytes=limit_bytes)
    except (SyntaxError, UnidentifiedImageError):
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        return _prepare(data, side=side, limit_bytes=limit_bytes, must_be_new=True)


def _prepare(data: bytes, *, side: int, limit_bytes: int, must_be_new: bool = False) -> _Prepared:
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        full = image.size
        media = MEDIA.get(image.format or "")
        is_fine = media and not must_be_new and max(full) <= side and len(data) <= limit_bytes
        if is_fine and getattr(image, "n_frames", 1) == 1:
            image.load()
            return (media, *full, *full), b""
        image.seek(0)
        for part, quality in QUALITIES:
            for media, size, made in _iter_candidates(image, round(side * part), quality=quality):
                if len(made) <= limit_bytes:
                    return (media, *size, *full), made
    raise ValueError("it cannot be made small enough")


def _iter_candidates(
    image: Image.Image, side: int, *, quality: int
) -> Iterator[tuple[str, tuple[int, int], bytes]]:
    """Yield encodings: lossless first for drawn images, then JPEG. Photographs only as JPEG."""
    upright = ImageOps.exif_transpose(image)
    is_photograph = image.format in ("JPEG", "MPO")
    frame = upright.convert("RGB" if is_photograph else "RGBA")
    frame.thumbnail((side, side), Image.Resampling.LANCZOS)
    if not is_photograph:
        yield "image/png", frame.size, _encode(frame, "PNG")
        paper = Image.new("RGB", frame.size, "white")
        paper.paste(frame, mask=frame.getchannel("A"))
        frame = paper
    yield "image/jpeg", frame.size, _encode(frame, "JPEG", quality=quality)


def _encode(image: Image.Image, form: str, **how: int) -> bytes:
    out = io.BytesIO()
    image.save(out, form, **how)
    return out.getvalue()


def _refuse(why: str) -> int:
    sys.stderr.write(why)
    return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
