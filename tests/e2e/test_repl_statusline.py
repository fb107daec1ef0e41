from pathlib import Path

import pytest

from tests.support.processes import running, unique_seconds
from tests.support.repl import live, says


def write_setting(tmp_path: Path, command: str) -> None:
    settings = tmp_path / "home" / ".config" / "agentcli" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"statusline = '''{command}'''\n")


def test_own_status_is_in_the_toolbar_and_follows_the_session(tmp_path: Path) -> None:
    write_setting(tmp_path, """grep -o '"mode": "[a-z]*"'""")
    with live(tmp_path, [says("Hello.")], cols=120) as session:
        term = session.term
        term.wait('"mode": "ask"')
        term.key("s-tab", "s-tab")
        term.wait("auto ·")
        term.send("hi")
        term.wait('"mode": "auto"')


@pytest.mark.parametrize(
    ("command", "why"),
    [("exit 3", "failed (exit code 3)"), ("sleep {seconds} & wait", "did not end within 2 s")],
    ids=["fails", "hangs"],
)
def test_command_that_fails_is_said_once(command: str, why: str, tmp_path: Path) -> None:
    seconds = unique_seconds()
    write_setting(tmp_path, command.format(seconds=seconds))
    with live(tmp_path, [says("Hello.")], cols=120) as session:
        term = session.term
        term.wait(f"the statusline command {why}; it is not run again")
        term.send("hi")
        term.wait("Hello.")
        term.send("/keys")
        term.wait("Ctrl-Z")
        assert "\n".join(term.history()).count("statusline") == 1
        assert running(f"sleep {seconds}") == []
