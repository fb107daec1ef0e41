"""The program's commands by name. One is imported when it is called: help needs only this table."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentcli import __version__
from agentcli.cli.options import STYLE
from agentcli.types.errors import AgentError, Exit, UsageError

COMMANDS = {
    "run": "Do one task and leave. The answer goes to stdout, the story to stderr.",
    "demo": "Watch a recorded fix: no key, no network.",
    "tools": "List the tools and what declaring them costs.",
    "models": "List the models and what keeps them from use.",
    "doctor": "Check this machine, and say how to fix it.",
}
"""Each is the module of that name beside this one, whose `app` is the command or the group."""


class Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            raise _unknown(cmd_name)
        if cmd_name not in self.commands:
            module = import_module(f"agentcli.cli.{cmd_name}")
            command = typer.main.get_command(module.app)
            command.name = cmd_name
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    name="agentcli",
    cls=Commands,
    help="A terminal coding agent: a model asks, agentcli runs, records and guards.",
    epilog="Start here: agentcli demo",
    **STYLE,
)


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"agentcli {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _unknown(name: str) -> UsageError:
    near = get_close_matches(name, COMMANDS, n=1)
    meant = f" Did you mean {near[0]}?" if near else ""
    return UsageError(f"there is no command {name}.{meant}", hint="agentcli --help")


def run_command(arguments: Sequence[str]) -> int:
    """Runs one command line. Every error a person can act on becomes two lines and an exit code."""
    from agentcli.ui.plain import say_error

    try:
        code = app(list(arguments), prog_name="agentcli", standalone_mode=False)
    except typer.exceptions.TyperException as error:
        say_error(_message(error), f"{_command_path(error)} --help")
        return Exit.USAGE
    except AgentError as error:
        say_error(str(error), error.hint)
        return error.exit_code
    return code if isinstance(code, int) else Exit.DONE


def _message(error: typer.exceptions.TyperException) -> str:
    formatted = getattr(error, "format_message", None)
    return formatted() if formatted else str(error)


def _command_path(error: typer.exceptions.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context else "agentcli"
