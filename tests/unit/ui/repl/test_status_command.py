from pathlib import Path

import pytest

from agentcli.types.errors import SettingsError
from agentcli.ui.repl.status_command import LINE_CHARS, run_status_command


def test_first_line_is_shown_without_what_acts_on_a_terminal(tmp_path: Path) -> None:
    line = run_status_command("cat; printf '\\033[31m and\\nmore\\n'", tmp_path, b'{"a": 1}')
    assert line.startswith('{"a": 1}')
    assert "\x1b" not in line
    assert "more" not in line


def test_long_line_is_cut(tmp_path: Path) -> None:
    line = run_status_command("head -c 100000 /dev/zero | tr '\\0' x", tmp_path, b"")
    assert len(line) == LINE_CHARS


@pytest.mark.parametrize(
    ("command", "limit_s", "why"),
    [
        ("sleep 1000; true", 0.1, "did not end within 0.1 s"),
        ("exit 3", 60.0, "failed (exit code 3)"),
        ("no-such-program-here", 60.0, "failed (exit code 127)"),
    ],
)
def test_command_that_is_of_no_use_is_named(
    command: str, limit_s: float, why: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as refused:
        run_status_command(command, tmp_path, b"", limit_s=limit_s)
    assert why in str(refused.value)
