"""Arguments of the built-in tools: declared field by field, checked, and explained if wrong.

The sentences on what is wrong with an input are shared with the user's own tools, which check
values in another way.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from typing import Any, ClassVar, Protocol, TypeVar

from agentcli.system.strict_json import parse_json
from agentcli.system.text import to_printable
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.tools import ErrorKind

SHOWN_VALUE_CHARS = 80
FAULTS_SHOWN = 10


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
    of: type[AliasedFields], raw: Json, *, required: Mapping[str, bool]
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
    told = "; ".join(
        _describe_fault(fault, described, advice=advice) for fault in found[:FAULTS_SHOWN]
    )
    if more := len(found[FAULTS_SHOWN:]):
        told += f"; and {more} more"
    is_unknown = any(fault.kind == "extra_forbidden" and len(fault.at) == 1 for fault in found)
    names = f" The fields are {', '.join(described)}." if is_unknown else ""
    return _build_invalid_error(f"{told}{'' if told.endswith('?') else '.'}{names}")


def _describe_fault(
    fault: ArgumentFault, described: Mapping[str, str], *, advice: Mapping[str, str]
) -> str:
    name = to_printable(".".join(map(str, fault.at))) or "the input"
    meant = f" ({described[name]})" if described.get(name) else ""
    match fault.kind:
        case "missing":
            return f"{name} is missing{meant}"
        case "extra_forbidden":
            return f"there is no field {name}{_suggest_field(name, described, advice=advice)}"
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


def _suggest_field(name: str, known: Iterable[str], *, advice: Mapping[str, str]) -> str:
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


_MOST_DIGITS = 4300
_BEYOND = 2**63
"""What a larger number may mean is not asked."""
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_SWITCHES = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinArguments:
    """Base of the arguments of a built-in tool. Each field has an `argument` as its metadata."""

    aliases: ClassVar[dict[str, str]] = {}
    """Other names models use for a field, accepted silently."""
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Fields of the same tool elsewhere that mean nothing here."""
    advice: ClassVar[dict[str, str]] = {}
    """For fields of the same tool elsewhere, what to do here instead."""


A = TypeVar("A", bound=BuiltinArguments)


class WrongValue(Exception):
    def __init__(self, *faults: ArgumentFault) -> None:
        super().__init__(faults)
        self.faults = faults


class Check(Protocol):
    """Returns a value as its field has it, or raises WrongValue."""

    def __call__(self, value: Any, /) -> Any: ...

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of such a value, as declared to a model."""
        ...


# Checks, one for each type of field


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCheck:
    is_filled: bool = False
    """True if it needs a character."""
    read: Callable[[Any], Any] = lambda value: value
    """Returns another form that models write as text; anything else as it is."""
    accept: Callable[[str], object] = str
    """Raises WrongValue for a text that means nothing."""

    def __call__(self, value: Any) -> str:
        value = self.read(value)
        if not isinstance(value, str):
            raise _build_wrong_value("string_type", "a valid string", given=value)
        if self.is_filled:
            _require_characters(value)
            if not value:
                raise _build_wrong_value("string_too_short", "at least 1 character", given=value)
        self.accept(value)
        return value

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCheck:
    least: int | None = None
    most: int | None = None

    def __call__(self, value: Any) -> int:
        number = _parse_whole(value)
        if self.least is not None and number < self.least:
            wanted = f"greater than or equal to {self.least}"
            raise _build_wrong_value("greater_than_equal", wanted, given=value)
        if self.most is not None and number > self.most:
            raise _build_wrong_value(
                "less_than_equal", f"less than or equal to {self.most}", given=value
            )
        return number

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "integer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchCheck:
    def __call__(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            _require_characters(value)
            found = _SWITCHES.get(value.lower()) if value.isascii() else None
        elif isinstance(value, int | float) and abs(value) < _BEYOND and value == int(value):
            found = {0: False, 1: True}.get(int(value))
        else:
            raise _build_wrong_value("bool_type", "a valid boolean", given=value)
        if found is None:
            raise _build_wrong_value(
                "bool_parsing", "a valid boolean, unable to interpret input", given=value
            )
        return found

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceCheck:
    words: tuple[str, ...]
    synonyms: tuple[tuple[str, str], ...] = ()
    """Words that other tools use for the same, accepted but not declared."""

    def __call__(self, value: Any) -> str:
        if isinstance(value, str):
            _require_characters(value)
            word = dict(self.synonyms).get(value, value)
            if word in self.words:
                return word
        *others, last = map("'{}'".format, self.words)
        raise _build_wrong_value("literal_error", f"{', '.join(others)} or {last}", given=value)

    @property
    def schema(self) -> dict[str, Any]:
        return {"enum": list(self.words), "type": "string"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCheck:
    """A list whose items are all checked, so that every fault is found at once."""

    item: Check
    read: Callable[[Any], Any] = lambda value: value
    """Returns another form that models write as an array; anything else as it is."""
    accept: Callable[[list[Any]], object] = list
    """Raises WrongValue for items that mean nothing."""

    def __call__(self, value: Any) -> list[Any]:
        value = self.read(value)
        if not isinstance(value, list):
            raise _build_wrong_value("list_type", "an array", given=value)
        items = [_try_check(self.item, one, place=index) for index, one in enumerate(value)]
        if faults := _join_faults(items):
            raise WrongValue(*faults)
        self.accept(items)
        return items

    @property
    def schema(self) -> dict[str, Any]:
        return {"items": self.item.schema, "type": "array"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCheck:
    """An object with the fields of a class, some of which may be undeclared."""

    of: type[BuiltinArguments]
    undeclared: frozenset[str] = frozenset()
    """Fields that are accepted, but cost tokens in every request and are seldom needed."""

    def __call__(self, value: Any) -> BuiltinArguments:
        if not isinstance(value, dict):
            raise _build_wrong_value("model_type", "an object", given=value)
        items: dict[str, Any] = value
        aliases = self.of.aliases
        return _check_fields(self.of, {aliases.get(key, key): items[key] for key in items})

    @property
    def schema(self) -> dict[str, Any]:
        whole = build_schema(self.of)
        declared = {
            name: one for name, one in whole["properties"].items() if name not in self.undeclared
        }
        return {
            "type": "object",
            "properties": declared,
            "required": whole["required"],
            "additionalProperties": False,
        }


def declare_argument(check: Check, description: str = "") -> Mapping[str, Any]:
    """Return the metadata of a field: how it is checked, and what a model is told of it."""
    return {"check": check, "description": description}


def refuse_nul(path: str) -> None:
    if "\0" in path:
        raise _build_wrong_value("path_nul", "a path without NUL", given=path)


FILE_PATH = declare_argument(TextCheck(is_filled=True, accept=refuse_nul), "e.g. src/app.py")
"""The path of a file that a call is about; an invalid one is refused before the call is judged."""


# A whole class of arguments: its schema, and a call's input checked


def build_schema(of: type[BuiltinArguments]) -> dict[str, Any]:
    """Return the JSON schema as declared: an object, closed to other properties.

    Limits are not declared. They cost tokens in every request, and the strict subsets of providers
    do not know most of them. The description says what a model must know."""
    properties = {}
    for field in fields(of):
        described = field.metadata["description"]
        told = {"description": described} if described else {}
        properties[field.name] = {**told, **field.metadata["check"].schema}
    return {
        "type": "object",
        "properties": properties,
        "required": [field.name for field in fields(of) if _is_required(field)],
        "additionalProperties": False,
    }


def get_description(of: type[BuiltinArguments], name: str) -> str:
    """Return what a model is told of a field."""
    found: str = next(field for field in fields(of) if field.name == name).metadata["description"]
    return found


def parse_arguments(of: type[A], raw: Json) -> A:
    """Return validated arguments; raise ToolError that names each wrong field and its remedy."""
    try:
        return _check_fields(of, apply_aliases(of, raw, required=_list_names(of)))
    except WrongValue as error:
        described = {field.name: field.metadata["description"] for field in fields(of)}
        raise explain_faults(error.faults, described, advice=of.advice) from None


def _list_names(of: type[BuiltinArguments]) -> Mapping[str, bool]:
    return {field.name: _is_required(field) for field in fields(of)}


def _is_required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _check_fields(of: type[A], values: Mapping[str, Any]) -> A:
    for key in values:
        _require_characters(key)
    found: dict[str, Any] = {}
    for field in fields(of):
        if field.name in values:
            check = field.metadata["check"]
            found[field.name] = _try_check(check, values[field.name], place=field.name)
        elif _is_required(field):
            found[field.name] = WrongValue(ArgumentFault(kind="missing", at=(field.name,)))
    names = _list_names(of)
    unknown = [
        ArgumentFault(kind="extra_forbidden", at=(name,)) for name in values if name not in names
    ]
    if faults := (*_join_faults(found.values()), *unknown):
        raise WrongValue(*faults)
    return of(**found)


def _try_check(check: Check, value: Any, *, place: str | int) -> Any:
    """Return the checked value, or its faults with the place they are at."""
    try:
        return check(value)
    except WrongValue as error:
        return WrongValue(
            *(
                ArgumentFault(
                    kind=fault.kind, wanted=fault.wanted, given=fault.given, at=(place, *fault.at)
                )
                for fault in error.faults
            )
        )


def _join_faults(checked: Iterable[Any]) -> list[ArgumentFault]:
    return [fault for one in checked if isinstance(one, WrongValue) for fault in one.faults]


def _parse_whole(value: Any) -> int:
    """Return a number that is whole, or a text that is one."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _parse_whole_float(value)
    if not isinstance(value, str):
        raise _build_wrong_value("int_type", "a valid integer", given=value)
    _require_characters(value)
    text = value.strip(_BLANKS)
    if not re.fullmatch(r"[+-]?[0-9]+(?:_[0-9]+)*(?:\.0+)?", text):
        wanted = "a valid integer, unable to parse string as an integer"
        raise _build_wrong_value("int_parsing", wanted, given=value)
    digits = text.partition(".")[0].replace("_", "")
    if len(digits) > _MOST_DIGITS:
        raise _build_wrong_value("int_parsing_size", "a smaller integer", given=value)
    return int(digits)


def _parse_whole_float(value: float) -> int:
    if value != value or value in (float("inf"), float("-inf")):
        raise _build_wrong_value("finite_number", "a finite number", given=value)
    if not value.is_integer():
        wanted = "a valid integer, got a number with a fractional part"
        raise _build_wrong_value("int_from_float", wanted, given=value)
    if not -_BEYOND <= value < _BEYOND:
        raise _build_wrong_value("int_parsing_size", "a smaller integer", given=value)
    return int(value)


def _require_characters(text: str) -> None:
    """Raise WrongValue for half of a surrogate pair, which JSON can write and UTF-8 cannot."""
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise _build_wrong_value("string_unicode", "a valid string", given=text)


def _build_wrong_value(kind: str, wanted: str, *, given: Any) -> WrongValue:
    return WrongValue(ArgumentFault(kind=kind, wanted=wanted, given=given))
