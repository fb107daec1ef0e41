"""What neither the model nor people nor the log may see, taken out wherever it shows up.

It is made at the first text, not before: the way to the first request reads no environment twice.
"""

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from platformdirs import user_state_path

from agentcli.settings import Settings
from agentcli.tools.contracts import USUAL
from agentcli.types.errors import ToolError
from agentcli.types.events import CallFinished, Compacted, Fact, ResultsTrimmed
from agentcli.types.hidden import BEGIN, NOTE, find_tokens
from agentcli.types.messages import Text, ToolCall
from agentcli.types.tools import ErrorKind, ToolResult

if TYPE_CHECKING:
    from agentcli.permissions.masking import EventMasking
    from agentcli.permissions.secrets import RedactedBytes, Redactor


_TAKE_TOKENS = frozenset((*USUAL, "apply_patch", "search_tools", "answer")) - {"bash"}
"""Tools that put values back or only read. Any other would act on the token itself."""


class SecretMasking:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def clean(self, text: str) -> str:
        """Without the secrets of our environment, and without what has the shape of one."""
        return self._redactor.mask(text)

    def find_hidden(self, text: str) -> Mapping[str, str]:
        """Return the values in a text that are hidden wherever it is shown, by their tokens."""
        return self._redactor.find_hidden(text)

    def reveal(self, token: str) -> str | None:
        """Return the value of a token, where it is known to this process."""
        return self._redactor.reveal(token)

    def conceal(self, secret: str) -> None:
        """What became known only now, such as a token: it is taken out of everything after."""
        self._redactor.learn(secret)

    def build_output_filter(self) -> "RedactedBytes":
        """For the bytes of one command, as they come."""
        return self._redactor.bytes_stream()

    def build_event_mask(self) -> "EventMasking":
        """For all that is told in one journal: it knows what of its replies has arrived."""
        from agentcli.permissions.masking import EventMasking

        return EventMasking(self._redactor)

    @cached_property
    def _redactor(self) -> "Redactor":
        from agentcli.permissions.secrets import Redactor

        keys = [os.environ.get(named.key_env, "") for named in self._settings.providers]
        return Redactor(environ=os.environ, values=keys, names=self._settings.mask, key=_load_key)


class TokenNote:
    """Says once what a token is, with the first result that has one; again after it was dropped."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        """`facts`: of the session, which grow."""
        self._facts = facts

    def __call__(self, result: ToolResult) -> str:
        """Return the note, or nothing."""
        if not _has_token(result):
            return ""
        for fact in reversed(self._facts):
            if isinstance(fact, CallFinished) and _has_token(fact.result):
                return ""
            if isinstance(fact, Compacted | ResultsTrimmed):
                break
        return NOTE


def refuse_tokens(call: ToolCall) -> None:
    """Raise ToolError where a tool that cannot put hidden values back would get a token."""
    if call.name in _TAKE_TOKENS:
        return
    tokens = find_tokens(json.dumps(call.input, ensure_ascii=False))
    if tokens:
        raise ToolError(
            f"Not run: {tokens[0]} stands for a value that is hidden from you, and {call.name} "
            "would get the token itself. Name the file or variable that holds the value, for "
            'example "$API_KEY", or search for it with grep.',
            kind=ErrorKind.INVALID_INPUT,
        )


def _has_token(result: ToolResult) -> bool:
    return any(BEGIN in block.text for block in result.content if isinstance(block, Text))


def _load_key() -> bytes:
    from agentcli.permissions.secret_tokens import load_key

    return load_key(user_state_path("agentcli", appauthor=False) / "secret-tokens.key")
