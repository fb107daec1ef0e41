"""A command line of the program: run, and every error that a user can act on reported.

Typer takes as long to load and to read a line as a fifth of all that precedes the first request.
`run` and the session are therefore read here by a table of their options, which
`python -m tests.support.contracts` makes from the commands. Whatever the table does not know, and
whatever may be wrong, is left to typer, which reads the whole line. A test compares the two.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcli.types.errors import AgentError

WITH_JSON_RESULT = ("run", "review")
"""The commands where `-o json` asks for a result however it ends, even for a wrong command line."""
RUN, SESSION = "run", ""
_TABLE = Path(__file__).with_name("options.json")


def run_line(arguments: Sequence[str]) -> int:
    """Run one command line. Every error a user can act on becomes two lines and an exit code."""
    command = RUN if arguments[:1] == [RUN] else SESSION
    values = parse_line(command, arguments[1:] if command else arguments)
    try:
        if values is None or values.get("version"):
            from agentcli.cli.program import run_command

            return run_command(arguments)
        if command == RUN:
            return run_one_shot(values)
        from agentcli.cli.interactive import build_options, interact

        return interact(build_options(values))
    except AgentError as error:
        return report_error(error, arguments)


def run_one_shot(values: Mapping[str, Any]) -> int:
    """Run one task. `values` are those of the parameters of `agentcli.cli.run.run`, by name."""
    from agentcli.ui.oneshot.request import RunRequest
    from agentcli.ui.oneshot.runner import run_once

    if values["check_claims"]:
        sys.stderr.write(
            "warning: --check-claims was removed; check the result with --verify CMD\n"
        )
    workspace, worktree, quiet = values["workspace"], values["worktree"], values["quiet"]
    if worktree is None:
        return run_once(RunRequest.from_options(values))
    from agentcli.features.worktree.render import enter_and_say, say_kept

    workspace = enter_and_say(workspace or Path(), worktree, quiet=quiet)
    code = run_once(RunRequest.from_options({**values, "workspace": workspace}))
    say_kept(workspace, quiet=quiet)
    return code


def report_error(error: AgentError, arguments: Sequence[str]) -> int:
    """Print an error, also as a result where one is wanted. Return the exit code."""
    from agentcli.ui.oneshot.plain import print_error

    print_error(str(error), error.hint)
    if arguments and arguments[0] in WITH_JSON_RESULT:
        from agentcli.ui.oneshot.jsonl import write_refusal

        try:
            write_refusal(error.outcome, arguments)
        except AgentError as lost:
            return lost.exit_code
    return error.exit_code


def parse_line(command: str, words: Sequence[str]) -> dict[str, Any] | None:
    """Return the value of each parameter, or None if typer has to read the line."""
    table = json.loads(_TABLE.read_text(encoding="utf-8"))[command]
    values: dict[str, Any] = {}
    positional = iter(table["arguments"])
    rest = iter(words)
    for word in rest:
        if word == "-" or not word.startswith("-"):
            name = next(positional, None)
            if name is None:
                return None
            values[name] = word
        elif not _take_option(table["options"], word, rest=rest, values=values):
            return None
    return {
        name: _convert(values.get(name, default), is_path=name in table["paths"])
        for name, default in table["defaults"].items()
    }


def _take_option(
    options: Mapping[str, Sequence[Any]], word: str, *, rest: Any, values: dict[str, Any]
) -> bool:
    """Store an option with its value. Return False if it is not as plain as that."""
    key, is_joined, value = word.partition("=") if word.startswith("--") else (word, "", "")
    if key not in options:
        return False
    name, kind, *meant = options[key]
    if kind == "flag":
        values[name] = meant[0]
        return not is_joined
    if not is_joined:
        value = next(rest, "--")
        if value.startswith("-") and value != "-":
            return False
    if kind == "many":
        values.setdefault(name, []).append(value)
    else:
        values[name] = value
    return True


def _convert(value: Any, *, is_path: bool) -> Any:
    if not is_path or value is None:
        return value
    return [Path(one) for one in value] if isinstance(value, list) else Path(value)
