"""`agentcli acp`: a session inside an editor."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agentcli.ui.arguments import (
    STYLE,
    AddDir,
    Allow,
    Deny,
    Mask,
    Model,
    Network,
    PassEnv,
    Policy,
    SandboxKind,
    SessionMode,
    TrustProject,
    Web,
)

if TYPE_CHECKING:
    from agentcli.types.settings import Settings

app = typer.Typer(**STYLE)


@app.command()
def acp(
    model: Model = None,
    mode: SessionMode = None,
    *,
    allow: Allow = None,
    deny: Deny = None,
    network: Network = None,
    web: Web = False,
    policy: Policy = None,
    sandbox: SandboxKind = None,
    add_dir: AddDir = None,
    pass_env: PassEnv = None,
    mask: Mask = None,
    trust_project: TrustProject = False,
) -> int:
    """Run as an agent in your editor, over the Agent Client Protocol (stdio)."""
    from agentcli.features.acp.stdio_server import serve
    from agentcli.settings import load_settings

    def load(workspace: Path) -> "Settings":
        return load_settings(
            {
                "model": model,
                "mode": mode,
                "sandbox": sandbox,
                "web": web or None,
                "allow": allow,
                "deny": deny,
                "network": network,
                "policy": os.path.realpath(policy) if policy else None,
                "add_dir": add_dir,
                "pass_env": pass_env,
                "mask": mask,
                "trust_project": trust_project,
            },
            workspace=workspace,
            command="acp",
        )

    return serve(load)
