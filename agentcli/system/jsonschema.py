"""JSON Schema for the answers users ask for: a schema is checked once, values against it often.

Nothing is fetched: a reference to something outside the schema does not resolve.
"""

from collections.abc import Callable, Iterator
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

from agentcli.types.messages import Json

SHOWN_VALUE_CHARS = 80
SHOWN_CHARS = 500


def find_schema_fault(schema: Json) -> str:
    """Return why this cannot be the schema of an answer; empty if it can."""
    if not isinstance(schema, dict):
        return "it is not an object"
    if schema.get("type", "object") != "object":
        return f'its "type" is {schema["type"]!r}, and an answer is always an object'
    try:
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
        return _find_lost_reference(schema)
    except SchemaError as error:
        return f"{_format_location(error)}: {error.message[:SHOWN_CHARS]}"
    except RecursionError:
        return "it is nested too deeply"


def build_validator(schema: Json) -> Callable[[Json], str]:
    """Return a function that says in one sentence what is wrong with a value; empty if nothing."""
    checker = _build_checker(schema)

    def find_problem(value: Json) -> str:
        try:
            error = best_match(checker.iter_errors(value))
        except (Unresolvable, RecursionError) as fault:
            return f"the schema cannot be applied to it ({type(fault).__name__})"
        return f"{_format_location(error)}: {_format_message(error)}" if error else ""

    return find_problem


def _build_checker(schema: Any) -> Validator:
    kind = validator_for(schema, default=Draft202012Validator)
    checker: Validator = kind(schema, registry=EMPTY_REGISTRY)
    return checker


def _find_lost_reference(schema: Json) -> str:
    """Return the first reference that is not defined, as a sentence.

    The validator reports it only when a value reaches it, which is too late for us.
    """
    resource = Resource.from_contents(schema, default_specification=DRAFT202012)
    address = resource.id() or ""
    resolver = EMPTY_REGISTRY.with_resource(address, resource).resolver(base_uri=address)
    for reference in _iter_references(schema):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            return f"the reference {reference!r} is not defined"
    return ""


def _iter_references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for part in schema.values():
            yield from _iter_references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _iter_references(part)


def _format_location(error: ValidationError | SchemaError) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.path)
    return f"${path}"


def _format_message(error: ValidationError) -> str:
    """Return the library's sentence, shortened, since it quotes the whole value."""
    message = error.message
    shown = repr(error.instance)
    if len(shown) > SHOWN_VALUE_CHARS:
        message = message.replace(shown, shown[:SHOWN_VALUE_CHARS] + "…")
    return message[:SHOWN_CHARS]
