"""The commands: names, options and help. A body opens the face it needs, and only that."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentcli import __version__
from agentcli.types.errors import AgentError, Exit

app = typer.Typer(
    name="agentcli",
    help="A terminal coding agent: a model asks, agentcli runs, records and guards.",
    epilog="Start here: agentcli demo",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


class OutputForm(StrEnum):
    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


Workspace = Annotated[
    Path, typer.Option("-C", "--cwd", metavar="DIR", help="The workspace: where the work is done.")
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PROVIDER/NAME",
        help="Which model; script/FILE plays a script. Default: whichever provider has a key.",
    ),
]


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


@app.command()
def run(
    prompt: Annotated[str, typer.Argument(help="What to do, in words; - reads it from stdin.")],
    workspace: Workspace = Path(),
    model: Model = None,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="plan|ask|auto-edit|auto",
            help="What needs no question: reading (plan, ask), editing files too (auto-edit), "
            "everything (auto). Nobody can be asked here: what would be asked is denied.",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Allow calls that match, e.g. 'bash(pytest:*)', 'edit'."),
    ] = None,
    deny: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Deny calls that match, in every mode."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file of rules for this run.")
    ] = None,
    sandbox: Annotated[
        str | None,
        typer.Option(metavar="auto|off", help="off runs commands without a sandbox."),
    ] = None,
    pass_env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A variable that commands may see, too."),
    ] = None,
    max_turns: Annotated[
        str | None, typer.Option(metavar="N", help="Stop after N model requests. [default: 100]")
    ] = None,
    output: Annotated[
        OutputForm,
        typer.Option(
            "-o", "--output", help="Answer alone, one JSON result, or one JSON line per event."
        ),
    ] = OutputForm.TEXT,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Errors only on stderr.")] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Diffs and command output on stderr.")
    ] = False,
) -> int:
    """Do one task and leave. The answer goes to stdout, the story to stderr."""
    from agentcli.settings import load
    from agentcli.ui.oneshot import Face, read_prompt, run_once

    settings = load(
        {"model": model, "mode": mode, "max_turns": max_turns, "sandbox": sandbox},
        workspace=workspace,
        allow=allow or (),
        deny=deny or (),
        policy=policy,
        pass_env=pass_env or (),
    )
    text = read_prompt(prompt)
    face: Face
    if output is OutputForm.TEXT:
        from agentcli.ui.plain import PlainFace

        face = PlainFace(verbosity=0 if quiet else 2 if verbose else 1)
    else:
        from agentcli.ui.jsonl import JsonFace

        face = JsonFace(stream=output is OutputForm.STREAM_JSON)
    return run_once(settings, text, face)


@app.command()
def demo() -> int:
    """Watch a recorded fix: no key, no network.

    A sample project with a failing test is copied to a temporary directory and fixed there by a
    recording. The tools, the edit and the test runs are real; nothing of yours is touched."""
    from agentcli.ui.demo import play

    return play()


@app.command()
def tools() -> None:
    """List the tools and what declaring them costs."""
    from agentcli.ui.tools import show

    show()


@app.command()
def models(
    local: Annotated[
        bool, typer.Option("--local", help="Look for servers on their usual ports, too.")
    ] = False,
) -> None:
    """List the models and what keeps them from use."""
    from agentcli.ui.models import show

    show(local=local)


@app.command()
def doctor(workspace: Workspace = Path(), model: Model = None) -> int:
    """Check this machine, and say how to fix it."""
    from agentcli.settings import load
    from agentcli.ui.doctor import examine

    return examine(load({"model": model}, workspace=workspace))


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


def _message(error: typer.exceptions.TyperException) -> str:
    formatted = getattr(error, "format_message", None)
    return formatted() if formatted else str(error)


def _command_path(error: typer.exceptions.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context else "agentcli"
