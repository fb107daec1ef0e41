"""Facts made from JSON data in the form that the writer gives it, by a table for each class.

A resumed session reads its log before its first request, and pydantic takes longer to load than
most logs take to read. Any other data is left to `validation.py`, which says what is wrong.
"""

from collections.abc import Callable
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin, get_type_hints

from agentcli.log.old_formats import upgrade_fact
from agentcli.types.events import Fact

Decode: TypeAlias = Callable[[Any], Any]
"""Returns a value made from JSON data. Raises an error if the data does not fit exactly."""

FACTS: dict[str, type] = {
    fact.__dataclass_fields__["type"].default: fact for fact in get_args(Fact)
}
"""The classes of the facts, by their types."""


class UnknownType(ValueError):
    """A fact of a type that only a newer version knows."""


def parse_fact(data: Any) -> Fact:
    """Return the fact, in whichever format it was written.

    Raise UnknownType, or ValueError that says in its first line what is wrong."""
    data = upgrade_fact(data)
    named = data.get("type") if isinstance(data, dict) else None
    if isinstance(named, str) and named not in FACTS:
        raise UnknownType(f"no fact of this version has the type {named}")
    try:
        return decode_fact(data)
    except NotExact:
        from agentcli.log.validation import validate_fact

        return validate_fact(data)


class NotExact(Exception):
    """The data does not have the form that the writer gives it."""


def decode_fact(data: Any) -> Fact:
    """Return the fact. Raise NotExact, which does not mean that the data is wrong."""
    try:
        return cast("Fact", _build_decoder(FACTS[data["type"]])(data))
    except (KeyError, TypeError, ValueError) as error:
        raise NotExact from error


@cache
def _build_decoder(hint: Any) -> Decode:
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        return _decode_dataclass(cast("type", hint))
    if origin is tuple:
        return _decode_tuple(arguments)
    if origin is Literal:
        return {value: value for value in arguments}.__getitem__
    if arguments:
        return _decode_union(arguments)
    if issubclass(hint if hint is not Any else object, StrEnum):
        return {member.value: member for member in hint}.__getitem__
    return _PLAIN[hint]


def _decode_dataclass(cls: type) -> Decode:
    decoders = {name: _build_decoder(hint) for name, hint in get_type_hints(cls).items()}

    def decode(data: Any) -> Any:
        if type(data) is not dict:
            raise TypeError
        return cls(**{name: decoders[name](value) for name, value in data.items()})

    return decode


def _decode_tuple(arguments: tuple[Any, ...]) -> Decode:
    if arguments[-1] is ...:
        decode_item = _build_decoder(arguments[0])
        return lambda data: tuple([decode_item(item) for item in _check_list(data)])
    decoders = [_build_decoder(hint) for hint in arguments]
    return lambda data: tuple(
        [decode(item) for decode, item in zip(decoders, _check_list(data), strict=True)]
    )


def _decode_union(members: tuple[Any, ...]) -> Decode:
    """Return the decoder of classes that their types tell apart, of str, or of a single type."""
    others = [one for one in members if one is not NoneType]
    if str in others:
        decode = _PLAIN[str]  # rather than the members of an enumeration
    elif len(others) == 1:
        decode = _build_decoder(others[0])
    else:
        decode = _decode_by_type(others)
    if NoneType not in members:
        return decode
    return lambda data: None if data is None else decode(data)


def _decode_by_type(classes: list[Any]) -> Decode:
    decoders = {one.__dataclass_fields__["type"].default: _build_decoder(one) for one in classes}
    return lambda data: decoders[data["type"]](data)


def _check_list(data: Any) -> list[Any]:
    if type(data) is not list:
        raise TypeError
    return data


def _decode_only(kind: type) -> Decode:
    def decode(data: Any) -> Any:
        if type(data) is not kind:
            raise TypeError
        return data

    return decode


def _decode_float(data: Any) -> float:
    if type(data) is not float and type(data) is not int:
        raise TypeError
    return float(data)


_PLAIN: dict[Any, Decode] = {
    str: _decode_only(str),
    int: _decode_only(int),
    bool: _decode_only(bool),
    float: _decode_float,
    Path: lambda data: Path(_PLAIN[str](data)),
    Any: lambda data: data,
}
