"""The slash command that adds a directory to the workspace, or lists those added."""

from agentcli.session.directories import READ_ONLY
from agentcli.system.files import shorten_home
from agentcli.types.errors import UsageError
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost


async def run_add_dir(host: CommandHost, rest: str) -> None:
    directories = host.session.directories
    if not rest:
        grants = directories.find_grants()
        rows = [(shorten_home(path), "read and write") for path in grants.writable]
        rows += [(shorten_home(path), "read only") for path in grants.readable]
        host.print_table(rows or [("none", "add one with /add-dir DIR, or DIR:ro to read it")])
        return
    if host.is_busy:
        host.fail("a turn is running", "stop it first, or wait for its end")
        return
    try:
        added = directories.add(rest)
    except UsageError as error:
        host.fail(str(error), error.hint)
        return
    how = "to read" if rest.endswith(READ_ONLY) else "to read and write"
    host.say(f"Added {escape(str(added))}, {how}", "dim")
