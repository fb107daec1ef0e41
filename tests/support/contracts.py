"""Regenerate what is shipped ready-made: `python -m tests.support.contracts`.

Writes `contracts.json`, which is declared to models, per tool the snapshot in `fixtures/tools/`
that makes a change of a schema or a description visible in review, the pages of help, the options
of `run` and of the session, the fields of facts in docs/reference/log.md, and the schema of
`--input stream-json`.
"""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from typer import Context
from typer.core import TyperGroup
from typer.main import get_command
from typer.models import TyperPath
from typer.testing import CliRunner

from agentcli.cli.help_pages import COLUMNS, build_page_name
from agentcli.cli.line import RUN, SESSION
from agentcli.cli.program import app
from agentcli.cli.run import app as run_app
from agentcli.tools.arguments import BuiltinArguments, build_schema
from agentcli.types.own_tools import OWN_TOOLS
from agentcli.ui.oneshot.stream_input import MESSAGES
from tests.support.log_page import write_fields_section

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "agentcli/tools/contracts.json"
OPTIONS = ROOT / "agentcli/cli/options.json"
HELP = ROOT / "agentcli/cli/help"
INPUT_SCHEMA = ROOT / "docs/reference/stream-json-input.schema.json"
SNAPSHOTS = ROOT / "fixtures/tools"
FEATURES = {
    "delegate": "features/children",
    "run_program": "features/programs",
    "symbols": "features/symbols",
    "web_fetch": "features/web",
    "ask_user": "features/ask_user",
    "computer": "features/computer",
    "recall": "features/recall",
    "web_search": "features/web",
}
"""Tools that belong to a feature, and its folder."""


def generated(name: str) -> dict[str, Any]:
    """A tool's contract from its sources: the `.md` and the argument model."""
    folder = FEATURES.get(name, "tools")
    description = (ROOT / f"agentcli/{folder}/{name}.md").read_text(encoding="utf-8").strip()
    module = import_module(f"agentcli.{folder.replace('/', '.')}.{name}")
    (arguments,) = (
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, BuiltinArguments)
        and value.__name__.endswith("Args")
    )
    return {"description": description, "schema": build_schema(arguments)}


def help_pages() -> dict[str, str]:
    """By file name, as the commands themselves tell it."""
    runner = CliRunner(env={"COLUMNS": str(COLUMNS)})
    return {
        build_page_name(path): runner.invoke(app, [*path, "--help"], prog_name="agentcli").output
        for path in _commands(get_command(app), ())
    }


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, TyperGroup):
        context = Context(command)
        for name in command.list_commands(context):
            yield from _commands(command.get_command(context, name), (*path, name))


def line_options() -> dict[str, Any]:
    """The options of the commands that are read without typer."""
    return {
        RUN: _describe_options(get_command(run_app)),
        SESSION: _describe_options(get_command(app)),
    }


def _describe_options(command: Any) -> dict[str, Any]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    texts = [one for one in options if not one.is_flag]
    return {
        "arguments": [one.name for one in arguments],
        "options": {
            **{
                name: [one.name, "many" if one.multiple else "one"]
                for one in texts
                for name in one.opts
            },
            **{
                name: [one.name, "flag", is_on]
                for one in options
                if one.is_flag
                for names, is_on in ((one.opts, True), (one.secondary_opts, False))
                for name in names
            },
        },
        "paths": [one.name for one in texts if isinstance(one.type, TyperPath)],
        "defaults": {
            one.name: str(one.default) if isinstance(one.default, Path) else one.default
            for one in command.params
        },
    }


def input_schema() -> dict[str, Any]:
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One line of the input of agentcli run --input stream-json",
    }
    return {**head, **MESSAGES.json_schema()}


def dumped(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write() -> None:
    contracts = {name: generated(name) for name in OWN_TOOLS if name != "apply_patch"}
    SHIPPED.write_text(dumped(contracts), encoding="utf-8")
    SNAPSHOTS.mkdir(parents=True, exist_ok=True)
    for name, contract in contracts.items():
        (SNAPSHOTS / f"{name}.json").write_text(dumped(contract), encoding="utf-8")
    for name, page in help_pages().items():
        (HELP / name).write_text(page, encoding="utf-8")
    OPTIONS.write_text(dumped(line_options()), encoding="utf-8")
    INPUT_SCHEMA.write_text(dumped(input_schema()), encoding="utf-8")
    write_fields_section()


if __name__ == "__main__":
    write()
