import pytest

from agentcli.ui.oneshot.request import has_ci_defaults, is_github


@pytest.mark.parametrize(
    ("said", "environ", "expected"),
    [
        (None, {"CI": "true"}, True),
        (None, {"CI": "1"}, True),
        (False, {"CI": "true"}, False),
        (True, {}, True),
        (None, {"CI": "false"}, True),
    ],
)
def test_ci_is_what_was_said_or_the_environment_or_no_terminal(
    said: bool | None, environ: dict[str, str], expected: bool
) -> None:
    # Tests have no terminal, so the environment alone cannot say no.
    assert has_ci_defaults(option=said, environ=environ) is expected


def test_github_is_known_by_its_variable() -> None:
    assert is_github({"GITHUB_ACTIONS": "true"})
    assert not is_github({"GITHUB_ACTIONS": "false"})
    assert not is_github({})
