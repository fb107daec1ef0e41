"""The options of `agentcli batch` alone: what each takes, and what it means."""

from pathlib import Path
from typing import Annotated

import typer

Tasks = Annotated[Path, typer.Argument(metavar="TASKS", help="A file of tasks, one per line.")]
Workers = Annotated[int, typer.Option(min=1, max=64, metavar="N", help="How many run at a time.")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where results go. [default: TASKS with .out instead]"),
]
MaxCostEach = Annotated[str | None, typer.Option("--max-cost", metavar="USD", help="Of each task.")]
TimeoutEach = Annotated[str | None, typer.Option("--timeout", metavar="TIME", help="Of each task.")]
EngineName = Annotated[
    str, typer.Option(metavar="local|ray", help="What runs them: this machine, or Ray.")
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Run tasks again that did not succeed.")
]
Keep = Annotated[
    bool, typer.Option("--keep", help="Keep the worktrees of tasks that succeeded, too.")
]
