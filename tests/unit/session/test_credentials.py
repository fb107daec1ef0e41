import asyncio
from pathlib import Path

import pytest

from agentcli.session.credentials import UserCredentials, find_gh_token
from agentcli.system.own_process import find_program
from agentcli.types.events import Event, Warned
from agentcli.types.grants import Grants

TOKEN = "gho_4f1c9a77e2b35d"


def build(tmp_path: Path, told: list[Event], concealed: list[str]) -> UserCredentials:
    return UserCredentials(
        workspace=tmp_path, directory=tmp_path, emit=told.append, conceal=concealed.append
    )


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("GH_TOKEN", "GITHUB_TOKEN", "NPM_CONFIG_USERCONFIG"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return home


def test_token_is_what_the_users_own_gh_prints(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    for place, token in ((project, "of-the-project"), (user, TOKEN)):
        program = place / "bin/gh"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\n[ "$*" = "auth token" ] && echo {token}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{project}/bin:{user}/bin:/usr/bin:/bin")
    if find_program("gh", workspace=project) != str(user / "bin/gh"):
        pytest.skip("the system has a gh of its own")
    assert find_gh_token(project) == TOKEN


def test_variable_of_the_user_comes_first(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    concealed: list[str] = []
    given = asyncio.run(build(tmp_path, [], concealed).build_variables(Grants(credentials=("gh",))))
    assert (given, concealed) == ({"GH_TOKEN": TOKEN}, [TOKEN])


def test_user_without_logins_is_told(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    if find_program("gh", workspace=tmp_path):
        pytest.skip("the system has a gh of its own")
    told: list[Event] = []
    grants = Grants(network=True, credentials=("git", "gh", "npm"))
    given = asyncio.run(build(tmp_path, told, []).build_variables(grants))
    assert list(given) == ["NPM_CONFIG_USERCONFIG"]
    codes = [one.code for one in told if isinstance(one, Warned)]
    assert codes == ["credentials.gh", "credentials.npm"]


@pytest.mark.parametrize(
    ("line", "hosts", "is_given"),
    [
        ("//npm.example.org/:_authToken=abcdefgh1", ("npm.example.org",), True),
        ("//npm.example.org/team/:_authToken = 'abcdefgh1'", ("*.example.org",), True),
        ("//npm.example.org:4873/:_auth=abcdefgh1", ("npm.example.org:4873",), True),
        ("//npm.example.org:4873/:_auth=abcdefgh1", ("npm.example.org",), False),
        ("//npm.example.org/:_password=abcdefgh1", ("other.example.org",), False),
        ("//0x7f000001/:_authToken=abcdefgh1", ("npm.example.org",), False),
        ("_authToken=abcdefgh1", ("npm.example.org",), False),
        ("; //npm.example.org/:_authToken=abcdefgh1", ("npm.example.org",), False),
    ],
)
def test_login_of_npm_is_given_for_granted_hosts_and_never_in_the_file(
    line: str, hosts: tuple[str, ...], is_given: bool, user: Path, tmp_path: Path
) -> None:
    (user / ".npmrc").write_text(f"{line}\nregistry=https://npm.example.org/\n")
    concealed: list[str] = []
    grants = Grants(hosts=hosts, credentials=("npm",))
    given = asyncio.run(build(tmp_path, [], concealed).build_variables(grants))
    assert given.get("AGENTCLI_NPM_0") == ("abcdefgh1" if is_given else None)
    assert concealed == ["abcdefgh1"] * is_given
    text = Path(given["NPM_CONFIG_USERCONFIG"]).read_text()
    assert "abcdefgh1" not in text
    assert text.endswith("registry=https://npm.example.org/\n")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("protocol=ssh\nhost=a.example", "only for https and http"),
        ("protocol=https\nhost=a.example\nusername=a\rhost=b", "control character"),
        ("protocol=https\nhost=0x7f000001", "four decimal numbers"),
        ("protocol=https\nhost=a.example/b", "not the name of a host"),
        ("", "only for https and http"),
    ],
)
def test_request_of_git_that_is_not_understood_runs_nothing(
    asked: str, reason: str, tmp_path: Path
) -> None:
    async def may_reach(host: str, port: int) -> bool:
        raise AssertionError("it was judged")

    broker = build(tmp_path, [], [])
    with pytest.raises(ValueError, match=reason):
        asyncio.run(broker.answer_git("c", asked, may_reach))
