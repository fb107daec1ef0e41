"""What both Gemini protocols share: typed values, calls, the choice of tools, thinking.

A value of the wrong type counts as absent.
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256

from agentcli.providers.dialect import Model
from agentcli.providers.strict import GEMINI, are_strict
from agentcli.system.lazy import compile_later
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import ToolSpec


def as_mapping(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def as_string(value: Json) -> str:
    return value if isinstance(value, str) else ""


# Calls in both Gemini protocols: arguments may not be an object, and ids may be missing


_ID_CHARS = 16
_ACCEPTED_NAME = compile_later(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_EXACT = 2**53
"""Integers below this have the same value as a float."""


def mint_id(*seed: object) -> str:
    """Return an id for a call without one, as older models send it.

    The same stream gives the same id again, another stream a different one.
    """
    digest = sha256(repr(seed).encode(errors="replace")).hexdigest()
    return f"call_{digest[:_ID_CHARS]}"


def write_call(call: ToolCall, written: Mapping[str, Json]) -> dict[str, Json]:
    """Return a call as the model wrote it, with our name if the service would refuse its own."""
    name = as_string(written.get("name"))
    return {**written, "name": name if _ACCEPTED_NAME.fullmatch(name) else call.name}


def normalize_numbers(value: Json) -> Json:
    """Turn whole floats into integers: the service sometimes writes all numbers as floats."""
    match value:
        case float() if value.is_integer() and abs(value) < _EXACT:
            return int(value)
        case dict():
            return {key: normalize_numbers(item) for key, item in value.items()}
        case list():
            return [normalize_numbers(item) for item in value]
        case _:
            return value


# The choice of tools in both Gemini protocols


@lru_cache
def is_validated(tools: tuple[ToolSpec, ...], model: Model) -> bool:
    """Return whether the service can hold free calls to their schemas: `VALIDATED`, not `AUTO`.

    It compiles all schemas of a request or none, and models before Gemini 3 do not know the mode.
    """
    return is_signing(model) and are_strict(tools, GEMINI, model=model)


# Thinking in both Gemini protocols: levels, and missing signatures


UNSIGNED = "skip_thought_signature_validator"
"""The documented signature for calls made by another model or another provider. Without it they
would have to become prose, which models then imitate."""

_OLD = compile_later(r"gemini-[12](?!\d)")

_LEVELS = {
    # Not every model takes "minimal", and thinking cannot be switched off.
    "none": "low",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def is_signing(model: Model) -> bool:
    """Return whether the model is Gemini 3 or later. A name without a number is, too."""
    return _OLD.search(model.name) is None


def choose_thinking_level(effort: str | None) -> str | None:
    """Return the level for this effort. An unknown word is passed on: the service judges it."""
    return effort and _LEVELS.get(effort, effort)
