import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest
import typer

from agentcli.session.features import COMMANDS
from agentcli.types.settings import Settings
from agentcli.ui.repl.commands.registry import ALIASES
from agentcli.ui.repl.commands.table import build_registry

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "session.md"


@pytest.mark.parametrize("name", COMMANDS)
def test_command_says_of_itself_what_the_table_says(name: str) -> None:
    found = COMMANDS[name]
    command = typer.main.get_command(getattr(import_module(found.module), found.app))
    assert inspect.cleandoc(command.help or "").splitlines()[0] == found.summary


def test_guide_lists_every_slash_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))  # no commands of the user's own
    section = GUIDE.read_text(encoding="utf-8").partition("## Commands")[2].partition("\nPut ")[0]
    known = {*build_registry(Settings(workspace=tmp_path)).commands, *ALIASES}
    assert known - ALIASES.keys() <= set(re.findall(r"`/([a-z-]+)", section)) <= known
