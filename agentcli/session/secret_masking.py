"""The masking of secrets: they are removed from all that the model, the user or the log sees.

It is created at the first text: before the first request the environment is not read twice.
"""

import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from platformdirs import user_state_path

from agentcli.tools.contracts import DELEGATE
from agentcli.types.errors import ToolError
from agentcli.types.events import CallFinished, Compacted, Fact, ResultsTrimmed
from agentcli.types.hidden import BEGIN, NOTE, find_tokens
from agentcli.types.messages import ToolCall
from agentcli.types.own_tools import BUILT_IN
from agentcli.types.settings import Settings
from agentcli.types.tools import ErrorKind, ToolResult

if TYPE_CHECKING:
    from agentcli.permissions.masking import EventMasking
    from agentcli.permissions.secrets import RedactedBytes, Redactor


_TAKE_TOKENS = frozenset((*BUILT_IN, DELEGATE, "apply_patch", "search_tools", "answer")) - {"bash"}
"""Tools that put values back or only read. Any other tool would act on the token itself."""


class SecretMasking:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def clean(self, text: str) -> str:
        """Return the text without secrets of our environment and without text shaped like one."""
        return self._redactor.mask(text)

    def find_hidden(self, text: str) -> Mapping[str, str]:
        """Return the hidden values of a text by their tokens."""
        return self._redactor.find_hidden(text)

    def reveal(self, token: str) -> str | None:
        """Return the value of a token, or None if this process does not know it."""
        return self._redactor.reveal(token)

    def conceal(self, secret: str) -> None:
        """Add a secret that became known only now, such as a token. It is masked from now on."""
        self._redactor.learn(secret)

    def build_output_filter(self) -> "RedactedBytes":
        """Return a filter for the bytes of one command, used as they arrive."""
        return self._redactor.open_bytes_stream()

    def build_event_mask(self) -> "EventMasking":
        """Return a mask for the events of one journal. It tracks which reply parts have arrived."""
        from agentcli.permissions.masking import EventMasking

        return EventMasking(self._redactor)

    @cached_property
    def _redactor(self) -> "Redactor":
        from agentcli.permissions.secrets import Redactor
        from agentcli.session.keys import read_stored_values

        keys = read_stored_values()
        keys += [os.environ.get(named.key_env, "") for named in self._settings.providers]
        return Redactor(environ=os.environ, values=keys, names=self._settings.mask, key=_load_key)


class TokenNote:
    """A note on what a token is, for the first result that has one; again after it was dropped."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        """`facts` are the session's, and grow."""
        self._facts = facts

    def __call__(self, result: ToolResult) -> str:
        """Return the note, or "" if none is needed."""
        if not _has_token(result):
            return ""
        for fact in reversed(self._facts):
            if isinstance(fact, CallFinished) and _has_token(fact.result):
                return ""
            if isinstance(fact, Compacted | ResultsTrimmed):
                break
        return NOTE


def refuse_tokens(call: ToolCall) -> None:
    """Raise ToolError if the call passes a token to a tool that cannot put hidden values back."""
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
    return BEGIN in result.text


def _load_key() -> bytes:
    from agentcli.permissions.secret_tokens import load_key

    return load_key(user_state_path("agentcli", appauthor=False) / "secret-tokens.key")
