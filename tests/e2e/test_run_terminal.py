import re
from pathlib import Path

import pexpect
import pytest

from tests.support.program import PROGRAM, environment, script

REPLIES = [
    {
        "text": "Let me see.",
        "calls": [
            {"read_file": {"path": "a.txt"}},
            {"edit_file": {"path": "a.txt", "old_text": "two", "new_text": "2"}},
        ],
    },
    "# Title\n\nIt is **done**.\x1b]0;owned\x07\n",
]
CODES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    return tmp_path


def on_a_terminal(home: Path, *arguments: str, **env: str) -> tuple[int, str]:
    model = script(home / "s.json", REPLIES)
    child = pexpect.spawn(
        str(PROGRAM),
        ["run", "--mode", "auto", "--model", model, *arguments, "x"],
        cwd=str(home),
        env=environment(home, **{"TERM": "xterm-256color", **env}),
        dimensions=(30, 90),
        encoding="utf-8",
        timeout=60,
    )
    child.expect(pexpect.EOF)
    child.close()
    return int(child.exitstatus), str(child.before).replace("\r\n", "\n")


def test_terminal_shows_cards_and_rendered_markdown(home: Path) -> None:
    code, screen = on_a_terminal(home)
    text = CODES.sub("", screen)
    assert code == 0
    assert "✓ edit_file a.txt  +1 −1" in text
    assert "\x1b[1mdone\x1b[0m" in screen
    assert "**" not in screen
    assert "\x1b]0;" not in screen


def test_quiet_terminal_shows_the_answer_alone(home: Path) -> None:
    code, screen = on_a_terminal(home, "-q")
    assert (code, CODES.sub("", screen).split("\n")[0]) == (0, "Title")


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"CI": "true"}, {"ACCESSIBLE": "1"}])
def test_terminal_that_wants_none_gets_no_codes(env: dict[str, str], home: Path) -> None:
    code, screen = on_a_terminal(home, **env)
    assert code == 0
    assert "\x1b" not in screen
