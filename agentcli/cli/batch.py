"""`agentcli batch`: many tasks, each in a worktree and a session of its own."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.options import STYLE, Mask, Model, PassEnv, TrustProject, Workspace

app = typer.Typer(**STYLE)


@app.command()
def batch(
    tasks: Annotated[Path, typer.Argument(metavar="TASKS", help="A file of tasks, one per line.")],
    workers: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="How many run at a time.")
    ] = 2,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where results go. [default: TASKS with .out instead]"),
    ] = None,
    workspace: Workspace = Path(),
    model: Model = None,
    mode: Annotated[
        str | None, typer.Option(metavar="plan|ask|auto-edit|auto", help="As for agentcli run.")
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Allow calls that match.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Deny calls that match.")
    ] = None,
    policy: Annotated[Path | None, typer.Option(metavar="FILE", help="A file of rules.")] = None,
    sandbox: Annotated[
        str | None, typer.Option(metavar="auto|bubblewrap|landlock|off", help="Which sandbox.")
    ] = None,
    pass_env: PassEnv = None,
    mask: Mask = None,
    trust_project: TrustProject = False,
    verify: Annotated[
        list[str] | None, typer.Option(metavar="CMD", help="A task is done when this passes.")
    ] = None,
    max_cost: Annotated[str | None, typer.Option(metavar="USD", help="Of each task.")] = None,
    timeout: Annotated[str | None, typer.Option(metavar="TIME", help="Of each task.")] = None,
    engine: Annotated[
        str, typer.Option(metavar="local|ray", help="What runs them: this machine, or Ray.")
    ] = "local",
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Run tasks again that did not succeed.")
    ] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the worktrees of tasks that succeeded, too.")
    ] = False,
) -> int:
    """Run many tasks, each in its own worktree and session, and report once."""
    from agentcli.app.batch.tasks import read_tasks
    from agentcli.app.batch.work import Plan
    from agentcli.settings import load
    from agentcli.ui.batch.face import run_batch

    file = read_tasks(tasks)
    single = {
        "model": model,
        "mode": mode,
        "sandbox": sandbox,
        "max-cost": max_cost,
        "timeout": timeout,
        "policy": policy.absolute() if policy else None,
    }
    several = {
        "allow": allow,
        "deny": deny,
        "pass-env": pass_env,
        "mask": mask,
        "verify": verify,
    }
    flags = {name: single[name] for name in ("model", "mode", "sandbox", "timeout")}
    settings = load({**flags, "max_cost": max_cost}, workspace=workspace)
    plan = Plan(
        workspace=settings.workspace,
        out=(out or tasks.with_suffix(".out")).absolute(),
        options=(*_options(single, several), *(["--trust-project"] if trust_project else [])),
        workers=workers,
        retries_failed=retry_failed,
        keeps_trees=keep,
    )
    return run_batch(plan, file, engine=engine)


def _options(
    single: Mapping[str, object], several: Mapping[str, Sequence[str] | None]
) -> Iterator[str]:
    for name, value in single.items():
        if value is not None:
            yield f"--{name}={value}"
    for name, values in several.items():
        yield from (f"--{name}={value}" for value in values or ())
