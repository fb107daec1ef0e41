"""All slash commands of a session, in the order of the menu; the person's own come last."""

from agentcli.settings import Settings
from agentcli.ui.repl.commands import basics, looking, looks, past, project, taking, tooling
from agentcli.ui.repl.commands.own import own_commands, skills_command
from agentcli.ui.repl.commands.registry import Registry
from agentcli.ui.repl.desk import SlashCommand


def make_registry(settings: Settings) -> Registry:
    found: list[SlashCommand] = []
    found += basics.commands(found)
    found += past.commands()
    found += looking.commands()
    found += tooling.commands()
    found += taking.commands()
    found += looks.commands()
    found += project.commands()
    own = own_commands(settings, taken={"skills", *(one.name for one in found)})
    found += [skills_command(own), *own.commands]
    return Registry(found, problems=own.problems)
