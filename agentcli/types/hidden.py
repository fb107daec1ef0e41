"""The token that replaces a hidden value in every text that the model, the user or the log gets."""

import re

BEGIN = "«secret:"
END = "»"
_TOKEN = r"«secret:[0-9a-fA-F]+»"
_SHORTENED = r"«secret:[0-9a-fA-F]*(?:\.{2,}|…|\*+|x+)[0-9a-fA-F]*»"

NOTE = (
    "[«secret:...» stands for a value that is hidden from you. Keep it as it is where you write "
    "the file that holds it: the value is put back.]"
)
"""The note for the model, sent once, with the first result that contains a token."""


def make_token(digest: str) -> str:
    return f"{BEGIN}{digest}{END}"


def find_tokens(text: str) -> list[str]:
    """Return the tokens in a text in their order, each once."""
    if BEGIN not in text:
        return []
    return list(dict.fromkeys(re.findall(_TOKEN, text)))


def find_shortened_tokens(text: str) -> list[str]:
    """Return what looks like tokens of which a part was left out: `«secret:...»`."""
    return list(dict.fromkeys(re.findall(_SHORTENED, text))) if BEGIN in text else []


def replace_tokens(text: str, values: dict[str, str]) -> str:
    """Replace tokens by their values; a token without a value stays."""
    return re.sub(_TOKEN, lambda token: values.get(token[0], token[0]), text)
