"""Values of an event as what they should be; what is of another type counts as not there."""

from agentcli.types.messages import Json


def mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def items(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def string(value: Json) -> str:
    return value if isinstance(value, str) else ""


def count(value: Json) -> int:
    """Some servers write whole numbers as floats."""
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return int(value) if is_whole and isinstance(value, int | float) else 0
