"""`dataclass` at a quarter of the cost, for the many small classes of a request or a first call.

The standard one writes and compiles up to six methods for every class, which takes 0.7 ms. Here
only `__init__` is compiled, for classes of which many values are made. The other methods are the
same functions for all classes. A type checker sees the standard decorator, and the standard library
sees ordinary dataclasses.
"""

import dataclasses
import sys
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, slots: bool, kw_only: bool = False, frozen: bool = False) -> Any:
        """Return the decorator. `slots` must be True, for the type checker."""
        if not slots:
            raise TypeError("a record has slots")
        shared = _FROZEN if frozen else _MUTABLE
        make = _make_dataclass if sys.version_info < (3, 14) else _make_by_standard
        return partial(make, shared=shared, kw_only=kw_only)


def _make_dataclass(cls: Any, *, shared: dict[str, Any], kw_only: bool) -> Any:
    """Return the class again, with slots and methods: each one that is set later takes longer."""
    own = {**vars(cls)}
    fields, taken = _inherit_fields(cls)
    for name, hint in own.get("__annotations__", {}).items():
        if _is_class_variable(hint):
            continue
        default = own.pop(name, MISSING)
        made: Any = default if isinstance(default, Field) else dataclasses.field(default=default)
        fields[name] = made
        made.name, made.type, made._field_type = name, hint, _FIELD_KIND
        made.kw_only = kw_only if made.kw_only is MISSING else made.kw_only
        if type(made.default).__hash__ is None:
            raise ValueError(f"the default of {name} can change: use default_factory")
    for name in ("__dict__", "__weakref__"):
        own.pop(name, None)
    namespace = {
        "__init__": _LazyInit(),
        **shared,
        "__match_args__": tuple([name for name, one in fields.items() if not one.kw_only]),
        **own,
        "__doc__": cls.__doc__ or cls.__name__,
        "__qualname__": cls.__qualname__,
        "__slots__": tuple([name for name in fields if name not in taken]),
        "__dataclass_fields__": fields,
        **_MARKS,
    }
    return type(cls)(cls.__name__, cls.__bases__, namespace)


def _make_by_standard(cls: Any, *, shared: dict[str, Any], kw_only: bool) -> Any:
    """Do the same where annotations are not evaluated before they are asked for."""
    own = {**vars(cls)}
    cls.__doc__ = cls.__doc__ or cls.__name__  # otherwise dataclasses computes a signature for it
    plain = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)
    made: Any = plain(cls)
    init = _LazyInit()
    init.__set_name__(made, "__init__")
    for name, method in (("__init__", init), *shared.items()):
        if name not in own:
            setattr(made, name, method)
    return made


def _inherit_fields(cls: type) -> tuple[dict[str, "Field[Any]"], set[str]]:
    """Return the fields of all base classes, and the names that have slots there."""
    fields: dict[str, Field[Any]] = {}
    taken: set[str] = set()
    for base in reversed(cls.__mro__[1:-1]):
        fields |= base.__dict__.get("__dataclass_fields__", {})
        taken.update(base.__dict__.get("__slots__", ()))
    return fields, taken


def _is_class_variable(hint: object) -> bool:
    if isinstance(hint, str):
        return hint.startswith(("ClassVar", "typing.ClassVar"))
    return hint is ClassVar or getattr(hint, "__origin__", None) is ClassVar


FEW_VALUES = 20
"""The values of a class that are made without a compiled `__init__`: it takes as long as these."""


class _LazyInit:
    """Stands for `__init__`, until enough values are made to pay for compiling it."""

    def __set_name__(self, cls: Any, name: str) -> None:
        self._cls = cls
        self._made = 0

    def __get__(self, value: Any, cls: Any) -> Any:
        self._made += 1
        if value is None or self._made > FEW_VALUES:
            return self._compile().__get__(value, cls)
        return partial(self._fill, value)

    def _compile(self) -> Any:
        self._cls.__init__ = written = _compile_init(self._cls)
        return written

    def _fill(self, instance: Any, /, *given: Any, **named: Any) -> None:
        values = self._bind(given, named)
        if values is None:
            self._compile()(instance, *given, **named)  # raises the error that is expected
            return
        for name, value in values.items():
            object.__setattr__(instance, name, value)
        if hasattr(instance, "__post_init__"):
            instance.__post_init__()

    def _bind(self, given: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any] | None:
        """Return the value of each field, or None if the arguments do not fit the fields."""
        fields = dataclasses.fields(self._cls)
        positional = [field.name for field in fields if not field.kw_only]
        values = dict(zip(positional, given, strict=False))
        if len(given) > len(positional) or values.keys() & named.keys():
            return None
        values |= named
        for field in fields:
            if field.name not in values:
                value = field.default
                if field.default_factory is not MISSING:
                    value = field.default_factory()
                if value is MISSING:
                    return None
                values[field.name] = value
        return values if len(values) == len(fields) else None


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


def _list_field_values(instance: Any) -> tuple[Any, ...]:
    return tuple([getattr(instance, name) for name in instance.__dataclass_fields__])


def _set(self: Any, name: str, value: Any) -> None:
    if name not in self.__dataclass_fields__ or hasattr(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)  # a copy that is being made


def _delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _equal(self: Any, other: Any) -> bool:
    return (
        _list_field_values(self) == _list_field_values(other)
        if other.__class__ is self.__class__
        else NotImplemented
    )


def _hash(self: Any) -> int:
    return hash(_list_field_values(self))


def _format_repr(self: Any) -> str:
    shown = (it.name for it in dataclasses.fields(self) if it.repr)
    return f"{type(self).__qualname__}({', '.join(f'{it}={getattr(self, it)!r}' for it in shown)})"


_MUTABLE: dict[str, Any] = {"__eq__": _equal, "__hash__": None, "__repr__": _format_repr}
_FROZEN = _MUTABLE | {"__setattr__": _set, "__delattr__": _delete, "__hash__": _hash}


@dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False)
class _Standard:
    """What the standard decorator leaves on every class."""

    value: int


_FIELD_KIND: Any = getattr(_Standard.__dataclass_fields__["value"], "_field_type")  # noqa: B009
_MARKS = {
    name: value
    for name, value in vars(_Standard).items()
    if name in ("__dataclass_params__", "__replace__")
}
