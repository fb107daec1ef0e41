"""`agentcli import`: take over the user's configuration for other agents."""

import sys
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE

app = typer.Typer(**STYLE)


@app.command(name="import")
def import_config(
    from_agent: Annotated[
        str,
        typer.Option("--from", metavar="AGENT", help="claude, codex, gemini, opencode, cursor."),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would become of each part.")
    ] = False,
    *,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Write without asking.")] = False,
) -> int:
    """Take over your settings for other agents: rules, hooks and servers.

    Prints what is found in your home, what it becomes, and what does not carry over and why. Then
    it asks, and adds it to your own files. What these have already stays. Instructions, skills,
    agents and commands need no import: they are read where they are."""
    from agentcli.features.importer.engine import AGENTS, build_plan, write_plan
    from agentcli.system.files import shorten_home
    from agentcli.system.plain_text import show_controls
    from agentcli.types.errors import Exit, UsageError

    if from_agent and from_agent not in AGENTS:
        raise UsageError(
            f"no agent {from_agent}; there are {', '.join(AGENTS)}",
            hint="agentcli import --from claude",
        )
    plan = build_plan((from_agent,) if from_agent else AGENTS)
    for item in plan.items:
        outcome = f"-> {item.becomes}" if item.becomes else f"not carried over: {item.why_not}"
        sys.stdout.write(show_controls(f"{item.where}  {item.what}  {outcome}") + "\n")
    if not plan.has_changes:
        sys.stdout.write("nothing to write\n")
        return Exit.DONE
    if dry_run or not (yes or _confirm()):
        sys.stdout.write("nothing was written\n")
        return Exit.DONE
    for path in write_plan(plan):
        sys.stdout.write(f"wrote {shorten_home(path)}\n")
    return Exit.DONE


def _confirm() -> bool:
    if not sys.stdin.isatty():
        sys.stdout.write("to write it: agentcli import --yes\n")
        return False
    try:
        return input("Add this to your own files? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")
        return False
