"""`agentcli policy`: the decision of the rules on a call, and on past calls."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, Network, OutputOption, SandboxKind, TextOrJson, Workspace

app = typer.Typer(help="Explain permission decisions and test rules on past calls.", **STYLE)


ModeOption = Annotated[
    str | None,
    typer.Option("--mode", metavar="plan|ask|auto-edit|auto", help="Permission mode to use."),
]
Allow = Annotated[
    list[str] | None,
    typer.Option("--allow", metavar="RULE", help="Add a rule that allows (repeatable)."),
]
Deny = Annotated[
    list[str] | None,
    typer.Option("--deny", metavar="RULE", help="Add a rule that denies (repeatable)."),
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="Add the rules of a file.")
]


@app.command()
def explain(
    query: Annotated[
        str,
        typer.Argument(
            metavar="CALL",
            help="""A call: 'bash: git push', 'edit_file: src/a.py', or with JSON arguments.""",
        ),
    ],
    workspace: Workspace = Path(),
    *,
    mode: ModeOption = None,
    allow: Allow = None,
    deny: Deny = None,
    network: Network = None,
    policy: PolicyFile = None,
    sandbox: SandboxKind = None,
    output: OutputOption = TextOrJson.TEXT,
) -> int:
    """Explain the decision on a call, its rule, and how to allow it."""
    from agentcli.features.policy.render import show_explanation
    from agentcli.settings import load_settings

    settings = load_settings(
        {
            "mode": mode,
            "sandbox": sandbox,
            "allow": allow,
            "deny": deny,
            "network": network,
            "policy": policy,
        },
        workspace=workspace,
        command="policy explain",
    )
    return show_explanation(settings, query, as_json=output is TextOrJson.JSON)


@app.command()
def test(
    runs: Annotated[
        str,
        typer.Option(metavar="SPAN", help="Period: 30d, 12h, 2w, or N for the latest N sessions."),
    ] = "30d",
    workspace: Workspace = Path(),
    *,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="plan|ask|auto-edit|auto", help="Use this mode instead of the recorded one."
        ),
    ] = None,
    allow: Allow = None,
    deny: Deny = None,
    network: Network = None,
    policy: PolicyFile = None,
    output: OutputOption = TextOrJson.TEXT,
) -> int:
    """Re-check past calls against the current rules and list differences.

    Exit code: 0, or 7 if a decision would differ.
    """
    from agentcli.features.policy.render import show_replay
    from agentcli.settings import load_settings

    settings = load_settings(
        {"mode": mode, "allow": allow, "deny": deny, "network": network, "policy": policy},
        workspace=workspace,
        command="policy test",
    )
    return show_replay(
        settings, runs, mode=settings.mode if mode else None, as_json=output is TextOrJson.JSON
    )


@app.command()
def presets() -> int:
    """List the presets of hosts that --network and rules can name. None is on by default."""
    from agentcli.features.policy.render import show_presets

    return show_presets()
