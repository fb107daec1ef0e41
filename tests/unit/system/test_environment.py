import pytest

from agentcli.system.environment import build_child_environment

FIXED = {
    "TERM": "dumb",
    "NO_COLOR": "1",
    "COLUMNS": "120",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "CI": "1",
    "PYTHONUNBUFFERED": "1",
    "DEBIAN_FRONTEND": "noninteractive",
}


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize(
    ("terminal", "given"), [("40", "120"), ("80", "120"), ("120", "120"), ("200", "200")]
)
def test_commands_get_the_columns_of_a_wide_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: str, given: str
) -> None:
    monkeypatch.setenv("COLUMNS", terminal)
    assert build_child_environment({"COLUMNS": "77"})["COLUMNS"] == given
    assert build_child_environment({"COLUMNS": "60"}, passed=["COLUMNS"])["COLUMNS"] == "60"


def test_nobody_is_there_to_page_or_answer() -> None:
    base = {"PATH": "/bin", "TERM": "xterm", "PAGER": "less", "LANG": "de_DE.UTF-8"}
    assert build_child_environment(base) == FIXED | {"PATH": "/bin", "LANG": "de_DE.UTF-8"}


def test_locale_is_utf8_where_none_is_set() -> None:
    utf8 = {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    assert build_child_environment({}) == FIXED | utf8
    assert build_child_environment({"LANG": ""}) == FIXED | utf8
    assert build_child_environment({"LC_ALL": "C"}) == FIXED | {"LC_ALL": "C"}


def test_secrets_are_not_passed_on() -> None:
    base = {
        "ANTHROPIC_API_KEY": "x",
        "github_token": "x",
        "CLIENT_SECRET": "x",
        "PGPASSWORD": "x",
        "GOOGLE_APPLICATION_CREDENTIALS": "x",
        "LANG": "C",
    }
    assert build_child_environment(base) == FIXED | {"LANG": "C"}


def test_what_changes_bash_itself_is_not_passed_on() -> None:
    base = {
        "BASH_ENV": "/tmp/x",
        "ENV": "/tmp/x",
        "SHELLOPTS": "xtrace",
        "BASHOPTS": "extglob",
        "POSIXLY_CORRECT": "1",
        "CDPATH": "/",
        "BASH_FUNC_cd%%": "() { :; }",
        "ENVIRONMENT": "kept",
        "LANG": "C",
    }
    assert build_child_environment(base) == FIXED | {"ENVIRONMENT": "kept", "LANG": "C"}


def test_mark_is_added_to_those_of_the_agents_around() -> None:
    base = {"LANG": "C", "AGENTCLI_CALL": "outer.1."}
    assert build_child_environment(base, tag="inner.2.") == FIXED | {
        "LANG": "C",
        "AGENTCLI_CALL": "outer.1.inner.2.",
    }
