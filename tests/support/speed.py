"""Which tests are quick: those whose code reaches nothing that starts a process or listens.

Code is followed from a test and its fixtures through every name it mentions, in the tests and in
the program, so nobody has to mark anything. What this overlooks is noticed while a test runs.
"""

import sys
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from inspect import unwrap
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

import pytest

_OURS = ("agentcli", "tests")
_ANY = frozenset[str]()
_STARTING = {
    "subprocess": _ANY,
    "socketserver": _ANY,
    "http.server": _ANY,
    "multiprocessing": _ANY,
    "pexpect": _ANY,
    "acp.stdio": _ANY,
    "mcp.client.stdio": _ANY,
    "os": {"fork", "forkpty", "posix_spawn", "execv", "execve"},
    "asyncio": {"create_subprocess_exec", "start_server", "start_unix_server"},
    "socket": {"bind", "create_server"},
}
"""Modules, and which of their names count."""
_EVENTS = {
    *("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"),
    "socket.bind",
}
_PLAIN = frozenset({str, bytes, int, float, bool, type(None), ModuleType})


class Reach:
    """What code mentions, near or far, each thing followed once however many tests lead to it."""

    def __init__(self, roots: Iterable[object]) -> None:
        self._things: dict[int, object] = {}
        """By their ids, held so that an id stays its own."""
        self._users: dict[int, list[int]] = {}
        """The ids of the things that mention one."""
        self._starting = self._find_users(self._follow(list(roots)))

    def starts(self, root: object) -> bool:
        """Return whether code that begins here mentions, near or far, a way to start something."""
        return id(root) in self._starting

    def _follow(self, waiting: list[object]) -> list[int]:
        """Follow what these mention. Return the ids of what starts something itself."""
        starting = []
        while waiting:
            thing = waiting.pop()
            key = id(thing)
            if key in self._things:
                continue
            self._things[key] = thing
            if _starts_itself(thing):
                starting.append(key)
                continue
            for one in _list_next(thing):
                if type(one) not in _PLAIN:
                    self._users.setdefault(id(one), []).append(key)
                    waiting.append(one)
        return starting

    def _find_users(self, waiting: list[int]) -> set[int]:
        """Return these, and all that mentions them, near or far."""
        starting: set[int] = set()
        while waiting:
            key = waiting.pop()
            if key not in starting:
                starting.add(key)
                waiting.extend(self._users.get(key, ()))
        return starting


def list_quick(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    roots = {item: list(_list_roots(item)) for item in items if isinstance(item, pytest.Function)}
    reach = Reach(root for each in roots.values() for root in each)
    return [item for item, each in roots.items() if not any(map(reach.starts, each))]


class Guard:
    """Notices what a quick test starts all the same."""

    def __init__(self) -> None:
        self._noticed: list[str] = []
        self._is_watching = False
        self._is_told = False

    def watch(self) -> None:
        if not self._is_told:
            self._is_told = True
            sys.addaudithook(self._notice)  # for good, and half a second while tests are collected
        self._noticed.clear()
        self._is_watching = True

    def stop(self) -> None:
        """Fail the test that was watched, if it started something."""
        self._is_watching = False
        if self._noticed:
            pytest.fail(
                f"A test marked quick must start no process and not listen, but there was:"
                f" {'; '.join(self._noticed)}. tests/support/speed.py marks tests by the code"
                " they reach, and has overlooked this way: teach it.",
                pytrace=False,
            )

    def _notice(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._is_watching and event in _EVENTS:
            self._noticed.append(f"{event} {arguments!r:.200}")


def _list_roots(item: pytest.Function) -> Iterator[object]:
    yield item.function
    yield getattr(item.function, "hypothesis", None)  # of a property, the function inside
    callspec = getattr(item, "callspec", None)
    yield from callspec.params.values() if callspec else ()
    for definitions in cast(Any, item)._fixtureinfo.name2fixturedefs.values():
        yield from (definition.func for definition in definitions)


def _starts_itself(thing: object) -> bool:
    if not isinstance(thing, (FunctionType, type)):
        return False
    if _STARTING.get(thing.__module__) is _ANY:
        return True
    return isinstance(thing, FunctionType) and any(
        _names_start(thing.__globals__.get(name), code.co_names)
        for code in _list_codes(thing.__code__)
        for name in code.co_names
    )


def _names_start(module: object, names: Iterable[str]) -> bool:
    """Return whether code that mentions this module, and these names, can start something."""
    if not isinstance(module, ModuleType):
        return False
    starting = _STARTING.get(module.__name__)
    return starting is not None and (starting is _ANY or not starting.isdisjoint(names))


def _list_next(thing: object) -> Iterable[object]:
    match thing:
        case partial() | cached_property():
            return [thing.func]
        case staticmethod() | classmethod() | MethodType():
            return [thing.__func__]
        case property():
            return [thing.fget, thing.fset]
        case list() | tuple() | dict():
            return thing.values() if isinstance(thing, dict) else thing
        case type():
            return [*vars(thing).values(), *thing.__bases__] if _is_ours(thing.__module__) else []
        case FunctionType():
            return _list_mentioned(thing)
    inner = unwrap(cast(Any, thing)) if callable(thing) else thing
    return [inner] if inner is not thing else [type(thing), *_list_held(thing)]


def _list_held(thing: object) -> Iterable[object]:
    """Return what a value of ours holds, or a strategy, which hands functions to properties."""
    is_followed = type(thing).__module__.startswith(("hypothesis.", "agentcli.", "tests."))
    return vars(thing).values() if is_followed and hasattr(thing, "__dict__") else ()


def _list_mentioned(function: FunctionType) -> Iterator[object]:
    yield getattr(function, "__wrapped__", None)
    yield from (cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell))
    if not _is_ours(function.__module__):
        return
    for code in _list_codes(function.__code__):
        for name in code.co_names:
            value = function.__globals__.get(name, sys.modules.get(name))
            if isinstance(value, ModuleType) and _is_ours(value.__name__):
                yield from (vars(value).get(other) for other in code.co_names)
            elif not isinstance(value, ModuleType):
                yield value


def _list_codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_codes(constant)


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _is_ours(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _OURS
