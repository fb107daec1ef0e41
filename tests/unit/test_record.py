import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import ClassVar

import pytest
from pydantic import TypeAdapter

from agentcli.types.fast_dataclass import FEW_VALUES, dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    x: int
    secret: str = field(repr=False, default="hidden")
    tags: list[str] = field(default_factory=list)

    @property
    def double(self) -> int:
        return self.x * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    x: int
    secret: str = "hidden"
    tags: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Open:
    x: int = 0
    tags: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nothing:
    """It has no fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    x: int

    def __repr__(self) -> str:
        return "its own"


def test_record_holds_what_it_was_given() -> None:
    point = Point(x=1, tags=["a"])
    assert (point.x, point.secret, point.tags, point.double) == (1, "hidden", ["a"], 2)


def test_each_record_has_a_default_of_its_own() -> None:
    assert Point(x=1).tags is not Point(x=1).tags


def test_records_are_equal_by_value_and_type() -> None:
    assert Point(x=1) == Point(x=1)
    assert Point(x=1) != Point(x=2)
    assert Twin(x=1) == Twin(x=1)
    other: object = Point(x=1)
    assert Twin(x=1) != other
    assert hash(Twin(x=1)) == hash(Twin(x=1))
    assert Nothing() == Nothing()


@pytest.mark.parametrize("name", ["x", "other"])
def test_record_cannot_be_changed(name: str) -> None:
    point = Point(x=1)
    with pytest.raises(FrozenInstanceError):
        setattr(point, name, 2)
    with pytest.raises(FrozenInstanceError):
        delattr(point, name)
    assert point == Point(x=1)


def test_representation_leaves_out_what_is_hidden() -> None:
    assert repr(Point(x=1)) == "Point(x=1, tags=[])"
    assert repr(Named(x=1)) == "its own"


def test_fields_are_given_by_name_and_in_full() -> None:
    make: object = Point
    assert callable(make)
    with pytest.raises(TypeError):
        make(1)
    with pytest.raises(TypeError, match="'x'"):
        make()
    with pytest.raises(TypeError, match="'y'"):
        make(x=1, y=2)


@dataclass(frozen=True, slots=True)
class Placed:
    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, kw_only=True)
    sums: list[int] = field(default_factory=list, kw_only=True)

    def __post_init__(self) -> None:
        self.sums.append(self.x + self.y)


def test_few_values_are_made_as_many_are() -> None:
    made = [Placed(n, tags=[str(n)]) for n in range(2 * FEW_VALUES)]
    assert [(one.x, one.y, one.tags, one.sums) for one in made] == [
        (n, 2, [str(n)], [n + 2]) for n in range(2 * FEW_VALUES)
    ]
    assert made[0] == Placed(x=0, y=2, tags=["0"], sums=[]) != Placed(0, 3)


@pytest.mark.parametrize(
    ("given", "named", "said"),
    [
        ((1, 2, 3), {}, "positional"),
        ((1,), {"x": 1}, "multiple values"),
        ((), {"y": 1}, "'x'"),
        ((1,), {"z": 1}, "'z'"),
    ],
)
def test_first_value_refuses_arguments_as_later_ones_do(
    given: tuple[int, ...], named: dict[str, int], said: str
) -> None:
    @dataclass(frozen=True, slots=True)
    class Pair:
        x: int
        y: int = 0

    make: object = Pair
    assert callable(make)
    for _ in range(2):
        with pytest.raises(TypeError, match=said):
            make(*given, **named)
    assert make(1) == Pair(1, 0)


def test_standard_library_takes_records_for_dataclasses() -> None:
    point = Point(x=1)
    assert dataclasses.is_dataclass(point)
    assert [it.name for it in dataclasses.fields(point)] == ["x", "secret", "tags"]
    assert dataclasses.replace(point, x=2) == Point(x=2)
    assert dataclasses.asdict(point) == {"x": 1, "secret": "hidden", "tags": []}
    assert copy.copy(point) == copy.deepcopy(point) == point
    assert not hasattr(point, "__dict__")


def test_pydantic_reads_records() -> None:
    read = TypeAdapter(Point).validate_python({"x": "3", "tags": ["a"]})
    assert read == Point(x=3, tags=["a"])


def test_pattern_finds_fields() -> None:
    match Point(x=7):
        case Point(x=found):
            assert found == 7


def test_record_that_is_not_frozen_can_be_changed_and_has_no_hash() -> None:
    first, second = Open(), Open()
    first.x += 1
    first.tags.append("a")
    assert (first, second) == (Open(x=1, tags=["a"]), Open())
    assert repr(first) == "Open(x=1, tags=['a'])"
    with pytest.raises(TypeError):
        hash(first)
    with pytest.raises(AttributeError):
        first.y = 1  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Pair:
    first: int
    second: str = "two"
    third: int = field(kw_only=True, default=3)


@dataclass(slots=True)
class Doubled:
    value: int

    def __post_init__(self) -> None:
        self.value *= 2


def test_fields_are_positional_unless_they_are_keywords() -> None:
    assert Pair(1, "b", third=4) == Pair(first=1, second="b", third=4)
    assert Pair.__match_args__ == ("first", "second")
    make: Callable[..., Pair] = Pair
    with pytest.raises(TypeError):
        make(1, "b", 4)


def test_what_follows_the_fields_is_done_after_them() -> None:
    assert Doubled(2).value == 4


@dataclass(frozen=True, slots=True)
class Derived(Pair):
    """Adds a field, replaces another, and has one that is none."""

    limit: ClassVar[int] = 5
    second: str = "other"
    fourth: "tuple[int, ...]" = field(default=(), compare=True)


@dataclasses.dataclass(frozen=True, slots=True)
class StandardPair:
    first: int
    second: str = "two"
    third: int = field(kw_only=True, default=3)


@dataclasses.dataclass(frozen=True, slots=True)
class StandardDerived(StandardPair):
    """Adds a field, replaces another, and has one that is none."""

    limit: ClassVar[int] = 5
    second: str = "other"
    fourth: "tuple[int, ...]" = field(default=(), compare=True)


def test_derived_record_is_as_the_standard_library_makes_it() -> None:
    ours, theirs = dataclasses.fields(Derived), dataclasses.fields(StandardDerived)
    assert [(one.name, one.type, one.default, one.kw_only) for one in ours] == [
        (one.name, one.type, one.default, one.kw_only) for one in theirs
    ]
    for name in ("__slots__", "__match_args__", "__doc__", "limit"):
        assert getattr(Derived, name) == getattr(StandardDerived, name)
    assert Derived.__qualname__ == "Derived"
    assert repr(Derived(1)) == "Derived(first=1, second='other', third=3, fourth=())"
    assert pickle.loads(pickle.dumps(Derived(1, "b"))) == Derived(1, "b")
    with pytest.raises(FrozenInstanceError):
        Derived(1).fourth = (2,)  # type: ignore[misc]


def test_default_that_can_change_is_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):

        @dataclass(slots=True)
        class Shared:
            tags: list[str] = []  # noqa: RUF012 - what is tried
