"""Time and new ids, in one module so that replay can hold them constant."""

import os
from datetime import UTC, datetime


def read_clock() -> str:
    """Return the time in UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def make_session_id() -> str:
    """Return an id that sorts by time; its last four characters are enough to type by hand."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{os.urandom(2).hex()}"
