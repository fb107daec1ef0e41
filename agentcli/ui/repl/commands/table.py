"""All slash commands of a session, in the order of the menu. The user's own come last."""

from collections.abc import Sequence
from importlib import import_module

from agentcli.session.features import SLASH_COMMANDS, SlashEntry
from agentcli.session.prompt_commands import PromptCommand, PromptCommands, load_prompt_commands
from agentcli.system.plain_text import show_controls
from agentcli.types.settings import Settings
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands import inspect, session
from agentcli.ui.repl.commands.registry import CommandHost, CommandRegistry, SlashCommand

# Commands and skills that the user and the project have written


def build_skills_command(prompts: PromptCommands) -> SlashCommand:
    async def run(host: CommandHost, rest: str) -> None:
        host.print_table([_describe_prompt(one) for one in prompts.commands])
        for problem in (*prompts.bad_skills, *prompts.problems):
            host.say(f"Not used: {escape(problem)}", "dim")
        if not prompts.commands:
            host.say("None yet: .agentcli/skills/NAME/SKILL.md, .agentcli/commands/NAME.md", "dim")

    return SlashCommand(name="skills", usage="", help="skills and your custom commands", run=run)


def _describe_prompt(prompt: PromptCommand) -> tuple[str, str]:
    command = prompt.command
    shown = f"{prompt.source}: {show_controls(command.description)}"
    return f"/{command.name} {show_controls(command.usage)}", shown


def _build_slash_command(prompt: PromptCommand) -> SlashCommand:
    command = prompt.command

    async def run(host: CommandHost, rest: str) -> None:
        host.send(command.build_prompt(rest))

    shown = f"{prompt.source}: {show_controls(command.description)}"
    usage = show_controls(command.usage) or "[TEXT]"
    return SlashCommand(name=command.name, usage=usage, help=shown, run=run)


# Commands of features, which are imported when they are used


def _build_feature_command(name: str, entry: SlashEntry) -> SlashCommand:
    word = name.replace("-", "_")

    async def run(host: CommandHost, rest: str) -> None:
        await getattr(import_module(entry.module), f"run_{word}")(host, rest)

    def list_arguments(host: CommandHost) -> Sequence[tuple[str, str]]:
        found: Sequence[tuple[str, str]]
        found = getattr(import_module(entry.module), f"list_{word}_arguments")(host)
        return found

    return SlashCommand(
        name=name,
        usage=entry.usage,
        help=entry.summary,
        run=run,
        list_arguments=list_arguments if entry.lists_arguments else None,
        works_alone=entry.works_alone,
    )


def build_registry(settings: Settings) -> CommandRegistry:
    found: list[SlashCommand] = []
    found += session.list_session_commands(found)
    found += (_build_feature_command(name, entry) for name, entry in SLASH_COMMANDS.items())
    found += inspect.list_inspect_commands()
    found += session.list_look_commands()
    found += session.list_memory_commands()
    own = load_prompt_commands(settings, used_names={"skills", *(one.name for one in found)})
    found += [build_skills_command(own), *map(_build_slash_command, own.commands)]
    return CommandRegistry(found, problems=own.shown_problems)
