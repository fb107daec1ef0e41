"""The time, as it is recorded."""

from datetime import UTC, datetime


def read_clock() -> str:
    """Return the time in UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
