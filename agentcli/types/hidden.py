"""The token that stands for a hidden value, wherever the model, the user or the log sees a text."""

import re

BEGIN = "«secret:"
END = "»"
_TOKEN = r"«secret:[0-9a-fA-F]+»"

NOTE = (
    "[«secret:...» stands for a value that is hidden from you. Keep it as it is where you write "
    "the file that holds it: the value is put back.]"
)
"""For the model, once, with the first result that has a token in it."""


def make_token(digest: str) -> str:
    return f"{BEGIN}{digest}{END}"


def find_tokens(text: str) -> list[str]:
    """Return the tokens in a text in their order, each once."""
    if BEGIN not in text:
        return []
    return list(dict.fromkeys(re.findall(_TOKEN, text)))


def replace_tokens(text: str, values: dict[str, str]) -> str:
    """Put values in the place of tokens; a token that has none stays."""
    return re.sub(_TOKEN, lambda token: values.get(token[0], token[0]), text)
