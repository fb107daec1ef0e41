from agentcli.providers import normalize
from agentcli.providers.normalize import memoize
from agentcli.types.messages import Text


def test_function_is_called_once_for_the_same_objects() -> None:
    made: list[Text] = []

    @memoize
    def shout(text: Text) -> str:
        made.append(text)
        return text.text.upper()

    first, twin = Text(text="a"), Text(text="a")
    assert [shout(first), shout(first), shout(twin)] == ["A", "A", "A"]
    assert [id(text) for text in made] == [id(first), id(twin)]


def test_strings_are_the_same_by_value() -> None:
    made: list[str] = []

    @memoize
    def double(text: str, suffix: str) -> str:
        made.append(text)
        return text * 2 + suffix

    assert double("ab", "!") == double("".join(["a", "b"]), "!") == "abab!"
    assert double("ab", "?") == "abab?"
    assert made == ["ab", "ab"]


def test_identity_of_what_is_gone_is_not_mistaken() -> None:
    @memoize
    def value(text: Text) -> str:
        return text.text

    assert [value(Text(text=str(number))) for number in range(1000)] == [
        str(number) for number in range(1000)
    ]


def test_memory_is_bounded() -> None:
    @memoize
    def value(text: str) -> str:
        return text

    count = normalize.LIMIT_ENTRIES + 10
    assert sum(value(str(number)) == str(number) for number in range(count)) == count
