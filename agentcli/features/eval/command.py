"""`agentcli eval`: how well a model does the tasks of a suite, as figures."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import (
    STYLE,
    Allow,
    Deny,
    McpConfig,
    Model,
    Network,
    PassEnv,
    Policy,
    SandboxKind,
)

# The options of `agentcli eval` alone: what each takes, and what it means.


SuiteName = Annotated[
    str,
    typer.Argument(
        metavar="SUITE", help="A folder of tasks, or basics, which comes with agentcli."
    ),
]
Only = Annotated[
    list[str] | None, typer.Option("--task", metavar="ID", help="Run only this task (repeatable).")
]
Repeats = Annotated[
    int, typer.Option("--repeat", min=1, max=100, metavar="K", help="Attempts at each task.")
]
Workers = Annotated[
    int, typer.Option(min=1, max=64, metavar="N", help="Number of tasks to run at the same time.")
]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Output directory. [default: SUITE.eval]")
]
Baseline = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Compare with the evaluation in this directory."),
]
MaxCostEach = Annotated[
    str | None, typer.Option("--max-cost", metavar="USD", help="Cost limit of each attempt.")
]
PlayFiles = Annotated[
    str | None,
    typer.Option(
        "--play",
        metavar="solution|wrong",
        help="Use no model: write the files that the tasks bring, to test their checks.",
    ),
]


app = typer.Typer(**STYLE)


@app.command()
def eval(
    suite: SuiteName,
    task: Only = None,
    *,
    repeat: Repeats = 1,
    workers: Workers = 2,
    out: Out = None,
    baseline: Baseline = None,
    model: Model = None,
    allow: Allow = None,
    deny: Deny = None,
    network: Network = None,
    policy: Policy = None,
    sandbox: SandboxKind = None,
    pass_env: PassEnv = None,
    mcp_config: McpConfig = None,
    max_cost: MaxCostEach = None,
    play: PlayFiles = None,
) -> int:
    """Measure how well a model does the tasks of a suite."""
    from agentcli.features.eval.engine import EvalPlan, parse_play
    from agentcli.features.eval.render import run_eval
    from agentcli.features.eval.suite import find_suite, read_suite
    from agentcli.settings import load_settings

    path = find_suite(suite)
    flags = {"model": model, "max_cost": max_cost}
    chosen = load_settings(flags, workspace=Path(), command="eval")
    listed = {"allow": allow, "deny": deny, "network": network, "pass-env": pass_env}
    files = {"policy": policy, "mcp-config": mcp_config}
    played = parse_play(play)
    options = (
        "--mode=auto",
        *([f"--model={model}"] if model and not played else []),
        *([f"--sandbox={sandbox}"] if sandbox else []),
        *([f"--max-cost={max_cost}"] if max_cost else []),
        *(f"--{name}={value}" for name, values in listed.items() for value in values or ()),
        *(f"--{name}={Path(value).absolute()}" for name, value in files.items() if value),
    )
    plan = EvalPlan(
        suite=read_suite(path, only=task or ()),
        out=(out or Path(f"{path.name}.eval")).absolute(),
        repeats=repeat,
        workers=workers,
        options=options,
        sandbox=sandbox,
        play=played,
    )
    label = f"its {play} files" if play else (chosen.model or "the default model")
    return run_eval(plan, label=label, baseline=baseline)
