import pytest

from agentcli.ui.repl.branch import parsed


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (b"# branch.oid abc\n# branch.head main\n", "main"),
        (b"# branch.head main\n1 .M N... 100644 100644 100644 a b calc.py\n", "main*"),
        (b"# branch.head (detached)\n", "(detached)"),
        (b"", ""),
    ],
)
def test_branch_is_read_from_what_git_says(said: bytes, name: str) -> None:
    assert parsed(said) == name
