from pathlib import Path

from agentcli.settings import Settings
from agentcli.ui.repl.commands.all import make_registry
from agentcli.ui.repl.commands.registry import ELSEWHERE, Registry
from agentcli.ui.repl.desk import Desk, SlashCommand


async def nothing(desk: Desk, rest: str) -> None:
    """Does nothing."""


def registry() -> Registry:
    return Registry(
        [
            SlashCommand(name="model", usage="[NAME]", help="a", run=nothing),
            SlashCommand(
                name="mode",
                usage="[MODE]",
                help="b",
                run=nothing,
                complete=lambda desk: [("plan", "reads"), ("ask", "asks")],
            ),
            SlashCommand(name="mode", usage="", help="a second one", run=nothing),
        ]
    )


DESK: Desk = None  # type: ignore[assignment]


def test_menu_offers_what_fits_best_first() -> None:
    assert registry().offers("/mo", DESK) == [("/mode", "b", 3), ("/model", "a", 3)]
    assert registry().offers("/ml", DESK) == [("/model", "a", 3)]


def test_menu_completes_the_first_argument() -> None:
    assert registry().offers("/mode pl", DESK) == [("plan", "reads", 2)]
    assert registry().offers("/mode plan ", DESK) == []
    assert registry().offers("/model x", DESK) == []


def test_unknown_command_names_a_near_one() -> None:
    found = registry()
    assert found.why_not("/mode plan") == ""
    assert found.why_not("/modell") == "no command /modell: did you mean /model?"
    assert found.why_not("/zzz") == "no command /zzz: see /help"
    assert found.why_not("/usr/bin/x") == "a command is / and a name: /help lists them"


def test_every_command_has_a_line_of_help(tmp_path: object) -> None:
    found = make_registry(Settings(workspace=tmp_path)).commands.values()  # type: ignore[arg-type]
    assert [one.name for one in found if not one.help or len(one.help) > 60] == []


def test_words_of_other_programs_lead_to_ours(tmp_path: Path) -> None:
    every = make_registry(Settings(workspace=tmp_path))
    assert set(ELSEWHERE.values()) <= set(every.commands)
    assert not set(ELSEWHERE) & set(every.commands)
    assert every.why_not("/exit") == "no command /exit: did you mean /quit?"
