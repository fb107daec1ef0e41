"""The effect of a switch to another model on a conversation, found out before it is made."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentcli.agent.history import build_messages as messages_of
from agentcli.log.sessions import find_session
from agentcli.session.model import choose_model, fetch_model_info
from agentcli.settings import Settings
from agentcli.types.provider import Message

if TYPE_CHECKING:
    from agentcli.providers.swap import SwapForecast


async def check_swap(messages: Sequence[Message], settings: Settings) -> "SwapForecast":
    """Forecast a switch to the model of the settings.

    Ask its provider if the catalogue lacks it.
    """
    from agentcli.providers.swap import forecast_swap

    model, provider = choose_model(settings)
    known = model if model.known else await fetch_model_info(model, provider)
    return forecast_swap(messages, known)


def check_session_swap(session_name: str, settings: Settings) -> "SwapForecast":
    """Forecast a switch for a stored session: by its id, a prefix of it, or the path of its log."""
    from agentcli.log.reader import read_log

    entries = read_log(find_session(session_name, settings.sessions).log).entries
    return asyncio.run(check_swap(messages_of(entry.fact for entry in entries), settings))
