"""Facts that are lines of the log so far, and read when a field of them is first asked for.

A session that goes on needs few of the fields in its log, so a line that is read again becomes an
ordinary fact only when it is needed. A running session seldom reads what it recorded long ago: such
a fact is put away, and read from the log whenever a field is asked for. So is its message or
result. Either stays the same object, which others hold and compare by identity.
"""

import json
from threading import RLock
from typing import Any

from agentcli.log.decode import FACTS, parse_fact
from agentcli.log.writer import StoredLine
from agentcli.types.errors import SettingsError
from agentcli.types.events import CallFinished, Fact, ModelReplied
from agentcli.types.messages import AssistantMessage
from agentcli.types.tools import ToolResult

_LOADING = RLock()


def is_read(fact: Fact) -> bool:
    """Return whether a fact was ever read. The others name no agent, and no tool was found."""
    return not isinstance(fact, Unread) or isinstance(_find_line(fact), StoredLine)


class Unread:
    """A value that is in a line so far. Each use of a field reads it."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(_load(self), name)

    def __eq__(self, other: object) -> bool:
        return bool(_load(self) == other)

    def __hash__(self) -> int:
        return hash(_load(self))

    def __repr__(self) -> str:
        return repr(_load(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _return, (_load(self),)


def _return(value: Any) -> Any:
    """Return the value: what a copy of an unread one is made by."""
    return value


def leave_unread(kind: Any, line: bytes) -> Any:
    """Return a fact of a class of unread ones. It becomes an ordinary fact when it is read."""
    fact = object.__new__(kind)
    kind.keep.__set__(fact, line)
    return fact


def put_away(fact: Fact, line: StoredLine) -> None:
    """Let a fact, and the message or result in it, be read from the log from now on."""
    match fact:
        case ModelReplied(message=part) | CallFinished(result=part):
            _put_away(part, line)
        case _:
            pass
    _put_away(fact, line)


def _put_away(value: Any, line: StoredLine) -> None:
    kind = type(value)
    unread = _PUT_AWAY.get(kind)
    if unread is None:
        return
    with _LOADING:  # a thread must not see half of it
        object.__setattr__(value, "__class__", unread)
        for name in kind.__dataclass_fields__:
            vars(kind)[name].__delete__(value)
        unread.keep.__set__(value, line)


def _load(value: Any) -> Any:
    """Return the value with its fields. One that was left unread is the same object."""
    with _LOADING:
        unread: Any = type(value)
        if not issubclass(unread, Unread):
            return value
        line = _find_line(value)
        if isinstance(line, StoredLine):
            fact = line.read(_parse)
            part = _PARTS.get(unread)
            return getattr(fact, part) if part else fact
        parsed = _parse(line)
        for name in parsed.__dataclass_fields__:
            getattr(type(parsed), name).__set__(value, getattr(parsed, name))
        object.__setattr__(value, "__class__", type(parsed))
        return value


def _find_line(value: Any) -> bytes | StoredLine:
    line: bytes | StoredLine = vars(type(value))["keep"].__get__(value)
    return line


def _parse(line: bytes) -> Any:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise SettingsError(f"the log of this session has been changed: {error}") from error
    try:
        return parse_fact(record["fact"])
    except ValueError as error:
        raise SettingsError(
            f"record {record['seq']} of the log is not of this format: {error}",
            hint=f"agentcli audit verify {record['session']}",
        ) from error


def build_unread_class(kind: Any) -> Any:
    """Return a subclass that keeps a line where its class has the first field."""
    first = next(iter(kind.__dataclass_fields__))
    constants = {
        name: field.default
        for name, field in kind.__dataclass_fields__.items()
        if name in ("type", "role")
    }
    return type(
        kind.__name__,
        (Unread, kind),
        {
            "__slots__": (),
            "__module__": __name__,
            # A copy with other values is an ordinary one.
            "__new__": lambda unread, **fields: kind(**fields),
            "keep": vars(kind)[first],
            first: property(lambda value: getattr(_load(value), first)),
            **constants,
        },
    )


_PUT_AWAY = {
    kind: build_unread_class(kind)
    for kind in (
        *(FACTS[name] for name in ("model_replied", "call_judged", "call_finished")),
        *(FACTS[name] for name in ("checkpointed", "hook_ran")),
        *(AssistantMessage, ToolResult),
    )
}
"""The classes of the most frequent and longest facts and of what is in them, by the read ones."""
_PARTS = {_PUT_AWAY[AssistantMessage]: "message", _PUT_AWAY[ToolResult]: "result"}
"""Where a fact has these values."""
