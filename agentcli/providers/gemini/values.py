"""Values of an event as what they should be; what is of another type counts as not there."""

import json
import re
from collections.abc import Mapping
from hashlib import sha256

from agentcli.providers.arguments import parse_arguments
from agentcli.providers.dialect import Model
from agentcli.types.messages import Json, ToolCall


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


# A call as both Gemini protocols write it: arguments that may be no object, and ids that may
# lack.


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


# What both Gemini protocols share about thinking: its levels, and signatures that are missing.


UNSIGNED = "skip_thought_signature_validator"
"""The documented signature for calls that the model asked did not make: another provider's, or
another model's. Without it they would have to become prose, which models then imitate."""

_OLD = re.compile(r"gemini-[12](?!\d)")

_LEVELS = {
    # Not every model takes "minimal", and none can be told not to think at all.
    "none": "low",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def is_signing(model: Model) -> bool:
    """Gemini 3 and later, which is what a name without a number stands for, too."""
    return _OLD.search(model.name) is None


def thinking_level(effort: str | None) -> str | None:
    """A word we do not know is the person's own: the service judges it."""
    return effort and _LEVELS.get(effort, effort)
