"""A program of its own: an image on stdin, on stdout what of it a model can be shown.

It stands alone, because what decodes bytes of anybody's may crash, hang or eat memory: then it is
this process that ends. Its first line says `MEDIA WIDTH HEIGHT FULL_WIDTH FULL_HEIGHT`; the bytes
after it are the image made anew, none where it is fine as it came.
"""

import io
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

FORMATS = ("PNG", "JPEG", "GIF", "WEBP")
MEDIA = {"PNG": "image/png", "JPEG": "image/jpeg", "MPO": "image/jpeg", "WEBP": "image/webp"}
"""Of those that every provider takes: a GIF is made a PNG."""
PIXELS_MAX = 100_000_000
MEMORY_BYTES = 2_000_000_000
QUALITIES = ((1.0, 85), (1.0, 60), (0.75, 60), (0.5, 50))
"""How much of the largest side, and how exactly, as long as it is too many bytes."""

_Prepared: TypeAlias = tuple[tuple[Any, ...], bytes]


def main(side: int, limit_bytes: int) -> int:
    _limit_memory()
    Image.MAX_IMAGE_PIXELS = PIXELS_MAX // 2  # it refuses twice as many
    data = sys.stdin.buffer.read()
    try:
        head, made = _reencode(data, side=side, limit_bytes=limit_bytes)
    except (Image.DecompressionBombError, MemoryError):
        return _refuse(f"it has more than {PIXELS_MAX // 1_000_000} million pixels")
    except UnidentifiedImageError:
        return _refuse("it is broken from its first bytes on")
    except (OSError, SyntaxError, ValueError, EOFError, OverflowError) as error:
        return _refuse(f"it is broken: {error}")
    sys.stdout.buffer.write(" ".join(map(str, head)).encode("ascii") + b"\n" + made)
    return 0


def _reencode(data: bytes, *, side: int, limit_bytes: int) -> _Prepared:
    """Anew, where something beside the pixels is broken: colour profiles often are."""
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
            for media, size, made in _candidates(image, round(side * part), quality):
                if len(made) <= limit_bytes:
                    return (media, *size, *full), made
    raise ValueError("it cannot be made small enough")


def _candidates(
    image: Image.Image, side: int, quality: int
) -> Iterator[tuple[str, tuple[int, int], bytes]]:
    """Exactly, where it was drawn and not photographed; else, or if that is too much, as a JPEG."""
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


def _limit_memory() -> None:
    if sys.platform == "win32":
        return
    import resource  # noqa: PLC0415 - there is none on Windows

    with suppress(ValueError, OSError):  # a lower limit is set already, or none can be
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def _refuse(why: str) -> int:
    sys.stderr.write(why)
    return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
