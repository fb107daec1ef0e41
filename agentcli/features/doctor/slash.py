"""The slash command that checks the setup."""

import asyncio

from agentcli.features.doctor.checks import check_machine
from agentcli.ui.repl.commands.registry import CommandHost


async def run_doctor(host: CommandHost, rest: str) -> None:
    found = await asyncio.to_thread(lambda: list(check_machine(host.settings)))
    rows: list[tuple[str, str]] = []
    for one in found:
        rows.append((f"{one.status:<4}  {one.subject}", one.words))
        rows += [("      fix", one.fix)] if one.fix else []
    host.print_table(rows)
