"""All slash commands of a session, in the order of the menu; the person's own come last."""

from agentcli.settings import Settings
from agentcli.ui.repl.commands import basics, looking, looks, past, project, taking, tooling
from agentcli.ui.repl.commands.own import build_skills_command, load_user_commands
from agentcli.ui.repl.commands.registry import CommandRegistry
from agentcli.ui.repl.desk import SlashCommand


def build_registry(settings: Settings) -> CommandRegistry:
    found: list[SlashCommand] = []
    found += basics.list_session_commands(found)
    found += past.list_history_commands()
    found += looking.list_inspect_commands()
    found += tooling.list_tool_commands()
    found += taking.list_copy_commands()
    found += looks.list_look_commands()
    found += project.list_project_commands()
    own = load_user_commands(settings, used_names={"skills", *(one.name for one in found)})
    found += [build_skills_command(own), *own.commands]
    return CommandRegistry(found, problems=own.problems)
