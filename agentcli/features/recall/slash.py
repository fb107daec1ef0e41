"""The slash command for the memory of past sessions."""

import asyncio

from agentcli.features.recall.render import edit_entry, format_entry, format_line
from agentcli.features.recall.store import MemoryStore, get_memory_path
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost, WrongArguments

LISTED = 10


async def run_recall(host: CommandHost, rest: str) -> None:
    """Search, or with a word and a number before: show, edit or delete one memory."""
    verb, _, more = rest.partition(" ")
    number, _, text = more.strip().partition(" ")
    if verb in ("show", "edit", "delete") and number.isdecimal():
        said = await asyncio.to_thread(_run_on_entry, verb, int(number), text.strip())
        host.say(escape(said), "dim")
        return
    store, here = MemoryStore(get_memory_path()), str(host.settings.workspace)
    if rest:
        found = await asyncio.to_thread(store.search, rest, workspace=here, most=LISTED)
    else:
        found = await asyncio.to_thread(store.list_entries, workspace=here, most=LISTED)
    nothing = "No matches." if rest else f"Nothing is remembered (memory = {host.settings.memory})."
    host.say(escape("\n".join(map(format_line, found)) or nothing), "dim")


def _run_on_entry(verb: str, entry_id: int, text: str) -> str:
    store = MemoryStore(get_memory_path())
    match verb:
        case "show":
            return format_entry(store.find(entry_id))
        case "edit" if text:
            return edit_entry(entry_id, learned=text)
        case "delete":
            store.find(entry_id)
            store.delete([entry_id])
            return f"deleted memory {entry_id}"
        case _:
            raise WrongArguments
