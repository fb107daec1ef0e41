"""Every command and option that a message names exists: the program's own parser takes it."""

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from agentcli.cli.program import app
from agentcli.session.features import COMMANDS
from agentcli.types.errors import AgentError
from agentcli.types.settings import Settings
from agentcli.ui.repl.commands.registry import ALIASES
from agentcli.ui.repl.commands.table import build_registry
from tests.support.sources import list_nodes, parse_program

HINTS = {"hint", "fix", "remedy"}
"""The arguments whose text tells a user what to do."""
VALUE = "7f3a"
"""The word in place of a value that is known only at run time."""
FOREIGN_OPTIONS = {"--address"}
"""Options of other programs that hints name: `ray start`."""
_COMMAND = re.compile(r"(?<![\w./-])agentcli (?=(-{0,2}[a-z][a-z-]*))")
_BEFORE = re.compile(r"(?:^|[:;|,`(] ?|\b(?:then|with|or|use|run) )$")
"""What stands before a command in a hint, and not before the name of the program in prose."""
_END = re.compile(r"[;,)`|…]|\.{3}|\. |\.$|: |\n|   ")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
_SLASH = re.compile(r"(?:^|(?<=[\s`(]))/([a-z-]+)(?![\w/.-])")


@cache
def _list_texts() -> tuple[tuple[str, str, bool], ...]:
    """Return where each text stands, the text, and whether it is a hint."""
    return tuple(_read_texts())


def _read_texts() -> Iterator[tuple[str, str, bool]]:
    for path, tree in parse_program().items():
        hints, parts = set(), set()
        for node in list_nodes(tree):
            if isinstance(node, ast.Expr):
                parts.add(id(node.value))  # a docstring
            if isinstance(node, ast.keyword) and node.arg in HINTS:
                hints |= {id(part) for part in ast.walk(node.value)}
            if isinstance(node, ast.JoinedStr):
                parts |= {id(part) for part in node.values}
        for node in list_nodes(tree):
            if isinstance(node, ast.expr) and id(node) not in parts and (text := _read_text(node)):
                yield f"{path}:{node.lineno}", text, id(node) in hints


def _read_text(node: ast.AST) -> str:
    match node:
        case ast.JoinedStr(values=values):
            return "".join(_read_text(value) for value in values)
        case ast.FormattedValue():
            return VALUE
        case ast.Constant(value=str(text)):
            return text
        case _:
            return ""


def _list_commands() -> Iterator[tuple[str, str]]:
    """Yield where a command is named, and the words after `agentcli`, with the prose behind it."""
    for where, text, is_hint in _list_texts():
        for found in _COMMAND.finditer(text):
            is_named = found[1] in COMMANDS or found[1].startswith("-")
            if is_named or (is_hint and _BEFORE.search(text[: found.start()])):
                yield where, _END.split(text[found.end() :])[0]


@cache
def _program() -> Any:
    return typer.main.get_command(app)


def _find_fault(words: list[str]) -> str:
    """Return why the program does not take these words; empty if it does."""
    command = _program()
    context = command.make_context("agentcli", list(words))
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return ""
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)
    return ""


def _explain(rest: str) -> str:
    """Return why a command does not work, however many words of prose follow it."""
    try:
        words = shlex.split(rest)
    except ValueError:
        words = rest.split()
    fault = ""
    while words:
        try:
            return _find_fault(words)
        except typer.Exit:
            return ""  # --help
        except (TyperException, AgentError) as error:
            fault = fault or getattr(error, "message", "") or str(error)
        if words.pop().startswith("-"):
            return fault
    return fault


def _list_options(command: Any) -> Iterator[str]:
    for option in command.params:
        yield from (*option.opts, *option.secondary_opts)
    if hasattr(command, "list_commands"):
        context = command.make_context("agentcli", [], resilient_parsing=True)
        for name in command.list_commands(context):
            yield from _list_options(command.get_command(context, name))


def test_every_option_in_a_hint_is_one_of_a_command() -> None:
    known = {*_list_options(_program()), "--help", *FOREIGN_OPTIONS}
    options = [
        (where, option)
        for where, text, is_hint in _list_texts()
        if is_hint and not text.startswith("/")
        for option in _OPTION.findall(text)
    ]
    assert len(options) > 40
    assert [(where, option) for where, option in options if option not in known] == []


def test_every_slash_command_in_a_hint_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))  # no commands of the user's own
    known = {*build_registry(Settings(workspace=tmp_path)).commands, *ALIASES}
    named = [
        (where, name)
        for where, text, is_hint in _list_texts()
        if is_hint
        for name in _SLASH.findall(text)
    ]
    assert len(named) > 10
    assert [(where, name) for where, name in named if name not in known] == []


def test_every_command_in_a_message_is_taken_by_the_program() -> None:
    commands = list(_list_commands())
    assert len(commands) > 80
    faults = {f"{where}: {rest}": fault for where, rest in commands if (fault := _explain(rest))}
    assert faults == {}


@pytest.mark.parametrize("rest", ["sesions list", "run --no-such-option", "sessions show --at 3"])
def test_command_that_does_not_exist_is_found(rest: str) -> None:
    assert _explain(rest)
