"""The options of a program that are known to only read, and a parser that accepts no others.

The lists name what is allowed. An option that is not listed is unproven, even an abbreviated one.
"""

from collections.abc import Sequence

from agentcli.permissions.shell import ShellWord
from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

_NUMBER = compile_later(r"-\d+")
_OPTION_WITH_VALUE = compile_later(r"--[a-z][a-z0-9-]*=")


def split_names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Unproven(Exception):
    """Words that are not known to only read; the message names them."""


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    flags: frozenset[str]
    valued: frozenset[str]
    """Options that take a value, in the same word or in the next."""
    attached: frozenset[str]
    """Options that may have a value, in the same word only."""
    separate: frozenset[str]
    """Options that take a value, in the next word only."""
    takes_numbers: bool
    """True if `-20` is an option."""

    @staticmethod
    def parse(notation: str) -> "ReaderOptions":
        """Parse the notation of the option lists.

        `-ab` is two flags, `-n:` takes a value, `-U?` may have one attached, `-#` is any number.
        Long options likewise: `--all --lines: --color?`. With `-L!` the value is in the next word.
        """
        found: dict[str, set[str]] = {"": set(), ":": set(), "?": set(), "!": set()}
        takes_numbers = False
        for entry in notation.split():
            name = entry.rstrip(":?!")
            kind = entry[len(name) :]
            if entry == "-#":
                takes_numbers = True
            elif name.startswith("--"):
                found[kind].add(name)
            else:
                found[kind].update(f"-{letter}" for letter in name[1:])
        return ReaderOptions(
            flags=frozenset(found[""]),
            valued=frozenset(found[":"]),
            attached=frozenset(found["?"]),
            separate=frozenset(found["!"]),
            takes_numbers=takes_numbers,
        )

    def list_operands(
        self, words: Sequence[ShellWord], *, takes_globs: bool = False
    ) -> list[ShellWord]:
        """Return the words that are neither options nor their values. Raise Unproven.

        With `takes_globs`, a value may be a glob: it does no harm if all but one of the names that
        it matches are operands."""
        operands: list[ShellWord] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word.text == "--":
                return operands + rest
            if not word.text.startswith("-") or word.text == "-":
                operands.append(word)
            elif self._wants_value(word.text):
                _take_value(word.text, rest, takes_globs=takes_globs)
        return operands

    def _wants_value(self, text: str) -> bool:
        """Return whether the next word is this option's value.

        Raise Unproven if the option is not listed.
        """
        if self.takes_numbers and _NUMBER.fullmatch(text):
            return False
        if text.startswith("--"):
            return self._long_wants_value(text)
        for index, letter in enumerate(text[1:], start=2):
            option = f"-{letter}"
            is_last = index == len(text)
            if option in self.valued or (option in self.separate and is_last):
                return is_last
            if option in self.attached:
                return False
            if option not in self.flags:
                raise Unproven(f"option {text}")
        return False

    def _long_wants_value(self, text: str) -> bool:
        name, equals, _ = text.partition("=")
        if equals and (name in self.valued or name in self.attached):
            return False
        if not equals and name in self.valued:
            return True
        if not equals and (name in self.flags or name in self.attached):
            return False
        raise Unproven(f"option {name}")


def _take_value(option: str, rest: list[ShellWord], *, takes_globs: bool) -> None:
    if not rest:
        raise Unproven(f"option {option} without a value")
    if not takes_globs:
        refuse_globs(rest[:1])
    value = rest.pop(0).text
    # If some version of the program takes no value here, this word must not be an option.
    if value.startswith("-") and value != "-" and not _NUMBER.fullmatch(value):
        raise Unproven(f"option {option} with the value {value}")


def refuse_unsafe_globs(
    words: Sequence[ShellWord], *, may_become_options: bool = False, in_values: bool = False
) -> None:
    """Raise Unproven if a glob may match a file named like an option: `*` may match `-o`.

    With `in_values`, `--include=*` is safe: all that it may match is the same option."""
    for word in words:
        first = word.text[:1]
        if in_values and _OPTION_WITH_VALUE.match(word.text):
            continue
        if word.is_glob and (first == "-" or (first in "*?[" and not may_become_options)):
            raise Unproven(f"{word.text} (may match a file named like an option)")


def refuse_globs(words: Sequence[ShellWord]) -> None:
    """Raise Unproven for any glob. For programs where the number of words matters."""
    for word in words:
        if word.is_glob:
            raise Unproven(f"{word.text} (may match several files)")
