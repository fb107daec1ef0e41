"""`agentcli demo`: a recorded fix, played with real tools."""

import typer

from agentcli.ui.arguments import STYLE

app = typer.Typer(**STYLE)


@app.command()
def demo() -> int:
    """Watch a recorded fix: no key, no network.

    A sample project with a failing test is copied to a temporary directory and fixed there by a
    recording. The tools, the edit and the test runs are real; nothing of yours is touched."""
    from agentcli.features.demo.player import play_demo

    return play_demo()
