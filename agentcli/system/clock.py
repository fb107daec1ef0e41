"""The time, as it is recorded."""

from datetime import UTC, datetime


def read_clock() -> str:
    """Return the time in UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def measure_age_s(at: str) -> float | None:
    """Return the seconds since a recorded time, or None if it cannot be parsed."""
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds()
    except (ValueError, TypeError):
        return None
