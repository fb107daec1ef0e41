"""`agentcli policy`: the verdict of the rules on a call, and on past calls."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, SandboxKind, Workspace

app = typer.Typer(help="Explain verdicts, and try rules on past calls.", **STYLE)


class PolicyOutput(StrEnum):
    TEXT = "text"
    JSON = "json"


ModeOption = Annotated[
    str | None,
    typer.Option("--mode", metavar="plan|ask|auto-edit|auto", help="The mode to judge in."),
]
Allow = Annotated[
    list[str] | None, typer.Option("--allow", metavar="RULE", help="One more rule that allows.")
]
Deny = Annotated[
    list[str] | None, typer.Option("--deny", metavar="RULE", help="One more rule that denies.")
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="A file of more rules.")
]
Output = Annotated[
    PolicyOutput, typer.Option("-o", "--output", help="For people, or for programs.")
]


@app.command()
def explain(
    query: Annotated[
        str,
        typer.Argument(
            metavar="CALL",
            help="""As 'bash: git push', 'edit_file: src/a.py', or with arguments in JSON.""",
        ),
    ],
    workspace: Workspace = Path(),
    mode: ModeOption = None,
    allow: Allow = None,
    deny: Deny = None,
    policy: PolicyFile = None,
    sandbox: SandboxKind = None,
    output: Output = PolicyOutput.TEXT,
) -> int:
    """Say what would happen to a call, by which rule, and what would allow it."""
    from agentcli.features.policy.render import show_explanation
    from agentcli.settings import load_settings

    settings = load_settings(
        {"mode": mode, "sandbox": sandbox},
        workspace=workspace,
        allow=allow or (),
        deny=deny or (),
        policy=policy,
    )
    return show_explanation(settings, query, as_json=output is PolicyOutput.JSON)


@app.command()
def test(
    runs: Annotated[
        str,
        typer.Option(metavar="SPAN", help="How far back: 30d, 12h, 2w, or the latest N sessions."),
    ] = "30d",
    workspace: Workspace = Path(),
    mode: Annotated[
        str | None,
        typer.Option(metavar="plan|ask|auto-edit|auto", help="Instead of the mode of the time."),
    ] = None,
    allow: Allow = None,
    deny: Deny = None,
    policy: PolicyFile = None,
    output: Output = PolicyOutput.TEXT,
) -> int:
    """Put past calls before the rules as they are now, and list what would differ.

    Exits with 0 when nothing differs, with 7 when something does.
    """
    from agentcli.features.policy.render import show_replay
    from agentcli.settings import load_settings

    settings = load_settings(
        {"mode": mode},
        workspace=workspace,
        allow=allow or (),
        deny=deny or (),
        policy=policy,
    )
    return show_replay(
        settings, runs, mode=settings.mode if mode else None, as_json=output is PolicyOutput.JSON
    )
