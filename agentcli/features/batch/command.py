"""`agentcli batch`: many tasks, each in a worktree and a session of its own."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import (
    STYLE,
    Allow,
    Deny,
    Mask,
    McpConfig,
    Mode,
    Model,
    Network,
    PassEnv,
    Policy,
    SandboxKind,
    TrustProject,
    Verify,
    Workspace,
)

# The options of `agentcli batch` alone: what each takes, and what it means.


Tasks = Annotated[
    Path, typer.Argument(metavar="TASKS", help="A file of tasks, one JSON object per line.")
]
Workers = Annotated[
    int, typer.Option(min=1, max=64, metavar="N", help="Number of tasks to run at the same time.")
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Output directory. [default: TASKS with the suffix .out]"),
]
Store = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Object store that also gets all results, such as s3://..."),
]
Predictions = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Also write the changes as predictions for SWE-bench."),
]
MaxCostEach = Annotated[
    str | None, typer.Option("--max-cost", metavar="USD", help="Cost limit of each task.")
]
TimeoutEach = Annotated[
    str | None, typer.Option("--timeout", metavar="TIME", help="Time limit of each task.")
]
EngineName = Annotated[
    str, typer.Option(metavar="local|ray", help="Run on this machine, or on Ray.")
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Run failed tasks again.")]
Keep = Annotated[bool, typer.Option("--keep", help="Also keep the worktrees of successful tasks.")]


app = typer.Typer(**STYLE)


@app.command()
def batch(
    tasks: Tasks,
    workers: Workers = 2,
    *,
    out: Out = None,
    store: Store = None,
    predictions: Predictions = None,
    workspace: Workspace = Path(),
    model: Model = None,
    mode: Mode = None,
    allow: Allow = None,
    deny: Deny = None,
    network: Network = None,
    policy: Policy = None,
    sandbox: SandboxKind = None,
    pass_env: PassEnv = None,
    mask: Mask = None,
    mcp_config: McpConfig = None,
    trust_project: TrustProject = False,
    verify: Verify = None,
    max_cost: MaxCostEach = None,
    timeout: TimeoutEach = None,
    engine: EngineName = "local",
    retry_failed: RetryFailed = False,
    keep: Keep = False,
) -> int:
    """Run many tasks, each in its own worktree and session, with one report."""
    from agentcli.features.batch.engine import BatchPlan
    from agentcli.features.batch.render import run_batch
    from agentcli.features.batch.tasks import read_tasks
    from agentcli.settings import load_settings

    file = read_tasks(tasks)
    checked = {
        "model": model,
        "mode": mode,
        "sandbox": sandbox,
        "max_cost": max_cost,
        "timeout": timeout,
    }
    others = {
        "allow": allow,
        "deny": deny,
        "network": network,
        "pass-env": pass_env,
        "mask": mask,
        "verify": verify,
    }
    files = {"policy": policy, "mcp-config": mcp_config}
    plan = BatchPlan(
        workspace=load_settings(checked, workspace=workspace, command="batch").workspace,
        out=(out or tasks.with_suffix(".out")).absolute(),
        options=(
            *_build_options({**checked, **others}),
            *(["--trust-project"] if trust_project else []),
        ),
        # The workers are elsewhere.
        files={name: Path(path).absolute() for name, path in files.items() if path},
        workers=workers,
        retries_failed=retry_failed,
        keeps_trees=keep,
        store_url=store,
    )
    return run_batch(plan, file, engine=engine, predictions=predictions)


def _build_options(arguments: Mapping[str, object]) -> Iterator[str]:
    for name, value in arguments.items():
        values = value if isinstance(value, list) else [value]
        yield from (f"--{name.replace('_', '-')}={it}" for it in values if it is not None)
