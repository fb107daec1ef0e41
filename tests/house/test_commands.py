import inspect
from importlib import import_module

import pytest
import typer

from agentcli.cli.program import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_command_says_of_itself_what_the_table_says(name: str) -> None:
    module = import_module(f"agentcli.cli.{name}")
    command = typer.main.get_command(getattr(module, f"{name}_app", None) or module.app)
    assert inspect.cleandoc(command.help or "").splitlines()[0] == COMMANDS[name]
