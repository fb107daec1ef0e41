"""What neither the model nor people nor the log may see, taken out wherever it shows up.

It is made at the first text, not before: the way to the first request reads no environment twice.
"""

import os
from functools import cached_property
from typing import TYPE_CHECKING

from agentcli.settings import Settings

if TYPE_CHECKING:
    from agentcli.guard.masking import Masking
    from agentcli.guard.secrets import RedactedBytes, Redactor


class Secrecy:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def clean(self, text: str) -> str:
        """Without the secrets of our environment, and without what has the shape of one."""
        return self._redactor.text(text)

    def conceal(self, secret: str) -> None:
        """What became known only now, such as a token: it is taken out of everything after."""
        self._redactor.learn(secret)

    def clean_output(self) -> "RedactedBytes":
        """For the bytes of one command, as they come."""
        return self._redactor.bytes_stream()

    def new_mask(self) -> "Masking":
        """For all that is told in one journal: it knows what of its replies has arrived."""
        from agentcli.guard.masking import Masking

        return Masking(self._redactor)

    @cached_property
    def _redactor(self) -> "Redactor":
        from agentcli.guard.secrets import Redactor

        keys = [os.environ.get(named.key_env, "") for named in self._settings.providers]
        return Redactor(environ=os.environ, values=keys, names=self._settings.mask)
