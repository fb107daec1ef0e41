import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.confined import LAYERS, confined
from tests.support.granted import GrantedRun, skip_without_hosts
from tests.support.registries import CODE, NPM, PACKAGES, PASSWORD, USER, Registries

PUSH = (
    f"git clone -q http://{CODE}/demo.git copy && cd copy && echo more > b.txt && git add b.txt"
    " && git -c user.name=A -c user.email=a@example.org commit -qm B"
    " && git push -q origin HEAD && echo pushed; code=$?; env; ls -A ~; exit $code"
)


def ask_for(host: str, scheme: str = "http") -> str:
    return f"printf 'protocol={scheme}\\nhost={host}\\n\\n' | git credential fill"


@pytest.fixture(params=LAYERS)
def layer(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if shutil.which("git") is None:
        pytest.skip("not installed: git")
    skip_without_hosts(str(request.param), tmp_path / "probe")
    return str(request.param)


@pytest.fixture
def passwords(home: Path) -> None:
    """Let the user keep passwords for git."""
    (home / ".gitconfig").write_text("[credential]\n\thelper = store\n")
    kept = "".join(f"http://{USER}:{PASSWORD}@{host}\n" for host in (CODE, PACKAGES))
    (home / ".git-credentials").write_text(kept)


@pytest.fixture
def runs(layer: str, home: Path, workspace: Path, registries: Registries) -> GrantedRun:
    return GrantedRun(layer=layer, home=home, workspace=workspace, env=registries.environment)


@pytest.mark.usefixtures("passwords")
def test_push_without_the_grant_fails_with_the_way_to_it(
    runs: GrantedRun, registries: Registries
) -> None:
    ran = runs.run(PUSH, f'network = ["{CODE}"]')
    said = ran.said
    assert "pushed" not in said
    assert '"credentials:git"' in said
    assert "AGENTCLI_GIT_CREDENTIAL" not in said
    assert ran.asked == []
    assert "authorization" not in {name for one in registries.asked for name in one.headers}


@pytest.mark.usefixtures("passwords")
def test_push_with_the_grant_uses_the_users_password_and_shows_it_nowhere(
    runs: GrantedRun,
) -> None:
    ran = runs.run(PUSH, f'network = ["{CODE}"]\ncredentials = ["git"]')
    said = ran.said
    assert "pushed" in said
    assert not ran.contains(PASSWORD)
    assert ".git-credentials" not in said
    assert ran.asked == [(f"{CODE}:80", True)]


@pytest.mark.usefixtures("passwords")
def test_password_is_given_for_reachable_hosts_alone_and_masked_in_the_output(
    runs: GrantedRun,
) -> None:
    requests = (ask_for(CODE), ask_for(PACKAGES), ask_for(f"{CODE}:8080"), ask_for(CODE, "ftp"))
    ran = runs.run("; ".join(requests), f'network = ["{CODE}"]\ncredentials = ["git"]')
    said = ran.said
    assert said.count("password=") == 1
    assert not ran.contains(PASSWORD)
    assert f"none for http://{PACKAGES}: this host is not granted" in said
    assert "only for https and http" in said
    assert ran.asked == [
        (f"{CODE}:80", True),
        (f"{PACKAGES}:80", False),
        (f"{CODE}:8080", False),
    ]


@pytest.mark.usefixtures("passwords")
@pytest.mark.parametrize("name", LAYERS)
def test_command_with_the_whole_network_gets_the_password_of_any_host(
    name: str, home: Path, workspace: Path, tmp_path: Path
) -> None:
    with confined(name, tmp_path / "probe"):
        pass  # skipped if this layer does not work here
    runs = GrantedRun(layer=name, home=home, workspace=workspace, env={})
    requests = f"{ask_for(PACKAGES)}; {ask_for('other.example.org')}"
    ran = runs.run(requests, 'network = true\ncredentials = ["git"]')
    said = ran.said
    assert said.count("password=") == 1
    assert "none for http://other.example.org: the user's git knows none without asking" in said
    assert ran.asked == [(f"{PACKAGES}:80", True), ("other.example.org:80", False)]


@pytest.mark.usefixtures("passwords")
def test_settings_of_the_repository_decide_nothing_about_the_helper_outside(
    runs: GrantedRun, home: Path, workspace: Path
) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (workspace / ".git/objects").mkdir()
    (workspace / ".git/refs").mkdir()
    escaped = home / "escaped"
    (workspace / ".git/config").write_text(f'[credential]\n\thelper = "!touch {escaped};:"\n')
    ran = runs.run(ask_for(CODE), f'network = ["{CODE}"]\ncredentials = ["git"]')
    assert ran.asked == [(f"{CODE}:80", True)]
    assert not escaped.exists()


GH_SECRET, NPM_SECRET, OTHER_SECRET = (f"{name}-token-4f1c9a77e2" for name in ("gh", "np", "ot"))
SHOW_TOKENS = (
    'for name in GH_TOKEN AGENTCLI_NPM_0 AGENTCLI_NPM_1; do echo "$name ${#name} ${!name}"; done;'
    ' cat "$NPM_CONFIG_USERCONFIG"; printf %s "$GH_TOKEN" > gh.txt'
    f"; npm config get --location=user //{NPM}/:_authToken 2>&1 | head -c 300"
    f"; npm view --registry http://{NPM} --fetch-retries 0 hello-agent version"
)


def test_tokens_of_gh_and_npm_are_in_the_granted_command_alone(
    runs: GrantedRun, home: Path, workspace: Path, registries: Registries
) -> None:
    if shutil.which("npm") is None:
        pytest.skip("not installed: npm")
    (home / ".npmrc").write_text(
        f"//{NPM}/:_authToken=${{NPM_OWN}}\n; a comment\n//{PACKAGES}/:_authToken={OTHER_SECRET}\n"
        f"@own:registry=http://{NPM}/\ninit-author-name=A\n"
    )
    env = {**registries.environment, "GH_TOKEN": GH_SECRET, "NPM_OWN": NPM_SECRET}
    rule = f'network = ["{NPM}"]\ncredentials = ["gh", "npm"]'
    ran = replace(runs, env=env).run(SHOW_TOKENS, rule)
    said = ran.said
    assert (workspace / "gh.txt").read_text() == GH_SECRET
    assert f"//{NPM}/:_authToken=${{AGENTCLI_NPM_0}}" in said
    assert f"@own:registry=http://{NPM}/" in said
    assert PACKAGES not in said
    assert not any(secret in said for secret in (GH_SECRET, NPM_SECRET, OTHER_SECRET))
    logins = [one.headers.get("authorization") for one in registries.asked if one.host == NPM]
    assert logins == [f"Bearer {NPM_SECRET}"]


def test_command_without_the_grant_has_no_tokens(
    runs: GrantedRun, home: Path, workspace: Path
) -> None:
    (home / ".npmrc").write_text(f"//{NPM}/:_authToken={NPM_SECRET}\n")
    granted = replace(runs, env={**runs.env, "GH_TOKEN": GH_SECRET})
    ran = granted.run("env; touch ran", f'network = ["{NPM}"]')
    assert (workspace / "ran").exists()
    assert not any(name in ran.said for name in ("GH_TOKEN", "NPM_CONFIG", "_NPM_"))
