"""Hidden values, restored when a file is written and when files are searched for them.

The model sees a token instead of each value. A token is restored only in the file that holds its
value, so writing does not spread a secret, and a token never reaches the disk.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.hidden import find_shortened_tokens, find_tokens, replace_tokens

_META = r"[\\.+*?()|\[\]{}^$]"
_GLOB_META = r"[\\*?\[\]{}!]"


BLOCK_BEGIN = "-----BEGIN "
"""How the first line of a private key begins."""


def _find_nothing(text: str) -> Mapping[str, str]:
    return {}


def _know_nothing(token: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenValues:
    find: Callable[[str], Mapping[str, str]] = _find_nothing
    """Returns the hidden values in a text, by their tokens."""
    reveal: Callable[[str], str | None] = _know_nothing
    """Returns the value of a token that this process has shown, or None."""
    keeps_unknown: bool = False
    """True if a token without a value is written unchanged: in a replay, whose log has none."""

    def restore(self, text: str, *, current: str, path: str) -> str:
        """Replace the tokens in a text by the values in `current`, the content of the file.

        Raise ToolError for any other token, unless the file contains the token itself as text."""
        tokens, shortened = find_tokens(text), find_shortened_tokens(text)
        if not tokens and not shortened:
            return text
        values = dict(self.find(current))
        for token in shortened if values else ():
            if token not in current:
                raise _refuse_shortened(token)
        for token in tokens:
            is_text = token in current
            if is_text == (token in values) and not self.keeps_unknown:
                raise (
                    _build_ambiguous_error(token, path)
                    if is_text
                    else _build_foreign_error(token, path)
                )
        return replace_tokens(text, values)

    def hide(self, lines: Sequence[str], *, current: str) -> list[str]:
        """Return lines of the content of a file with its values as tokens.

        Masking alone does not know a line of a private key without the first line of the key."""
        # What masking knows without such a first line is left to it, as in the whole file.
        known = self.find(current.replace(BLOCK_BEGIN, ""))
        found = self.find(current).items()
        values = {token: value for token, value in found if token not in known}
        hidden = "\n".join(lines)
        # The longest first: one value may be part of another, which has its own token.
        for token, value in sorted(values.items(), key=lambda item: -len(item[1])):
            hidden = hidden.replace(value, token)
        return hidden.split("\n")

    def restore_pattern(self, pattern: str, *, literal: bool) -> str:
        """Return the pattern with the values, escaped unless it is literal."""
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


def _build_foreign_error(token: str, path: str) -> ToolError:
    return ToolError(
        f"Not written: {token} stands for a hidden value that is not in {path} now. Use a token "
        "only in the file that you read it in. To keep its line leave it out of the change; for "
        "another file write a placeholder and tell the user to fill it in."
    )


def _refuse_shortened(token: str) -> ToolError:
    return ToolError(
        f"Not written: {token} is no whole token, and the value behind it would be lost. Write the "
        "token as you read it, or leave its line out of the change."
    )


def _build_ambiguous_error(token: str, path: str) -> ToolError:
    return ToolError(
        f"Not written: {path} has the text {token} itself besides the value that it stands for. "
        "Change other lines with edit_file."
    )
