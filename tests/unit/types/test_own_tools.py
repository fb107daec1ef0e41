from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agentcli.permissions.subject import SubjectFactory
from agentcli.session.unsaved_files import WORKING
from agentcli.types.own_tools import EDITING, list_paths
from agentcli.types.tools import Effect


class ManyFiles(NamedTuple):
    """The arguments of a tool that changes two files."""

    paths: tuple[str, ...] = ("from.txt", "secret/to.txt")


class OneFile(NamedTuple):
    path: str = "a.txt"


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        *((tool, ManyFiles()) for tool in sorted(EDITING)),
        *((tool, OneFile()) for tool in sorted(EDITING - {"apply_patch"})),
    ],
)
def test_rules_judge_every_file_that_a_tool_changes(tool: str, args: Any, tmp_path: Path) -> None:
    subjects = SubjectFactory(workspace=tmp_path, cwd=lambda: tmp_path)
    subject = subjects.build(tool, args, effect=Effect.WRITE)
    assert [one.written for one in subject.paths] == [tmp_path / name for name in list_paths(args)]


def test_tools_that_edit_ask_the_editor_for_what_is_not_saved() -> None:
    assert EDITING <= WORKING
