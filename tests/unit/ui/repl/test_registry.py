import asyncio
import subprocess
import sys
from importlib import import_module
from inspect import iscoroutinefunction
from pathlib import Path

import pytest

from agentcli.session.features import SLASH_COMMANDS
from agentcli.types.settings import Settings
from agentcli.ui.repl.commands.registry import (
    ALIASES,
    CommandHost,
    CommandRegistry,
    SlashCommand,
    is_slash_command,
)
from agentcli.ui.repl.commands.table import build_registry
from tests.support.program import environment


async def nothing(desk: CommandHost, rest: str) -> None:
    """Does nothing."""


def registry() -> CommandRegistry:
    return CommandRegistry(
        [
            SlashCommand(name="model", usage="[NAME]", help="a", run=nothing),
            SlashCommand(
                name="mode",
                usage="[MODE]",
                help="b",
                run=nothing,
                list_arguments=lambda desk: [("plan", "reads"), ("ask", "asks")],
            ),
            SlashCommand(name="mode", usage="", help="a second one", run=nothing),
        ]
    )


DESK: CommandHost = None  # type: ignore[assignment]


def test_menu_offers_what_fits_best_first() -> None:
    assert registry().list_completions("/mo", DESK) == [("/mode", "b", 3), ("/model", "a", 3)]
    assert registry().list_completions("/ml", DESK) == [("/model", "a", 3)]


def test_menu_completes_the_first_argument() -> None:
    assert registry().list_completions("/mode pl", DESK) == [("plan", "reads", 2)]
    assert registry().list_completions("/mode plan ", DESK) == []
    assert registry().list_completions("/model x", DESK) == []


def test_unknown_command_names_a_near_one() -> None:
    found = registry()
    assert found.find_fault("/mode plan") == ""
    assert found.find_fault("/modell") == "no command /modell: did you mean /model?"
    assert found.find_fault("/statsu") == "no command /statsu: did you mean /status?"
    assert found.find_fault("/zebra") == "no command /zebra: see /help"
    assert found.find_fault("/zzz") == "no command /zzz: see /help"
    assert found.find_fault("/usr/bin/x") == "a command is / and a name: /help lists them"


@pytest.mark.parametrize("text", ["/mode", "/model a/b", "/review src/a.py", "/", "/\n", "/tmp"])
def test_slash_and_a_name_is_a_command(text: str) -> None:
    assert is_slash_command(text)


@pytest.mark.parametrize("text", ["/tmp/calc.py what is it?", "/a/my\\ file", "//", "mode", ""])
def test_path_of_a_file_is_no_command(text: str) -> None:
    assert not is_slash_command(text)


class Failing:
    """As much of a desk as a command that breaks needs."""

    def __init__(self) -> None:
        self.failed: list[tuple[str, str]] = []

    def fail(self, message: str, hint: str) -> None:
        self.failed.append((message, hint))


def test_command_that_breaks_is_reported_and_leaves_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def broken(desk: CommandHost, rest: str) -> None:
        raise ZeroDivisionError("of all things")

    desk = Failing()
    commands = CommandRegistry([SlashCommand(name="odd", usage="", help="a", run=broken)])
    asyncio.run(commands.run("/odd", desk))  # type: ignore[arg-type]
    (crash,) = tmp_path.iterdir()
    assert desk.failed == [
        ("internal error: ZeroDivisionError: of all things", f"report it and attach {crash}")
    ]
    assert "in broken" in crash.read_text()


def test_every_command_has_a_line_of_help(tmp_path: object) -> None:
    found = build_registry(Settings(workspace=tmp_path)).commands.values()  # type: ignore[arg-type]
    assert [one.name for one in found if not one.help or len(one.help) > 60] == []


@pytest.mark.parametrize("name", SLASH_COMMANDS)
def test_every_command_of_a_feature_is_where_the_table_says(name: str) -> None:
    entry = SLASH_COMMANDS[name]
    module = import_module(entry.module)
    words = name.replace("-", "_")
    assert iscoroutinefunction(getattr(module, f"run_{words}"))
    assert hasattr(module, f"list_{words}_arguments") is entry.lists_arguments


LOADED_FEATURES = """
import sys
from pathlib import Path
from agentcli.settings import Settings
from agentcli.ui.repl.commands.table import build_registry
build_registry(Settings(workspace=Path()))
print([name for name in sys.modules if name.startswith("agentcli.features")])
"""


def test_menu_needs_no_feature(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", LOADED_FEATURES],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        check=True,
    )
    assert ran.stdout == "[]\n"


def test_words_of_other_programs_lead_to_ours(tmp_path: Path) -> None:
    every = build_registry(Settings(workspace=tmp_path))
    assert set(ALIASES.values()) <= set(every.commands)
    assert not set(ALIASES) & set(every.commands)
    assert every.find_fault("/exit") == ""
    assert every.works_alone("/exit")


@pytest.mark.parametrize("text", ["?", "help", " Help "])
def test_bare_word_for_help_is_a_command(text: str, tmp_path: Path) -> None:
    every = build_registry(Settings(workspace=tmp_path))
    assert is_slash_command(text)
    assert every.find_fault(text) == ""
    assert every.works_alone(text)
