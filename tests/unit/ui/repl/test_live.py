from pathlib import Path

import pytest

from agentcli import __version__
from agentcli.settings import Settings
from agentcli.ui.repl.background import Answer
from agentcli.ui.repl.branch import Branch
from agentcli.ui.repl.engine import Opening
from agentcli.ui.repl.live import first_line, hints


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
    branch = Branch(workspace)
    opening = Opening(model="opus", branch=branch, answer=Answer())
    assert first_line(Settings(workspace=workspace), opening, width) == shown


def test_hints_are_whole_or_not_there() -> None:
    assert hints(79) == "/help · @file · !shell · ctrl+j newline · ctrl+d exit"
    assert hints(39) == "/help · @file · !shell · ctrl+j newline"
    assert hints(19) == "/help · @file"
    assert hints(3) == ""
