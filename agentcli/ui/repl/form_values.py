"""What a person typed into a field of a form, as the value that the field wants."""

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from urllib.parse import urlsplit

from agentcli.machine.numbers import parse_whole_number
from agentcli.types.forms import FieldKind, FormField
from agentcli.types.messages import Json

Value = str | int | float | bool | list[str]

_YES = ("y", "yes", "true")
_NO = ("n", "no", "false")


def parse_value(field: FormField, typed: str) -> Value:
    """Raises ValueError, which says what would be right."""
    return _PARSERS[field.kind](field, typed.strip())


def parse_default(field: FormField) -> Value | None:
    """The server's proposal, as far as it is one that the field itself would take."""
    default: Json = field.default
    if isinstance(default, list):
        default = ", ".join(map(str, default))
    if default is None or isinstance(default, dict):
        return None
    typed = str(default).lower() if isinstance(default, bool) else str(default)
    try:
        return parse_value(field, typed)
    except ValueError:
        return None


def format_value(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)


def describe_input(field: FormField) -> str:
    """What can be typed, in a few words."""
    match field.kind:
        case "boolean":
            return "yes or no"
        case "choice":
            return "one of these, by its number"
        case "choices":
            return "any of these, by their numbers, with commas between"
        case "text":
            return field.format or "text"
        case _:
            return "a whole number" if field.kind == "integer" else "a number"


def _parse_text(field: FormField, typed: str) -> str:
    _check_limits(field, len(typed), "characters")
    if field.format and not _FORMATS[field.format](typed):
        raise ValueError(f"that is no {field.format}")
    return typed


def _parse_number(field: FormField, typed: str) -> float:
    try:
        number = float(typed)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError("that is no number")
    _check_limits(field, number, "")
    return number


def _parse_integer(field: FormField, typed: str) -> int:
    number = _parse_number(field, typed)
    if number != int(number):
        raise ValueError("that is no whole number")
    return int(number)


def _parse_boolean(field: FormField, typed: str) -> bool:
    if typed.lower() in (*_YES, *_NO):
        return typed.lower() in _YES
    raise ValueError("write yes or no")


def _parse_choice(field: FormField, typed: str) -> str:
    number = parse_whole_number(typed) or 0
    if 1 <= number <= len(field.choices):
        return field.choices[number - 1][0]
    for value, name in field.choices:
        if typed in (value, name):
            return value
    raise ValueError(f"write a number from 1 to {len(field.choices)}")


def _parse_choices(field: FormField, typed: str) -> list[str]:
    taken = [_parse_choice(field, one.strip()) for one in typed.split(",") if one.strip()]
    _check_limits(field, len(taken), "of them")
    return list(dict.fromkeys(taken))


def _check_limits(field: FormField, size: float, unit: str) -> None:
    if field.least is not None and size < field.least:
        raise ValueError(f"at least {field.least:g} {unit}".strip())
    if field.most is not None and size > field.most:
        raise ValueError(f"at most {field.most:g} {unit}".strip())


def _is_date(typed: str) -> bool:
    try:
        date.fromisoformat(typed)
    except ValueError:
        return False
    return True


def _is_time(typed: str) -> bool:
    try:
        datetime.fromisoformat(typed)
    except ValueError:
        return False
    return "T" in typed.upper() or " " in typed


def _is_address(typed: str) -> bool:
    try:
        return bool(urlsplit(typed).scheme) and " " not in typed
    except ValueError:
        return False


def _is_email(typed: str) -> bool:
    name, _, host = typed.rpartition("@")
    return bool(name and "." in host.strip(".")) and " " not in typed


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_time,
    "uri": _is_address,
    "email": _is_email,
}
_PARSERS: Mapping[FieldKind, Callable[[FormField, str], Value]] = {
    "text": _parse_text,
    "number": _parse_number,
    "integer": _parse_integer,
    "boolean": _parse_boolean,
    "choice": _parse_choice,
    "choices": _parse_choices,
}
