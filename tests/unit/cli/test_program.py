import pytest

from agentcli.cli.program import run_command


@pytest.mark.parametrize(
    ("group", "commands"),
    [("sessions", "list, show, search, name, delete"), ("audit", "verify, head, sign")],
)
def test_group_without_a_command_names_its_commands(
    group: str, commands: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([group]) == 2
    assert capsys.readouterr().err == (
        f"error: choose one: {commands}\n  fix: agentcli {group} --help\n"
    )
