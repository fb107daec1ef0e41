"""What a server compressed, although it was asked not to, made plain again, piece by piece."""

import zlib
from collections.abc import Callable
from typing import TypeAlias

from agentcli.types.errors import ProviderErrorKind
from agentcli.wire.http.sockets import ConnectionBroken

Plain: TypeAlias = Callable[[bytes], bytes]

_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def build_decompressor(encoding: str) -> Plain:
    """Raises Broken for an encoding that is not known."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return bytes
    bits = _WINDOW_BITS.get(name)
    if bits is None:
        raise ConnectionBroken(
            f"the answer is compressed in a way nobody asked for ({name})", attempts=1
        )
    inflate = zlib.decompressobj(bits).decompress

    def plain(data: bytes) -> bytes:
        try:
            return inflate(data)
        except zlib.error:
            raise ConnectionBroken(
                "the answer is badly compressed", kind=ProviderErrorKind.CUT
            ) from None

    return plain
