"""Words next to numbers, in every text for a user or a model."""


def pluralize(count: int, one: str, many: str = "") -> str:
    """Return `1 request`, `2 requests`; `many` is the plural if an s is not enough."""
    return f"{count} {one if count == 1 else many or one + 's'}"
