"""Hidden values put back where a file is written, and where files are searched for them.

The model sees a token in the place of each. A token is put back only in the file that holds its
value: a secret is not spread by writing, and a token never reaches the disk.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentcli.types.errors import ToolError
from agentcli.types.hidden import find_tokens, replace_tokens

_META = r"[\\.+*?()|\[\]{}^$]"
_GLOB_META = r"[\\*?\[\]{}!]"


def _find_nothing(text: str) -> Mapping[str, str]:
    return {}


def _know_nothing(token: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenValues:
    find: Callable[[str], Mapping[str, str]] = _find_nothing
    """Return the hidden values in a text, by their tokens."""
    reveal: Callable[[str], str | None] = _know_nothing
    """Return the value of a token, where it was shown by this process."""
    keeps_unknown: bool = False
    """A token without a value is written as it is: when a log is played again, which has none."""

    def restore(self, text: str, *, current: str, path: str) -> str:
        """Return the text with the values that `current`, the content of the file, has for them.

        ToolError for any other token, unless the file has that very text."""
        tokens = find_tokens(text)
        if not tokens:
            return text
        values = dict(self.find(current))
        for token in tokens:
            is_text = token in current
            if is_text == (token in values) and not self.keeps_unknown:
                raise _ambiguous(token, path) if is_text else _foreign(token, path)
        return replace_tokens(text, values)

    def restore_pattern(self, pattern: str, *, literal: bool) -> str:
        """Return a regular expression that finds the values, or the text itself."""
        return self._replace_known(pattern, "" if literal else _META)

    def restore_glob(self, glob: str) -> str:
        return self._replace_known(glob, _GLOB_META)

    def _replace_known(self, text: str, meta: str) -> str:
        values: dict[str, str] = {}
        for token in find_tokens(text):
            value = self.reveal(token)
            if value is None:
                raise ToolError(
                    f"The value of {token} is not known here yet. Read the file that holds it "
                    "first, then search again."
                )
            values[token] = re.sub(f"({meta})", r"\\\1", value) if meta else value
        return replace_tokens(text, values)


NOTHING_HIDDEN = HiddenValues()


def _foreign(token: str, path: str) -> ToolError:
    return ToolError(
        f"Not written: {token} stands for a hidden value that is not in {path} now. Use a token "
        "only in the file that you read it in. To keep its line leave it out of the change; for "
        "another file write a placeholder and tell the user to fill it in."
    )


def _ambiguous(token: str, path: str) -> ToolError:
    return ToolError(
        f"Not written: {path} has the text {token} itself besides the value that it stands for. "
        "Change other lines with edit_file."
    )
