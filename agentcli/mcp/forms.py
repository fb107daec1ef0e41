"""What a server asks a person, from the protocol's words to a form and back.

The library has let through whatever a server wrote. What is no field that can be asked for is left
out, and texts are cut to a length that fits a screen.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from mcp_types import ElicitRequestParams, ElicitRequestURLParams, ElicitResult

from agentcli.machine.plain import show_controls
from agentcli.types.forms import FieldKind, FormAnswer, FormField, ServerForm

FIELDS_LIMIT = 30
CHOICES_LIMIT = 100
TEXT_CHARS = 1_000
URL_CHARS = 4_000

_PLAIN_KINDS: dict[str, FieldKind] = {
    "string": "text",
    "number": "number",
    "integer": "integer",
    "boolean": "boolean",
}
_FORMATS = ("email", "uri", "date", "date-time")


def make_form(server: str, params: ElicitRequestParams) -> ServerForm:
    message = _text(params.message)
    if isinstance(params, ElicitRequestURLParams):
        return ServerForm(
            server=server, kind="url", message=message, url=show_controls(params.url)[:URL_CHARS]
        )
    schema = params.requested_schema
    wanted = schema if isinstance(schema, Mapping) else {}
    return ServerForm(server=server, kind="form", message=message, fields=tuple(_fields(wanted)))


def make_elicit_result(answer: FormAnswer) -> ElicitResult:
    return ElicitResult(action=answer.action, content=answer.values)


def _fields(schema: Mapping[str, Any]) -> Iterator[FormField]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return
    for name, wanted in list(properties.items())[:FIELDS_LIMIT]:
        if isinstance(wanted, Mapping):
            is_required = isinstance(required, list) and name in required
            yield _field(name, wanted, is_required=is_required)


def _field(name: str, wanted: Mapping[str, Any], *, is_required: bool) -> FormField:
    kind, choices = _kind(wanted)
    least, most = _bounds(wanted, kind)
    return FormField(
        name=name,
        kind=kind,
        title=_text(wanted.get("title")),
        description=_text(wanted.get("description")),
        is_required=is_required,
        default=wanted.get("default"),
        choices=choices,
        least=least,
        most=most,
        format=wanted["format"] if wanted.get("format") in _FORMATS else "",
    )


def _kind(wanted: Mapping[str, Any]) -> tuple[FieldKind, tuple[tuple[str, str], ...]]:
    if wanted.get("type") == "array":
        items = wanted.get("items")
        return "choices", _choices(items if isinstance(items, Mapping) else {})
    choices = _choices(wanted)
    if choices:
        return "choice", choices
    return _PLAIN_KINDS.get(str(wanted.get("type")), "text"), ()


def _choices(wanted: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """In any of the ways in which a schema can say them."""
    titled = wanted.get("oneOf") or wanted.get("anyOf")
    if isinstance(titled, list):
        pairs = [
            (one["const"], _text(one.get("title")) or _text(one["const"]))
            for one in titled
            if isinstance(one, Mapping) and isinstance(one.get("const"), str)
        ]
        return tuple(pairs[:CHOICES_LIMIT])
    values, names = wanted.get("enum"), wanted.get("enumNames")
    if not isinstance(values, list):
        return ()
    shown = names if isinstance(names, list) and len(names) == len(values) else values
    pairs = [
        (value, _text(name))
        for value, name in zip(values, shown, strict=True)
        if isinstance(value, str)
    ]
    return tuple(pairs[:CHOICES_LIMIT])


def _bounds(wanted: Mapping[str, Any], kind: FieldKind) -> tuple[float | None, float | None]:
    words = {"text": ("minLength", "maxLength"), "choices": ("minItems", "maxItems")}
    low, high = words.get(kind, ("minimum", "maximum"))
    return _number(wanted.get(low)), _number(wanted.get(high))


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _text(value: Any) -> str:
    return show_controls(value)[:TEXT_CHARS] if isinstance(value, str) else ""
