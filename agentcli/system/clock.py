"""Time and fresh names, in one place so that replay can hold them still."""

import os
from datetime import UTC, datetime


def now() -> str:
    """UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_session_id() -> str:
    """Sorts by time; its last four characters are enough to name it by hand."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
