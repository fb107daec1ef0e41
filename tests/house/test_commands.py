import inspect
from importlib import import_module

import pytest
import typer

from agentcli.session.features import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_command_says_of_itself_what_the_table_says(name: str) -> None:
    found = COMMANDS[name]
    command = typer.main.get_command(getattr(import_module(found.module), found.app))
    assert inspect.cleandoc(command.help or "").splitlines()[0] == found.summary
