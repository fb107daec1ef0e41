"""The slash command that shows the mode and the rules in effect."""

from agentcli.session.configuration import load_configuration
from agentcli.settings import RULES_FILE, get_user_directory
from agentcli.system.files import shorten_home
from agentcli.system.plain_text import show_controls
from agentcli.ui.repl.commands.registry import CommandHost


async def run_permissions(host: CommandHost, rest: str) -> None:
    settings = host.session.settings
    written = load_configuration(settings).rules
    known = {str(rule) for rule in written}
    agreed = [rule for rule in host.session.gate.agreed_rules if str(rule) not in known]
    rows = [("mode", host.mode), ("your rules", shorten_home(get_user_directory() / RULES_FILE))]
    for rule in (*written, *agreed):
        rows.append((str(rule), show_controls(rule.add_reason(rule.where or rule.source))))
    host.print_table(rows)
