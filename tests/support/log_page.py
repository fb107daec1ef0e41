"""The table of fields in docs/reference/log.md, made from the facts themselves."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agentcli.log.writer import to_json
from agentcli.types.events import Fact, NoteReason

PAGE = Path(__file__).parents[2] / "docs/reference/log.md"
BEGIN, END = "<!-- fields: generated -->\n", "<!-- end of fields -->\n"
_PLAIN = {str: "string", Path: "string", int: "integer", float: "number", bool: "boolean"}
_PLAIN |= {NoneType: "null", Any: "any", NoteReason: "string"}


def build_fields_section() -> str:
    """Two tables: the fields of each fact, then those of the objects in them."""
    facts = {kind.__dataclass_fields__["type"].default: kind for kind in get_args(Fact)}
    objects: dict[str, Any] = {}
    for kind in facts.values():
        objects |= {found.__name__: found for found in _find_objects(kind)}
    tables = [_build_table("fact", facts), _build_table("object", dict(sorted(objects.items())))]
    return "\n".join(tables)


def write_fields_section() -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(before + BEGIN + build_fields_section() + END + after, encoding="utf-8")


def _build_table(title: str, kinds: dict[str, Any]) -> str:
    described = {name: _describe_fields(kind) for name, kind in kinds.items()}
    rows = (f"| `{name}` | {f'`{row}`' if row else ''} |\n" for name, row in described.items())
    return f"\n| {title} | fields |\n| --- | --- |\n" + "".join(rows)


def _describe_fields(kind: Any) -> str:
    if issubclass(kind, StrEnum):
        return _join(f'"{word}"' for word in kind)
    hints = get_type_hints(kind)
    is_fact = kind in get_args(Fact)
    return ", ".join(
        f"{field.name}: {_describe(hints[field.name])}{_describe_default(field)}"
        for field in fields(kind)
        if not (is_fact and field.name == "type")
    )


def _describe_default(field: Field[Any]) -> str:
    is_required = field.default is MISSING or field.name == "type"
    return "" if is_required else f" = {json.dumps(to_json(field.default))}"


def _describe(hint: Any) -> str:
    if hint in _PLAIN:
        return _PLAIN[hint]
    match get_origin(hint):
        case origin if origin is Literal:
            return _join(f'"{word}"' for word in get_args(hint))
        case origin if origin in (Union, UnionType):
            return _join(dict.fromkeys(map(_describe, get_args(hint))))
        case origin if origin is tuple:
            inner = [_describe(arg) for arg in get_args(hint) if arg is not Ellipsis]
            return f"[{', '.join(inner)}]"
    return str(hint.__name__)


def _join(words: Iterable[str]) -> str:
    return " or ".join(words)


def _find_objects(hint: Any) -> Iterator[type]:
    """Every dataclass and list of words within a fact, by name."""
    if is_dataclass(hint):
        for inner in get_type_hints(hint).values():
            yield from _find_named(inner)


def _find_named(hint: Any) -> Iterator[type]:
    if (
        isinstance(hint, type)
        and hint not in _PLAIN
        and (is_dataclass(hint) or issubclass(hint, StrEnum))
    ):
        yield hint
        yield from _find_objects(hint)
    for arg in get_args(hint):
        yield from _find_named(arg)
