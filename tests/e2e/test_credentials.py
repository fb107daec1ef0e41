import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.confined import LAYERS, confined
from tests.support.program import agentcli, script
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
    name = str(request.param)
    if shutil.which("git") is None:
        pytest.skip("not installed: git")
    with confined(name, tmp_path / "probe") as made:
        listener = made.sandbox.listen()
        if listener is None:
            pytest.skip("without root, Landlock leaves no network at all: a named gap")
        listener.close()
    return name


@pytest.fixture
def person(home: Path) -> Path:
    """The home of a user who keeps passwords for git."""
    (home / ".gitconfig").write_text("[credential]\n\thelper = store\n")
    kept = "".join(f"http://{USER}:{PASSWORD}@{host}\n" for host in (CODE, PACKAGES))
    (home / ".git-credentials").write_text(kept)
    return home


def run_granted(
    command: str, rule: str, *, layer: str, home: Path, workspace: Path, env: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Run a command with what a rule for it gives. Return the facts of the session."""
    rules = home / ".config/agentcli/rules.toml"
    rules.parent.mkdir(parents=True, exist_ok=True)
    rules.write_text(f'[[rule]]\ndecision = "allow"\nrule = "bash"\n{rule}\n')
    model = script(home / "script.json", [{"calls": [{"bash": {"command": command}}]}, "Done."])
    ran = agentcli(
        *("run", "-C", workspace, "--sandbox", layer, "--model", model, "x"),
        home=home,
        env=dict(env),
    )
    assert ran.code == 0, ran.err
    (log,) = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    assert PASSWORD not in "".join(
        path.read_text(errors="replace") for path in log.parent.rglob("*") if path.is_file()
    )
    return [json.loads(line)["fact"] for line in log.read_text().splitlines()]


def read_result(facts: list[dict[str, Any]]) -> str:
    results = [fact["result"] for fact in facts if fact["type"] == "call_finished"]
    return "\n".join(block["text"] for one in results for block in one["content"])


def list_asked(facts: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Return for which hosts git wanted credentials, and whether it got them."""
    asked = [one for one in facts if one["type"] == "host_judged" and one.get("credential")]
    return [
        (f"{one['host']}:{one['port']}", one["verdict"]["decision"] == "allow") for one in asked
    ]


def test_push_without_the_grant_fails_with_the_way_to_it(
    layer: str, person: Path, workspace: Path, registries: Registries
) -> None:
    facts = run_granted(
        PUSH,
        f'network = ["{CODE}"]',
        layer=layer,
        home=person,
        workspace=workspace,
        env=registries.environment,
    )
    said = read_result(facts)
    assert "pushed" not in said
    assert '"credentials:git"' in said
    assert "AGENTCLI_GIT_CREDENTIAL" not in said
    assert list_asked(facts) == []
    assert "authorization" not in {name for one in registries.asked for name in one.headers}


def test_push_with_the_grant_uses_the_users_password_and_shows_it_nowhere(
    layer: str, person: Path, workspace: Path, registries: Registries
) -> None:
    facts = run_granted(
        PUSH,
        f'network = ["{CODE}"]\ncredentials = ["git"]',
        layer=layer,
        home=person,
        workspace=workspace,
        env=registries.environment,
    )
    said = read_result(facts)
    assert "pushed" in said
    assert PASSWORD not in said
    assert ".git-credentials" not in said
    assert list_asked(facts) == [(f"{CODE}:80", True)]


def test_password_is_given_for_reachable_hosts_alone_and_masked_in_the_output(
    layer: str, person: Path, workspace: Path, registries: Registries
) -> None:
    requests = (ask_for(CODE), ask_for(PACKAGES), ask_for(f"{CODE}:8080"), ask_for(CODE, "ftp"))
    facts = run_granted(
        "; ".join(requests),
        f'network = ["{CODE}"]\ncredentials = ["git"]',
        layer=layer,
        home=person,
        workspace=workspace,
        env=registries.environment,
    )
    said = read_result(facts)
    assert said.count("password=") == 1
    assert f"none for http://{PACKAGES}: this host is not granted" in said
    assert "only for https and http" in said
    assert list_asked(facts) == [
        (f"{CODE}:80", True),
        (f"{PACKAGES}:80", False),
        (f"{CODE}:8080", False),
    ]


@pytest.mark.parametrize("name", LAYERS)
def test_command_with_the_whole_network_gets_the_password_of_any_host(
    name: str, person: Path, workspace: Path, tmp_path: Path
) -> None:
    with confined(name, tmp_path / "probe"):
        pass  # skipped if this layer does not work here
    facts = run_granted(
        f"{ask_for(PACKAGES)}; {ask_for('other.example.org')}",
        'network = true\ncredentials = ["git"]',
        layer=name,
        home=person,
        workspace=workspace,
        env={},
    )
    said = read_result(facts)
    assert said.count("password=") == 1
    assert "none for http://other.example.org: the user's git knows none without asking" in said
    assert list_asked(facts) == [(f"{PACKAGES}:80", True), ("other.example.org:80", False)]


def test_settings_of_the_repository_decide_nothing_about_the_helper_outside(
    layer: str, person: Path, workspace: Path, registries: Registries
) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git/HEAD").write_text("ref: refs/heads/main\n")
    (workspace / ".git/objects").mkdir()
    (workspace / ".git/refs").mkdir()
    escaped = person / "escaped"
    (workspace / ".git/config").write_text(f'[credential]\n\thelper = "!touch {escaped};:"\n')
    facts = run_granted(
        ask_for(CODE),
        f'network = ["{CODE}"]\ncredentials = ["git"]',
        layer=layer,
        home=person,
        workspace=workspace,
        env=registries.environment,
    )
    assert list_asked(facts) == [(f"{CODE}:80", True)]
    assert not escaped.exists()


GH_SECRET, NPM_SECRET, OTHER_SECRET = (f"{name}-token-4f1c9a77e2" for name in ("gh", "np", "ot"))
SHOW_TOKENS = (
    'for name in GH_TOKEN AGENTCLI_NPM_0 AGENTCLI_NPM_1; do echo "$name ${#name} ${!name}"; done;'
    ' cat "$NPM_CONFIG_USERCONFIG"; printf %s "$GH_TOKEN" > gh.txt'
    f"; npm config get --location=user //{NPM}/:_authToken 2>&1 | head -c 300"
    f"; npm view --registry http://{NPM} --fetch-retries 0 hello-agent version"
)


def test_tokens_of_gh_and_npm_are_in_the_granted_command_alone(
    layer: str, home: Path, workspace: Path, registries: Registries
) -> None:
    if shutil.which("npm") is None:
        pytest.skip("not installed: npm")
    (home / ".npmrc").write_text(
        f"//{NPM}/:_authToken=${{NPM_OWN}}\n; a comment\n//{PACKAGES}/:_authToken={OTHER_SECRET}\n"
        f"@own:registry=http://{NPM}/\ninit-author-name=A\n"
    )
    env = {**registries.environment, "GH_TOKEN": GH_SECRET, "NPM_OWN": NPM_SECRET}
    facts = run_granted(
        SHOW_TOKENS,
        f'network = ["{NPM}"]\ncredentials = ["gh", "npm"]',
        layer=layer,
        home=home,
        workspace=workspace,
        env=env,
    )
    said = read_result(facts)
    assert (workspace / "gh.txt").read_text() == GH_SECRET
    assert f"//{NPM}/:_authToken=${{AGENTCLI_NPM_0}}" in said
    assert f"@own:registry=http://{NPM}/" in said
    assert PACKAGES not in said
    assert not any(secret in said for secret in (GH_SECRET, NPM_SECRET, OTHER_SECRET))
    logins = [one.headers.get("authorization") for one in registries.asked if one.host == NPM]
    assert logins == [f"Bearer {NPM_SECRET}"]


def test_command_without_the_grant_has_no_tokens(
    layer: str, home: Path, workspace: Path, registries: Registries
) -> None:
    (home / ".npmrc").write_text(f"//{NPM}/:_authToken={NPM_SECRET}\n")
    facts = run_granted(
        "env; touch ran",
        f'network = ["{NPM}"]',
        layer=layer,
        home=home,
        workspace=workspace,
        env={**registries.environment, "GH_TOKEN": GH_SECRET},
    )
    assert (workspace / "ran").exists()
    assert not any(name in read_result(facts) for name in ("GH_TOKEN", "NPM_CONFIG", "_NPM_"))
