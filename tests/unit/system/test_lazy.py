from agentcli.system.lazy import Lazy


def test_value_is_made_once_when_first_needed() -> None:
    made: list[int] = []

    def make() -> list[int]:
        made.append(1)
        return made

    lazy = Lazy(make)
    assert (lazy.made, made) == (None, [])
    assert lazy.get() is lazy.get() is lazy.made
    assert made == [1]


def test_none_is_a_value_too() -> None:
    made: list[int] = []
    lazy: Lazy[None] = Lazy(lambda: made.append(1))
    lazy.get()
    lazy.get()
    assert made == [1]
