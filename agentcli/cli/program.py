"""The program's commands by name. A command is imported when called: help needs only this table."""

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from agentcli import __version__
from agentcli.cli.line import report_error
from agentcli.session.features import COMMANDS
from agentcli.types.errors import AgentError, Exit, UsageError
from agentcli.ui.arguments import (
    STYLE,
    Accessible,
    AddDir,
    Allow,
    Color,
    Computer,
    Continue,
    Debug,
    Deny,
    Effort,
    Mask,
    McpConfig,
    Model,
    Network,
    PassEnv,
    Policy,
    ResumeOrPick,
    SandboxKind,
    SessionMode,
    SessionWorkspace,
    ThemeName,
    TrustProject,
    Web,
    WorktreeName,
    Yolo,
)


class CommandGroup(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            raise _build_unknown_command_error(cmd_name)
        if cmd_name not in self.commands:
            found = COMMANDS[cmd_name]
            command = typer.main.get_command(getattr(import_module(found.module), found.app))
            command.name = cmd_name
            self.commands[cmd_name] = command
        return self.commands[cmd_name]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return list(super().parse_args(ctx, _insert_empty_values(args)))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.summary) for name, one in COMMANDS.items()])


app = typer.Typer(
    name="agentcli",
    cls=CommandGroup,
    help="A coding agent for your terminal.",
    epilog="Start here: agentcli demo",
    **STYLE,
)


@app.callback(invoke_without_command=True)
def _main(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    *,
    workspace: SessionWorkspace = None,
    model: Model = None,
    effort: Effort = None,
    mode: SessionMode = None,
    allow: Allow = None,
    deny: Deny = None,
    network: Network = None,
    web: Web = False,
    computer: Computer = False,
    policy: Policy = None,
    sandbox: SandboxKind = None,
    yolo: Yolo = False,
    add_dir: AddDir = None,
    pass_env: PassEnv = None,
    mask: Mask = None,
    resume: ResumeOrPick = None,
    latest: Continue = False,
    worktree: WorktreeName = None,
    trust_project: TrustProject = False,
    mcp_config: McpConfig = None,
    theme: ThemeName = None,
    color: Color = None,
    accessible: Accessible = False,
    debug: Debug = False,
) -> int:
    values = locals()
    if version:
        typer.echo(f"agentcli {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is not None:
        _refuse_session_options(context)
        return Exit.DONE
    from agentcli.cli.interactive import build_options, interact

    return interact(build_options(values))


def _refuse_session_options(context: typer.Context) -> None:
    """Raise UsageError for session options before a command.

    They would have no effect there, and a user who wrote `--deny` relies on it.
    """
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if source and source.name == "COMMANDLINE" and option.name != "debug":
            raise UsageError(
                f"{option.opts[-1]} must come after the command",
                hint=f"agentcli {context.invoked_subcommand} {option.opts[-1]} ...",
            )


def _insert_empty_values(arguments: list[str]) -> list[str]:
    """Insert an empty value after a bare `--resume`, which asks for a list, or `--worktree`.

    Typer has no options whose value may be missing.
    """
    if any(word in COMMANDS for word in arguments):
        return arguments
    for name in ("--resume", "-w", "--worktree"):
        at = arguments.index(name) + 1 if name in arguments else 0
        if at and (at == len(arguments) or arguments[at][:1] == "-" != arguments[at]):
            arguments = [*arguments[:at], "", *arguments[at:]]
    return arguments


def _build_unknown_command_error(name: str) -> UsageError:
    near = get_close_matches(name, COMMANDS, n=1)
    suggestion = f". Did you mean {near[0]}?" if near else ""
    return UsageError(f"unknown command {name}{suggestion}", hint="agentcli --help")


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line. Every error a user can act on becomes two lines and an exit code."""
    program = typer.main.get_command(app)
    try:
        # `main` of typer would end with exit code 1 if the reader of stdout is gone.
        with program.make_context("agentcli", list(arguments)) as context:
            code = program.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    except typer.exceptions.TyperException as error:
        hint = f"{_find_command_path(error, arguments)} --help"
        return report_error(UsageError(_format_error(error), hint=hint), arguments)
    except AgentError as error:
        return report_error(error, arguments)
    return code if isinstance(code, int) else Exit.DONE


def _format_error(error: typer.exceptions.TyperException) -> str:
    formatted = getattr(error, "format_message", None)
    message = formatted() if formatted else str(error)
    group = getattr(getattr(error, "ctx", None), "command", None)
    if isinstance(group, TyperGroup) and message == "Missing command.":
        return f"choose one: {', '.join(group.commands)}"
    return message


def _find_command_path(error: typer.exceptions.TyperException, arguments: Sequence[str]) -> str:
    context = getattr(error, "ctx", None)
    if context is not None:
        return str(context.command_path)
    return " ".join(["agentcli", *(word for word in arguments[:1] if word in COMMANDS)])
