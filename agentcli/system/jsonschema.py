"""JSON Schema for the answers users ask for: a schema is checked once, values against it often.

Nothing is fetched: a reference to something outside the schema does not resolve. If the check may
take for ever, it is made in a process of its own, which is this module as a program: no signal
reaches Python while it matches a pattern.
"""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing import Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

from agentcli.system import own_process
from agentcli.system.schema_cost import is_quick
from agentcli.types.messages import Json

CHECK_LIMIT_S = 10.0
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


def build_validator(
    schema: Json, *, limit_s: float = CHECK_LIMIT_S
) -> Callable[[Json], Awaitable[str]]:
    """Return a function that says in one sentence what is wrong with a value; empty if nothing."""
    is_simple = is_quick(schema)

    async def validate(value: Json) -> str:
        try:
            given = json.dumps([schema, value]).encode()
        except RecursionError as fault:
            return _explain_inapplicable(fault)
        return find_problem(schema, value) if is_simple else await _check_apart(given, limit_s)

    return validate


async def _check_apart(given: bytes, limit_s: float) -> str:
    """Find the problem in a process of its own. `given` are the schema and the value, as JSON."""
    checker = own_process.start(
        own_process.build_python_command(Path(__file__)),
        workspace=None,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        output, _ = await asyncio.to_thread(checker.communicate, given, limit_s)
    except subprocess.TimeoutExpired:
        return f"it could not be checked within {limit_s:g} s; a pattern may be too slow for it"
    finally:
        checker.kill()
        checker.wait()
    return output.decode() if checker.returncode == 0 else "it could not be checked"


def find_problem(schema: Any, value: Json) -> str:
    """Return in one sentence what is wrong with a value; empty if nothing. May take for ever."""
    kind = validator_for(schema, default=Draft202012Validator)
    checker: Validator = kind(schema, registry=EMPTY_REGISTRY)
    try:
        error = best_match(checker.iter_errors(value))
    except (Unresolvable, RecursionError) as fault:
        return _explain_inapplicable(fault)
    return f"{_format_location(error)}: {_format_message(error)}" if error else ""


def _explain_inapplicable(fault: Exception) -> str:
    return f"the schema cannot be applied to it ({type(fault).__name__})"


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


if __name__ == "__main__":
    if sys.platform != "win32":
        signal.alarm(int(6 * CHECK_LIMIT_S))  # whoever started it may have been killed
    problem = find_problem(*json.load(sys.stdin))
    sys.stdout.buffer.write(problem.encode("utf-8", "backslashreplace"))
