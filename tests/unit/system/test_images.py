import base64
import io
import math
import os
from pathlib import Path

import pytest
from PIL import Image as Drawn
from PIL import UnidentifiedImageError

from agentcli.system import images
from agentcli.system.images import (
    LIMIT_BYTES,
    SIDE_PIXELS,
    ImageRefused,
    decode_picture,
    load_picture,
)
from tests.support.pictures import image, png


def drawn(form: str, size: tuple[int, int] = (30, 20), mode: str = "RGB", **how: object) -> bytes:
    out = io.BytesIO()
    Drawn.new(mode, size, 0).save(out, form, **how)
    return out.getvalue()


def decoded(picture: images.Picture) -> "Drawn.Image":
    return Drawn.open(io.BytesIO(base64.b64decode(picture.image.data)))


def test_image_that_every_provider_takes_stays_as_it_is() -> None:
    found = decode_picture(png(30, 20))
    assert found.image == image(png(30, 20))
    assert found.format_label("a.png") == "[image a.png · 30x20]"
    for form in ("JPEG", "WEBP"):
        kept = decode_picture(drawn(form))
        assert base64.b64decode(kept.image.data) == drawn(form)
        assert kept.image.media_type == f"image/{form.lower()}"


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (drawn("PNG", (5000, 100)), "image/png"),
        (drawn("PNG", (100, 5000), "RGBA"), "image/png"),
        (drawn("PNG", (5000, 100), "P"), "image/png"),
        (drawn("JPEG", (5000, 100)), "image/jpeg"),
        (drawn("JPEG", (5000, 100), "CMYK"), "image/jpeg"),
        (drawn("WEBP", (5000, 100)), "image/png"),
    ],
)
def test_large_image_is_made_smaller_in_its_shape(data: bytes, media_type: str) -> None:
    found = decode_picture(data)
    assert max(found.width, found.height) == SIDE_PIXELS
    assert max(found.full_width, found.full_height) == 5000
    assert found.image.media_type == media_type
    assert decoded(found).size == (found.width, found.height)


def test_image_of_too_many_bytes_is_made_of_fewer() -> None:
    out = io.BytesIO()
    side = math.isqrt(LIMIT_BYTES // 3) + 50  # noise takes three bytes a pixel
    Drawn.frombytes("RGB", (side, side), os.urandom(3 * side**2)).save(out, "PNG")
    found = decode_picture(out.getvalue())
    assert len(out.getvalue()) > LIMIT_BYTES
    assert found.image.media_type == "image/jpeg"
    assert len(base64.b64decode(found.image.data)) <= LIMIT_BYTES
    assert 10 * len(found.image.data) < 32_000_000


def test_image_that_is_broken_beside_its_pixels_is_made_anew() -> None:
    whole = drawn("PNG", icc_profile=b"x" * 100)
    at = whole.index(b"iCCP") + 10
    broken = whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]
    with pytest.raises(UnidentifiedImageError):
        Drawn.open(io.BytesIO(broken))
    found = decoded(decode_picture(broken))
    found.load()
    assert found.size == (30, 20)


def test_moving_image_is_its_first_frame() -> None:
    frames = [Drawn.new("RGB", (30, 20), colour) for colour in ("red", "blue")]
    for form in ("GIF", "WEBP", "PNG"):
        out = io.BytesIO()
        frames[0].save(out, form, save_all=True, append_images=frames[1:])
        found = decode_picture(out.getvalue())
        assert found.image.media_type == "image/png"
        red, _, blue = decoded(found).convert("RGB").split()
        assert red.point(lambda value: value > 250).getextrema() == (1, 1)
        assert blue.point(lambda value: value > 5).getextrema() == (0, 0)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"words", "is not a PNG, JPEG, GIF or WebP image"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is not a PNG, JPEG, GIF or WebP image"),
        (png()[:8], "cannot be shown: its header is broken"),
        (png(300, 200)[:60], "cannot be shown: it is broken: image file is truncated"),
        (drawn("JPEG", (300, 200))[:400], "cannot be shown: it is broken: "),
    ],
)
def test_what_is_no_image_is_said(data: bytes, why: str) -> None:
    with pytest.raises(ImageRefused) as refused:
        decode_picture(data)
    assert str(refused.value).startswith(why)


def test_image_of_too_many_pixels_is_not_decoded() -> None:
    with pytest.raises(ImageRefused, match="more than 100 million pixels"):
        decode_picture(png(1, 1, claimed=(60_000, 60_000)))


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.png")
    (tmp_path / "gone.png").symlink_to("nowhere")
    huge = tmp_path / "huge.png"
    huge.write_bytes(png())
    os.truncate(huge, 60_000_000)
    reasons = {}
    for path in (*tmp_path.iterdir(), tmp_path, tmp_path / "missing.png", tmp_path / "a\0b"):
        with pytest.raises(ImageRefused) as refused:
            load_picture(path)
        reasons[path.name] = str(refused.value)
    assert reasons == {
        "fifo.png": "is not a regular file",
        "gone.png": "cannot be read: no such file or directory",
        "huge.png": "is larger than 50 MB; make a smaller copy",
        tmp_path.name: "is not a regular file",
        "missing.png": "cannot be read: no such file or directory",
        "a\0b": "cannot be read: embedded null byte",
    }
