"""Which names a hook's matcher means, by the rule that is common in this field.

Empty and `*` mean every name. Words with `|` or `,` between them are exact names. Anything else is
a regular expression, which may fit any part of a name.
"""

import re
from collections.abc import Iterable

_EVERY_NAME = ("", "*")
_LIST = re.compile(r"[\w ,|-]+", re.ASCII)
_OF_A_SERVER = re.compile(r"mcp__.+__")


def is_catch_all(matcher: str) -> bool:
    return matcher.strip() in _EVERY_NAME


def fits(matcher: str, name: str) -> bool:
    """Raises re.error for a matcher that is no regular expression."""
    if is_catch_all(matcher):
        return True
    if _LIST.fullmatch(matcher):
        return name in _words(matcher)
    return re.search(matcher, name) is not None


def names_all_of(matcher: str, name: str) -> bool:
    """Whether the matcher was written for this very name, and not for every one."""
    if is_catch_all(matcher):
        return False
    if _LIST.fullmatch(matcher):
        return name in _words(matcher)
    return re.fullmatch(matcher, name) is not None


def may_ever_fit(matcher: str, names: Iterable[str]) -> bool:
    """Whether it fits one of the names, or may fit a tool of a server that is not known yet."""
    if any(fits(matcher, name) for name in names):
        return True
    if _LIST.fullmatch(matcher):
        return any(_OF_A_SERVER.match(word) for word in _words(matcher))
    return "__" in matcher


def _words(matcher: str) -> list[str]:
    return [word.strip() for word in re.split(r"[|,]", matcher)]
