"""`agentcli run`: one task, without a person to ask."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.options import STYLE, Model, Workspace

app = typer.Typer(**STYLE)


class OutputForm(StrEnum):
    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


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
