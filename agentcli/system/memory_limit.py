"""The memory of programs of ours that read untrusted data."""

import sys
from contextlib import suppress

if sys.platform != "win32":
    import resource


def limit_memory(size_bytes: int) -> None:
    """Limit the memory of this process, where that is possible."""
    if sys.platform == "win32":
        return
    with suppress(ValueError, OSError):  # a lower limit is set already, or none can be
        resource.setrlimit(resource.RLIMIT_AS, (size_bytes, size_bytes))
