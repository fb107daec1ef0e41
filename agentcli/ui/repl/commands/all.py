"""All slash commands of a session, in the order of the menu; those of the project come last."""

from agentcli.settings import Settings
from agentcli.ui.repl.commands import basics, looking, looks, past, project, taking
from agentcli.ui.repl.commands.registry import Registry
from agentcli.ui.repl.desk import SlashCommand


def make_registry(settings: Settings) -> Registry:
    found: list[SlashCommand] = []
    found += basics.commands(found)
    found += past.commands()
    found += looking.commands()
    found += taking.commands()
    found += looks.commands()
    found += project.commands(settings)
    return Registry(found)
