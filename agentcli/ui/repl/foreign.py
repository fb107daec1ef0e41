"""Resources and prompts of servers in the menus of the input.

Before a colon stand the servers' names, which cost nothing; after it what the server itself lists.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentcli.machine.plain import show_controls
from agentcli.ui.repl import fuzzy

if TYPE_CHECKING:
    from agentcli.app.server_menu import ServerMenu


class ServerCompletions:
    def __init__(self, get_menu: "Callable[[], ServerMenu | None]") -> None:
        """None: there are no servers, or it is too early to know."""
        self._get_menu = get_menu

    async def complete_prompts(self, typed: str) -> list[tuple[str, str]]:
        """For a line that is a slash and a word: what could stand there, and what it is."""
        menu = self._get_menu()
        if menu is None or " " in typed:
            return []
        server, colon, name = typed[1:].partition(":")
        if not colon:
            found = fuzzy.find_best(server, menu.names)
            return [(f"/{one}:", f"prompts of the MCP server {one}") for one in found]
        prompts = fuzzy.find_best(name, await menu.list_prompts(server), text=lambda one: one.name)
        return [
            (f"/{server}:{show_controls(one.name)}", f"{one.usage}  {one.about}".strip())
            for one in prompts
        ]

    async def complete_resources(self, typed: str) -> list[tuple[str, str]]:
        """For what is typed behind an @."""
        menu = self._get_menu()
        if menu is None or not typed:
            return []
        server, colon, uri = typed.partition(":")
        if not colon:
            found = fuzzy.find_best(server, menu.names)
            return [(f"{one}:", f"resources of the MCP server {one}") for one in found]
        resources = fuzzy.find_best(
            uri, await menu.list_resources(server), text=lambda one: one.uri
        )
        return [(f"{server}:{show_controls(one.uri)}", one.about) for one in resources]
