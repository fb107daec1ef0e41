"""Whether to use what a repository brings for agentcli: asked before any of it is used."""

import sys

from agentcli.app.project import open_project
from agentcli.machine.plain import visible
from agentcli.settings import Settings


def ask_trust(settings: Settings) -> None:
    project = open_project(settings.workspace)
    if project is None or not project.waits_for_answer:
        return
    question = f"Trust {project.root}? It has {visible(project.summary)}. [y/n/v] "
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
            for line in project.contents():
                sys.stdout.write(f"  {visible(line)}\n")
