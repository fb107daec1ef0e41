"""Text that can be encoded: no half of a surrogate pair is left in it.

Providers send JSON escapes, and a stream may cut an escaped pair in two: the halves are joined
where both are there, and replaced where one is alone.
"""

from agentcli.types.messages import Json


def replace_unpaired(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def replace_unpaired_json(value: Json) -> Json:
    """The same object where nothing had to be replaced."""
    match value:
        case str():
            return replace_unpaired(value)
        case dict():
            made = {
                replace_unpaired(key): replace_unpaired_json(item) for key, item in value.items()
            }
            return value if made == value else made
        case list():
            items = [replace_unpaired_json(item) for item in value]
            return value if items == value else items
        case _:
            return value
