"""A call as both Gemini protocols write it: arguments that may be no object, and ids that may lack.

Whatever came as arguments, a tool gets a mapping or the text that was none, and what goes back to
the service is an object.
"""

import json
import re
from collections.abc import Mapping
from hashlib import sha256

from agentcli.types.messages import Json, ToolCall
from agentcli.wire.arguments import parse_arguments
from agentcli.wire.gemini.values import string

_ID_CHARS = 16
_ACCEPTED_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_EXACT = 2**53
"""Integers up to here are the same number as a float."""


def read_arguments(args: Json) -> Json:
    """A mapping, or the text where it is none. No arguments at all are an empty mapping."""
    try:
        text = args if isinstance(args, str) else json.dumps({} if args is None else args)
    except RecursionError:
        return "(nested too deeply)"
    return parse_arguments(text)


def mint_id(*seed: object) -> str:
    """Older models give none. The same stream gives the same id again, another does not."""
    digest = sha256(repr(seed).encode(errors="replace")).hexdigest()
    return f"call_{digest[:_ID_CHARS]}"


def write_call(call: ToolCall, written: Mapping[str, Json]) -> dict[str, Json]:
    """A call as the model wrote it, under our name where the service would refuse its own."""
    name = string(written.get("name"))
    return {**written, "name": name if _ACCEPTED_NAME.fullmatch(name) else call.name}


def normalize_numbers(value: Json) -> Json:
    """Integers where a number is one: the service writes all numbers as floats at times."""
    match value:
        case float() if value.is_integer() and abs(value) < _EXACT:
            return int(value)
        case dict():
            return {key: normalize_numbers(item) for key, item in value.items()}
        case list():
            return [normalize_numbers(item) for item in value]
        case _:
            return value
