import shlex
from pathlib import Path

import pytest

from agentcli.types.messages import Json
from tests.unit.permissions.court import court_of

CALLS: dict[str, tuple[str, dict[str, Json]]] = {
    "edit in the root": ("edit_file", {"path": "a.txt"}),
    "edit in a folder": ("edit_file", {"path": "src/a b.txt"}),
    "write": ("write_file", {"path": "new/x.py"}),
    "known tool": ("bash", {"command": "pytest -q tests"}),
    "subcommand": ("bash", {"command": "git commit -m 'a b'"}),
    "script": ("bash", {"command": "npm run build"}),
    "any program": ("bash", {"command": "./configure --prefix=/x"}),
    "two commands": ("bash", {"command": "make all && touch 'it works'"}),
    "what cannot be read off": ("bash", {"command": "echo $HOME > x"}),
    "tool of a server": ("mcp__x__create_issue", {"title": "t"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_remedy_of_a_denial_permits_the_call(name: str, tmp_path: Path) -> None:
    tool, given = CALLS[name]
    denied = court_of(tmp_path).hear(tool, **given)
    assert (denied.decision, denied.by) == ("deny", "nobody")
    words = shlex.split(denied.remedy)
    assert set(words[::2]) == {"--allow"}
    allowed = court_of(tmp_path, allow=tuple(words[1::2])).hear(tool, **given)
    assert (allowed.decision, allowed.by) == ("allow", "rule")


def test_question_that_a_rule_asks_has_no_remedy(tmp_path: Path) -> None:
    denied = court_of(tmp_path, ask=("bash(make:*)",)).hear("bash", command="make")
    assert (denied.by, denied.remedy) == ("nobody", "")
