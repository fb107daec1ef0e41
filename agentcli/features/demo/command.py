"""`agentcli demo`: a recorded fix, played with real tools."""

import typer

from agentcli.ui.arguments import STYLE

app = typer.Typer(**STYLE)


@app.command()
def demo() -> int:
    """Try agentcli on a recorded fix. No key, no network.

    Copies a sample project with a failing test to a temporary directory and fixes it there. The
    model's replies are recorded, the tools are real. Your files are not touched."""
    from agentcli.features.demo.player import play_demo

    return play_demo()
