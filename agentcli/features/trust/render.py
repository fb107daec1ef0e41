"""Trust on the command line: what a repository would run, shown before and after the answer."""

import sys
from pathlib import Path

from agentcli.session.project import Project, list_trusted_projects, load_project, revoke_trust
from agentcli.system.files import resolve_directory
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, UsageError
from agentcli.types.settings import Settings
from agentcli.ui.report import print_line

_STATUS = {
    "trusted": "trusted",
    "unknown": "not trusted",
    "changed": "changed since it was trusted",
    "unusable": "cannot be trusted",
}


def trust_project(directory: Path) -> Exit:
    project = _open_project(directory)
    if project is None or not project.files.needs_trust:
        print_line(f"{resolve_directory(directory)} has nothing that needs trust")
        return Exit.DONE
    _say_contents(project)
    project.trust()
    print_line(f"Trusted {project.root}")
    return Exit.DONE


def show_project(directory: Path) -> Exit:
    project = _open_project(directory)
    if project is None:
        print_line(f"{resolve_directory(directory)} has no agentcli config")
        return Exit.DONE
    _say_contents(project)
    print_line(f"{project.root}: {_STATUS[project.standing]}")
    return Exit.DONE


def list_trusted() -> Exit:
    trusted = list_trusted_projects()
    if not trusted:
        sys.stderr.write("no trusted repositories\n")
    for one in trusted:
        print_line(f"{one.at[:10]}  {one.root}")
    return Exit.DONE


def revoke_project_trust(directory: Path) -> Exit:
    root = resolve_directory(directory)
    around = [one.root for one in list_trusted_projects() if root.is_relative_to(one.root)]
    if not around:
        raise UsageError(f"{root} is not trusted", hint="agentcli trust --list")
    nearest = max(around, key=lambda path: len(path.parts))
    revoke_trust(nearest)
    print_line(f"{nearest} is no longer trusted")
    return Exit.DONE


def _open_project(directory: Path) -> Project | None:
    root = resolve_directory(directory)
    if not root.is_dir():
        raise UsageError(f"no directory {directory}", hint="agentcli trust DIR")
    return load_project(root, environ={})


def _say_contents(project: Project) -> None:
    for line in project.list_contents():
        print_line(line)


# The question whether to use a repository's own files for agentcli, asked before any is used.


if sys.platform != "win32":
    import termios


def ask_trust(settings: Settings) -> None:
    project = load_project(settings.workspace)
    if project is None or not project.waits_for_answer:
        return
    _discard_typed()
    contents = show_controls(project.summary)
    question = f"Trust this project's agentcli config ({contents})? [y]es [n]o [v]iew "
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


def _discard_typed() -> None:
    """Discard what was typed before the question: it is no answer to it."""
    if sys.platform != "win32" and sys.stdin.isatty():
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
