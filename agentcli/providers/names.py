"""Encoding tool names and call ids in the alphabet every provider accepts, and decoding names.

Each encoding depends on the name or id alone, so it is the same in every request, whatever else is
in it.
"""

import re
from collections.abc import Iterable, Mapping
from zlib import crc32

from agentcli.system.lazy import compile_later

_ACCEPTED_NAME = compile_later(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_NAME_CHARS = 64
_ID_CHARS = 40
_FOREIGN = compile_later(r"[^A-Za-z0-9_-]")


def encode_name(name: str) -> str:
    """Return the name itself if every provider accepts it, else a readable one with a digest."""
    if _ACCEPTED_NAME.fullmatch(name):
        return name
    readable = _FOREIGN.sub("_", name)
    if not re.match(r"[A-Za-z_]", readable):
        readable = f"_{readable}"
    return _cut(readable, f"_{_hash_text(name)}", limit=_NAME_CHARS)


def decode_names(declared: Iterable[str]) -> Mapping[str, str]:
    """Return our names by their encoded names. A name not in it was made up by the model."""
    return {encode_name(name): name for name in declared}


def encode_id(call_id: str, *, suffix: str = "") -> str:
    """Return an id that every provider accepts. The caller must keep ids unique: two may clash."""
    readable = _FOREIGN.sub("_", call_id) or "call"
    if len(readable) + len(suffix) > _ID_CHARS:
        suffix = f"_{_hash_text(call_id)}{suffix}"
    return _cut(readable, suffix, limit=_ID_CHARS)


def _hash_text(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'replace')):08x}"


def _cut(text: str, suffix: str, *, limit: int) -> str:
    return text[: limit - len(suffix)] + suffix
