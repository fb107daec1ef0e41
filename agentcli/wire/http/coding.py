"""What a server compressed, although it was asked not to, made plain again, piece by piece."""

import zlib
from collections.abc import Callable
from typing import TypeAlias

from agentcli.types.errors import WireErrorKind
from agentcli.wire.http.sockets import Broken

Plain: TypeAlias = Callable[[bytes], bytes]

_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def plain_of(encoding: str) -> Plain:
    """Raises Broken for an encoding that is not known."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return bytes
    bits = _WINDOW_BITS.get(name)
    if bits is None:
        raise Broken(f"the answer is compressed in a way nobody asked for ({name})", attempts=1)
    inflate = zlib.decompressobj(bits).decompress

    def plain(data: bytes) -> bytes:
        try:
            return inflate(data)
        except zlib.error:
            raise Broken("the answer is badly compressed", kind=WireErrorKind.CUT) from None

    return plain
