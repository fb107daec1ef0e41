from pathlib import Path

import pytest

from agentcli import __version__
from agentcli.types.settings import Settings
from agentcli.ui.repl.launch import render_first_line, render_hints
from agentcli.ui.repl.state import GitBranch, ReplOptions


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (79, f"agentcli {__version__} · opus · /srv/some/project · ask mode"),
        (45, f"agentcli {__version__} · opus · …e/project · ask mode"),
        (39, f"agentcli {__version__} · opus · ask mode"),
    ],
)
def test_first_line_leaves_out_the_folder_before_the_mode(width: int, shown: str) -> None:
    workspace = Path("/srv/some/project")
    branch = GitBranch(workspace)
    opening = ReplOptions(model="opus", branch=branch)
    assert render_first_line(Settings(workspace=workspace), opening, width=width) == shown


def test_hints_are_whole_or_not_there() -> None:
    settings = Settings(workspace=Path("/nowhere"))
    assert render_hints(settings, 79) == "/help · @file · !shell · ctrl+j newline · ctrl+d exit"
    assert render_hints(settings, 39) == "/help · @file · !shell · ctrl+j newline"
    assert render_hints(settings, 19) == "/help · @file"
    assert render_hints(settings, 3) == ""


def test_hints_name_the_keys_of_the_user() -> None:
    keys = (("newline", "escape n"), ("leave", "f10"))
    settings = Settings(workspace=Path("/nowhere"), keys=keys)
    assert render_hints(settings, 79) == "/help · @file · !shell · alt+n newline · f10 exit"
