"""The options of `agentcli run`, some of them of `batch` too: what each takes and means."""

from pathlib import Path
from typing import Annotated

import typer

Prompt = Annotated[str | None, typer.Argument(help="What to do, in words; - reads it from stdin.")]
PromptFile = Annotated[
    Path | None, typer.Option("-f", "--file", metavar="FILE", help="The prompt, in a file.")
]
Images = Annotated[
    list[Path] | None,
    typer.Option(
        "--image",
        metavar="FILE",
        help="An image to look at; again for more. One of the workspace may be named in the "
        "prompt instead: @shot.png.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        metavar="plan|ask|auto-edit|auto",
        help="What needs no question: reading (plan, ask), editing files too (auto-edit), "
        "everything (auto). Nobody can be asked here: what would be asked is denied.",
    ),
]
OnDeny = Annotated[
    str,
    typer.Option(
        metavar="fail|continue|ignore",
        help="When a call is denied: stop, go on and fail at the end, or only record it.",
    ),
]
StrictCost = Annotated[
    bool, typer.Option("--strict-cost", help="Refuse a model whose price is not known.")
]
MaxTokens = Annotated[
    str | None,
    typer.Option(metavar="N", help="Send none that could take the session above N tokens."),
]
ToolTimeout = Annotated[
    str | None, typer.Option(metavar="TIME", help="Stop any one command after that.")
]
MaxWait = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Wait no longer for a provider that asks to wait."),
]
WrapUp = Annotated[
    bool, typer.Option("--wrap-up", help="At a limit, let the model sum up, without tools.")
]
Verify = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CMD",
        help="The task is done when this passes. What fails goes back to the model.",
    ),
]
CheckClaims = Annotated[
    bool,
    typer.Option("--check-claims", help="Fail if the answer claims what the record refutes."),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The answer is JSON that meets this JSON Schema."),
]
Partial = Annotated[
    bool, typer.Option("--partial", help="With stream-json: text and output as they come.")
]
PatchFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write what the run changed, as a diff.")
]
LastMessage = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the answer to a file, too.")
]
OutputDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write result, answer, patch, settings and log, however it ends."
    ),
]
