"""Names of servers' tools as every provider takes them: `SERVER__TOOL`, within 64 characters.

Two tools never get the same name, and none the name of a tool of ours, which has no `__` in it.
"""

import hashlib
import re

LIMIT_CHARS = 64
_HASH_CHARS = 6
_NOT_TAKEN = re.compile(r"[^A-Za-z0-9_-]")


def public_name(server: str, tool: str) -> str:
    """Which tools there are beside one does not change its name."""
    name = f"{server}__{_NOT_TAKEN.sub('_', tool)}"
    if len(name) <= LIMIT_CHARS and name.endswith(f"__{tool}"):
        return name
    # What was changed may now look like another tool's name, so it is told apart by its own.
    told_apart = hashlib.sha256(tool.encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]
    return f"{name[: LIMIT_CHARS - _HASH_CHARS - 1]}_{told_apart}"
