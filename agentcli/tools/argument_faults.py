"""The input of a call by the names of a tool's fields, and sentences on what is wrong with it.

Shared by the built-in tools and those of the user, which check values in different ways.
"""

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol

from agentcli.system.strict_json import parse_json
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.tools import ErrorKind

SHOWN_VALUE_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentFault:
    kind: str
    """The name that pydantic has for it."""
    wanted: str = ""
    """What it should be, as in "must be a valid string"; for some kinds a whole sentence."""
    given: Any = None
    at: tuple[str | int, ...] = ()
    """The way to the value: names of fields and places in arrays."""


class AliasedFields(Protocol):
    """A class of arguments whose fields have other names, too."""

    aliases: ClassVar[dict[str, str]]
    ignored: ClassVar[frozenset[str]]


def apply_aliases(
    of: type[AliasedFields], raw: Json, required: Mapping[str, bool]
) -> dict[str, Json]:
    """Return input by the names of fields, without null for optional ones, which providers send.

    `required` has all names, and says which must be given. Raise ToolError for no object."""
    given = read_object(raw)
    values: dict[str, Json] = {}
    for key, value in given.items():
        name = of.aliases.get(key, key) if key not in required else key
        if name in of.ignored:
            continue
        if name != key and name in given:
            name = key
        if value is None and not required.get(name, True):
            continue
        values[name] = value
    return values


def read_object(raw: Json) -> dict[str, Json]:
    """Return the arguments of a call. Raise ToolError that says why they are not an object."""
    if isinstance(raw, str):
        raw = _explain_text(raw)
    if not isinstance(raw, dict):
        raise _build_invalid_error(f"the arguments must be one JSON object, not {_name_kind(raw)}.")
    return raw


def explain_faults(
    faults: Iterable[ArgumentFault], described: Mapping[str, str], *, advice: Mapping[str, str]
) -> ToolError:
    """Return the error that names each fault. `described` has the fields, with descriptions."""
    found = [*faults]
    told = "; ".join(_describe_fault(fault, described, advice) for fault in found)
    is_unknown = any(fault.kind == "extra_forbidden" and len(fault.at) == 1 for fault in found)
    names = f" The fields are {', '.join(described)}." if is_unknown else ""
    return _build_invalid_error(f"{told}{'' if told.endswith('?') else '.'}{names}")


def _describe_fault(
    fault: ArgumentFault, described: Mapping[str, str], advice: Mapping[str, str]
) -> str:
    name = ".".join(map(str, fault.at)) or "the input"
    meant = f" ({described[name]})" if described.get(name) else ""
    match fault.kind:
        case "missing":
            return f"{name} is missing{meant}"
        case "extra_forbidden":
            return f"there is no field {name}{_suggest_field(name, described, advice)}"
        case "literal_error":
            return f"{name} must be {fault.wanted}, not {_display(fault.given)}"
        case "string_too_short":
            return f"{name} must not be empty"
        case "needs":
            return f"{name}: {fault.wanted}"
        case "string_unicode":
            return f"{name} has half of a surrogate pair in it, which is not a character"
        case _:
            return f"{name} must be {fault.wanted}, not {_display(fault.given)}{meant}"


def _suggest_field(name: str, known: Iterable[str], advice: Mapping[str, str]) -> str:
    if name in advice:
        return f": {advice[name]}"
    near = get_close_matches(name, known, n=1) if "." not in name else []
    return f". Did you mean {near[0]}?" if near else ""


def _display(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate cannot be sent
    return text if len(text) <= SHOWN_VALUE_CHARS else text[:SHOWN_VALUE_CHARS] + "…"


def _explain_text(text: str) -> Json:
    """Return the value of arguments that arrived as text, if they are JSON but not an object.

    Raise ToolError if they are not JSON."""
    try:
        value: Json = parse_json(text)
        fault = "nested too deeply"
    except ValueError as error:
        value, fault = {}, str(error)
    except RecursionError:
        value, fault = {}, "nested too deeply"
    if not isinstance(value, dict):
        return value
    raise _build_invalid_error(f"the arguments are not valid JSON ({fault}). Send one object.")


def _name_kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "an array"
        case _:
            return _display(value)


def _build_invalid_error(message: str) -> ToolError:
    return ToolError(f"Invalid input: {message}", kind=ErrorKind.INVALID_INPUT)
