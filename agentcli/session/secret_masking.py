"""The masking of secrets: they are removed from all that the model, the user or the log sees."""

import json
import os
from collections.abc import Sequence

from platformdirs import user_state_path

from agentcli.permissions.secret_tokens import load_key
from agentcli.permissions.secrets import Redactor
from agentcli.session.keys import read_stored_values
from agentcli.tools.contracts import DELEGATE
from agentcli.types.errors import ToolError
from agentcli.types.events import CallFinished, Compacted, Fact, ResultsTrimmed
from agentcli.types.hidden import BEGIN, NOTE, find_tokens
from agentcli.types.messages import ToolCall
from agentcli.types.own_tools import BUILT_IN
from agentcli.types.settings import Settings
from agentcli.types.tools import ErrorKind, ToolResult

_TAKE_TOKENS = frozenset((*BUILT_IN, DELEGATE, "apply_patch", "search_tools", "answer")) - {"bash"}
"""Tools that put values back or only read. Any other tool would act on the token itself."""


def build_redactor(settings: Settings) -> Redactor:
    """Return what masks the secrets of the environment, of stored keys and of the settings."""
    keys = read_stored_values()
    keys += [os.environ.get(named.key_env, "") for named in settings.providers]
    return Redactor(environ=os.environ, values=keys, names=settings.mask, key=_load_key)


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
    text = json.dumps(call.input, ensure_ascii=False)
    if BEGIN in text and (tokens := find_tokens(text)):
        raise ToolError(
            f"Not run: {tokens[0]} stands for a value that is hidden from you, and {call.name} "
            "would get the token itself. Name the file or variable that holds the value, for "
            'example "$API_KEY", or search for it with grep.',
            kind=ErrorKind.INVALID_INPUT,
        )


def _has_token(result: ToolResult) -> bool:
    return BEGIN in result.text


def _load_key() -> bytes:
    return load_key(user_state_path("agentcli", appauthor=False) / "secret-tokens.key")
