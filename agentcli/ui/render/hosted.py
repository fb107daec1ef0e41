"""Calls that a provider made itself while it wrote a reply, in words for the user."""

from collections.abc import Sequence

from agentcli.system.plain_text import show_controls
from agentcli.types.messages import AssistantMessage, HostedCall
from agentcli.types.words import pluralize
from agentcli.ui.render.wording import TARGET_CHARS, shorten_middle


def describe_hosted(message: AssistantMessage) -> Sequence[str]:
    """Return a line for each call that the provider made itself, and for each cited page."""
    calls = [
        f"{call.tool} {_shorten(call.subject)}: {_format_hosted(call)}" for call in message.hosted
    ]
    return [*calls, *(f"source: {_shorten(f'{one.title} {one.url}')}" for one in message.sources)]


def _format_hosted(call: HostedCall) -> str:
    if call.error:
        return show_controls(call.error)
    return "ok" if call.tool != "web_search" else pluralize(call.results, "result")


def _shorten(text: str) -> str:
    return shorten_middle(show_controls(" ".join(text.split())), TARGET_CHARS)
