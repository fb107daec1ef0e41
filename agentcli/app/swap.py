"""What going on with another model would mean for a conversation, found out before it is done."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentcli.agent.history import messages as messages_of
from agentcli.app.model import ask_about, chosen
from agentcli.record.sessions import find_session
from agentcli.settings import Settings
from agentcli.types.wire import Message

if TYPE_CHECKING:
    from agentcli.wire.swap import Swap


async def check_swap(messages: Sequence[Message], settings: Settings) -> "Swap":
    """For the model that the settings name; its provider is asked where the catalogue is silent."""
    from agentcli.wire.swap import swap

    model, provider = chosen(settings)
    known = model if model.known else await ask_about(model, provider)
    return swap(messages, known)


def check_session(named: str, settings: Settings) -> "Swap":
    """The same for a session that is kept: by its id, the beginning of it, or a path to its log."""
    from agentcli.record.reading import read

    entries = read(find_session(named, settings.sessions).log).entries
    return asyncio.run(check_swap(messages_of(entry.fact for entry in entries), settings))
