"""`dataclass` at a quarter of the cost, for the many small classes of a request or a first call.

The standard one writes and compiles up to six methods for every class, which takes 0.7 ms. Here
only `__init__` is compiled, and not before its first call. The other methods are the same functions
for all classes. A type checker sees the standard decorator, and the standard library sees ordinary
dataclasses.
"""

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, slots: bool, kw_only: bool = False, frozen: bool = False) -> Any:
        """Return the decorator. `slots` must be True, for the type checker."""
        if not slots:
            raise TypeError("a record has slots")
        shared = _FROZEN if frozen else _MUTABLE
        return partial(_make_dataclass, shared=shared, kw_only=kw_only)


def _make_dataclass(cls: type, *, shared: dict[str, Any], kw_only: bool) -> Any:
    own = {**vars(cls)}
    cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise dataclasses computes a signature for it
    plain = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)
    made: Any = plain(cls)
    for name, method in (("__init__", _LazyInit(made)), *shared.items()):
        if name not in own:
            setattr(made, name, method)
    return made


class _LazyInit:
    """Compiles the real `__init__` on first use: most classes have no value before a request."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, value: Any, cls: Any) -> Any:
        self._cls.__init__ = written = _compile_init(self._cls)
        return written.__get__(value, cls)


def _compile_init(cls: Any) -> Any:
    """Return an `__init__` written out as code, because it is called for every value."""
    scope: dict[str, Any] = {"put": object.__setattr__, "missing": MISSING}
    fields = dataclasses.fields(cls)
    parameters, lines = ["self"], ["    pass\n"]
    positional = [field for field in fields if not field.kw_only]
    named = [field for field in fields if field.kw_only]
    for field in (*positional, *named):
        name = value = field.name
        if field.default_factory is not MISSING:
            scope[f"make_{name}"] = field.default_factory
            value = f"make_{name}() if {name} is missing else {name}"
        scope[f"default_{name}"] = field.default
        is_needed = field.default is MISSING and field.default_factory is MISSING
        if named and field is named[0]:
            parameters.append("*")
        parameters.append(name if is_needed else f"{name}=default_{name}")
        lines.append(f"    put(self, {name!r}, {value})\n")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()\n")
    exec(f"def __init__({', '.join(parameters)}):\n{''.join(lines)}", scope)
    made = scope["__init__"]
    made.__annotations__ = {field.name: field.type for field in fields}
    return made


def _field_values(instance: Any) -> tuple[Any, ...]:
    return tuple([getattr(instance, name) for name in instance.__dataclass_fields__])


def _set(self: Any, name: str, value: Any) -> None:
    if name not in self.__dataclass_fields__ or hasattr(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)  # a copy that is being made


def _delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _equal(self: Any, other: Any) -> bool:
    return (
        _field_values(self) == _field_values(other)
        if other.__class__ is self.__class__
        else NotImplemented
    )


def _hash(self: Any) -> int:
    return hash(_field_values(self))


def _format_repr(self: Any) -> str:
    shown = (it.name for it in dataclasses.fields(self) if it.repr)
    return f"{type(self).__qualname__}({', '.join(f'{it}={getattr(self, it)!r}' for it in shown)})"


_MUTABLE: dict[str, Any] = {"__eq__": _equal, "__hash__": None, "__repr__": _format_repr}
_FROZEN = _MUTABLE | {"__setattr__": _set, "__delattr__": _delete, "__hash__": _hash}
