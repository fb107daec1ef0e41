import re

import pytest

from agentcli.system.lazy import Lazy, compile_later


def test_value_is_made_once_when_first_needed() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return made

    lazy = Lazy(make)
    assert (lazy.made, made) == (None, [])
    assert lazy.get() is lazy.get() is lazy.made
    assert made == [1]


def test_value_can_be_made_another_way_before_it_is_made() -> None:
    lazy = Lazy(lambda: "usual")
    assert [lazy.get(lambda: "other"), lazy.get(lambda: "late"), lazy.get()] == ["other"] * 3


def test_none_is_a_value_too() -> None:
    made: list[int] = []
    lazy: Lazy[None] = Lazy(lambda: made.append(1))
    lazy.get()
    lazy.get()
    assert made == [1]


def test_pattern_is_compiled_when_it_is_used() -> None:
    word = compile_later(r"[a-z]+", re.I)
    assert word.findall("One two") == ["One", "two"]
    assert [found[0] for found in map(word.match, ["A1", "b"]) if found] == ["A", "b"]
    assert word.pattern == r"[a-z]+"
    assert compile_later(rb"\d").sub(b"x", b"a1") == b"ax"


def test_wrong_pattern_fails_when_it_is_used() -> None:
    wrong = compile_later("(")
    with pytest.raises(re.error):
        wrong.search("x")
