"""Facts made from JSON data in the form that the writer gives it, by a table for each class.

A resumed session reads its log before its first request, and pydantic takes longer to load than
most logs take to read. Any other data is left to `validation.py`, which says what is wrong.

Only this module knows the words of older formats. The hash of a line is over its bytes as they were
written, so a log is never rewritten: every reader of its facts takes them through here.
"""

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin, get_type_hints

from agentcli.system.lazy import compile_later
from agentcli.types.events import Fact
from agentcli.types.words import pluralize

READABLE_VERSIONS = (1, 2)
"""The changes from one format to the next are listed in `docs/reference/log.md`."""
_OLD_FIELDS = {"confinement": "grants"}
_SPANS = {"once": "once", "for this session": "session", "always": "always"}
"""How long an approval lasts, by the last words of its reason, where no field says it."""
_MODES = ("auto", "auto-edit", "ask", "plan")
_SAID = ("the user denied it, and said: ", "the person said no, and: ")
"""The words before what the user wants instead, where no field says it."""


_PLANNING, _STEPS_DONE = "Plan mode: ", "Steps of the plan that are done: "
_LISTS = {"Skills": "skill", "Roles": "role"}
_ENDED_IN_BACKGROUND = compile_later(r"background pid (\d+) ended after \S+ s: exit code (\d+)")
_LOADED_FILE = compile_later(
    r"(?:Instructions|Notes) of .+, from (.+); (?:follow them|written for)"
)


def upgrade_fact(fact: Any) -> Any:
    """Return a fact, as read from JSON, in the words of the format that is written today.

    What is not a fact of an older format is returned unchanged.
    """
    match fact:
        case {"type": "told"}:
            note = _replace({**fact, "type": "context_note"}, "why", new_words={"person": "user"})
            return _upgrade_note(note)
        case {"type": "context_note"}:
            return _upgrade_note(fact)
        case {"type": "tokens_spent"}:
            return _replace(fact, "why", new_words={"opinion": "evaluation"})
        case {"type": "call_judged", "verdict": {} as verdict}:
            verdict = {_OLD_FIELDS.get(name, name): value for name, value in verdict.items()}
            verdict = _replace(verdict, "by", new_words={"person": "user"})
            return {**fact, "verdict": _add_mode(_add_said(_add_span(verdict)))}
        case {"type": "turn_ended" | "session_ended"}:
            return _replace(fact, "ending", new_words={"reader_left": "output_closed"})
        case _:
            return fact


def _upgrade_note(note: Any) -> Any:
    """Return a note with its own reason and with its data, where only its text says them."""
    match note:
        case {"why": "plan_mode", "text": str(text)} if text.startswith(_STEPS_DONE):
            return {**note, "why": "plan_steps"}
        case {"why": "plan_mode", "text": str(text)} if not text.startswith(_PLANNING):
            return {**note, "why": "plan_mode_over"}
        case {"why": "instructions", "text": str(text)} if "loaded" not in note:
            return {**note, "loaded": _find_loaded(text)}
        case {"why": "background", "text": str(text)} if "pid" not in note:
            found = _ENDED_IN_BACKGROUND.search(text)
            return {**note, "pid": int(found[1]), "exit_code": int(found[2])} if found else note
        case _:
            return note


def _find_loaded(text: str) -> str:
    first, *more = text.strip().split("\n")
    count = len([line for line in more if line.strip()])
    if found := _LOADED_FILE.match(first):
        return f"{found[1]} ({pluralize(count, 'line')})"
    kinds = (kind for word, kind in _LISTS.items() if first.startswith(word))
    return next((pluralize(count, kind) for kind in kinds), "")


def _add_span(verdict: Any) -> Any:
    """Return the verdict with `lasts`, if it is the user's approval and only its reason says it."""
    match verdict:
        case {"by": "user", "decision": "allow", "reason": str(reason)} if "lasts" not in verdict:
            spans = (span for words, span in _SPANS.items() if reason.endswith(words))
            return {**verdict, "lasts": next(spans, None)}
        case _:
            return verdict


def _add_said(verdict: Any) -> Any:
    """Return the verdict with `instead`, if the user denied a call and only its reason says it."""
    match verdict:
        case {"by": "user", "decision": "deny", "reason": str(reason)} if "instead" not in verdict:
            said = (reason.removeprefix(words) for words in _SAID if reason.startswith(words))
            return {**verdict, "instead": next(said, "")}
        case _:
            return verdict


def _add_mode(verdict: Any) -> Any:
    """Return the verdict with `mode`, if only its reason says which one allowed the call."""
    match verdict:
        case {"by": "mode", "decision": "allow", "reason": str(reason)} if "mode" not in verdict:
            mode, allows, _ = reason.partition(" mode allows it")
            return {**verdict, "mode": mode} if allows and mode in _MODES else verdict
        case _:
            return verdict


def _replace(within: Any, name: str, *, new_words: Mapping[str, str]) -> Any:
    """Return the object with another word in one of its fields, if it holds an old one."""
    value = within.get(name)
    if not isinstance(value, str) or value not in new_words:
        return within
    return {**within, name: new_words[value]}


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
