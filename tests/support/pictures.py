"""Real images, made of nothing: small enough to be made anew by every test."""

import base64
import struct
import zlib

from agentcli.types.messages import Image


def png(
    width: int = 3, height: int = 2, *, grey: int = 128, claimed: tuple[int, int] | None = None
) -> bytes:
    """`claimed`: the size that its header tells, if that is another one."""
    rows = (b"\0" + bytes([grey]) * width) * height
    header = struct.pack(">IIBBBBB", *(claimed or (width, height)), 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def image(data: bytes) -> Image:
    return Image(media_type="image/png", data=base64.b64encode(data).decode("ascii"))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
