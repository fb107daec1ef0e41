"""Text that can be encoded: no half of a surrogate pair is left in it.

Providers send JSON escapes, and a stream may cut an escaped pair in two: the halves are joined
where both are there, and replaced where one is alone.
"""

from agentcli.types.messages import Json


def whole(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def whole_json(value: Json) -> Json:
    """The same object where nothing had to be replaced."""
    match value:
        case str():
            return whole(value)
        case dict():
            made = {whole(key): whole_json(item) for key, item in value.items()}
            return value if made == value else made
        case list():
            items = [whole_json(item) for item in value]
            return value if items == value else items
        case _:
            return value
