"""Whether to use what a repository brings for agentcli: asked before any of it is used."""

import sys

from agentcli.app.project import load_project
from agentcli.machine.plain import show_controls
from agentcli.settings import Settings

if sys.platform != "win32":
    import termios


def ask_trust(settings: Settings) -> None:
    project = load_project(settings.workspace)
    if project is None or not project.waits_for_answer:
        return
    _forget_typed()
    question = f"Trust {project.root}? It has {show_controls(project.summary)}. [y/n/v] "
    while True:
        try:
            answer = input(question).strip().lower()
        except (EOFError, KeyboardInterrupt):
            sys.stdout.write("\n")
            return
        if answer in ("y", "yes"):
            project.trust()
            return
        if answer in ("n", "no"):
            return
        if answer == "v":
            for line in project.list_contents():
                sys.stdout.write(f"  {show_controls(line)}\n")


def _forget_typed() -> None:
    """What was typed before the question is no answer to it."""
    if sys.platform != "win32" and sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
