"""Texts with stars in the place of tokens, where a test does not care which token it is."""

import re


def starred(text: str) -> str:
    return re.sub("«secret:[0-9a-f]{8}»", "***", text)
