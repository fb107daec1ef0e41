"""Words next to numbers, in every text for a user or a model."""


def pluralize(count: int, one: str, *, many: str = "") -> str:
    """Return `1 request`, `2 requests`; `many` is the plural if an s is not enough."""
    return f"{count} {one if count == 1 else many or one + 's'}"


_UNITS = ("bytes", "KB", "MB", "GB")
_UNIT_BYTES = 1024


def format_bytes(size_bytes: int) -> str:
    """Return a size in the unit that people would use."""
    size, units = float(size_bytes), list(_UNITS)
    while size >= _UNIT_BYTES and len(units) > 1:
        size /= _UNIT_BYTES
        units.pop(0)
    digits = 1 if units[0] == _UNITS[-1] else 0
    return f"{size:.{digits}f} {units[0]}"
