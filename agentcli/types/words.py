"""Words that stand beside numbers, wherever a person or a model reads them."""


def pluralize(count: int, one: str, many: str = "") -> str:
    """`1 request`, `2 requests`; `many` where an s is not enough."""
    return f"{count} {one if count == 1 else many or one + 's'}"
