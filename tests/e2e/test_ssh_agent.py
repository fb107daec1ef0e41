import getpass
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from agentcli.sandbox.ssh_agent import NO_AGENT
from tests.support.confined import LAYERS
from tests.support.granted import GrantedRun, skip_without_hosts
from tests.support.ssh import Agent, Server, run_agent, serve_ssh

COMMIT = "git -c user.name=A -c user.email=a@example.org commit -qm B --allow-empty"


@dataclass(frozen=True, slots=True)
class Remote:
    agent: Agent
    server: Server
    repository: Path
    runs: GrantedRun

    @property
    def push(self) -> str:
        url = self.server.url(self.repository)
        return (
            f"git clone -q {url} copy && cd copy && {COMMIT} && git push -q origin HEAD:main"
            " && echo pushed"
        )

    @property
    def host(self) -> str:
        return f'network = ["localhost:{self.server.port}"]'

    @property
    def login(self) -> str:
        return f"log in as {getpass.getuser()} at localhost"


@pytest.fixture(params=LAYERS)
def remote(
    request: pytest.FixtureRequest, home: Path, workspace: Path, tmp_path: Path
) -> Iterator[Remote]:
    if shutil.which("git") is None:
        pytest.skip("not installed: git")
    layer: str = request.param
    skip_without_hosts(layer, tmp_path / "probe")
    repository = tmp_path / "demo.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", repository], check=True)
    with (
        run_agent(tmp_path / "agent") as agent,
        serve_ssh(tmp_path / "sshd", authorized=agent.key) as server,
    ):
        (home / ".ssh").mkdir(mode=0o700)
        (home / ".ssh/known_hosts").write_text(server.known_hosts)
        runs = GrantedRun(layer=layer, home=home, workspace=workspace, env=agent.environment)
        yield Remote(agent, server, repository, runs)


def list_commits(repository: Path) -> str:
    argv = ["git", "-C", str(repository), "log", "--oneline", "main"]
    return subprocess.run(argv, capture_output=True, text=True).stdout


def test_push_over_ssh_without_the_grant_fails_with_the_way_to_it(remote: Remote) -> None:
    ran = remote.runs.run(remote.push, remote.host)
    assert "pushed" not in ran.said
    assert '"credentials:ssh-agent"' in ran.said
    assert ran.signed == []
    assert list_commits(remote.repository) == ""


def test_push_over_ssh_with_the_grant_is_signed_by_the_users_agent_and_recorded(
    remote: Remote,
) -> None:
    show = f"{remote.push}; echo $SSH_AUTH_SOCK > socket; ls $(dirname $SSH_AUTH_SOCK)"
    ran = remote.runs.run(show, f'{remote.host}\ncredentials = ["ssh-agent"]')
    assert "pushed" in ran.said
    assert list_commits(remote.repository)
    assert set(ran.signed) == {(remote.login, "allow")}
    assert "dev@laptop" in ran.list_facts("signature_judged")[0]["key"]
    at = Path((remote.runs.workspace / "copy/socket").read_text().strip())
    assert at != remote.agent.socket
    assert not at.exists()
    assert not at.parent.exists()


def test_whole_network_is_used_without_the_proxy_and_any_known_server_is_expected(
    remote: Remote,
) -> None:
    ran = remote.runs.run(remote.push, 'network = true\ncredentials = ["ssh-agent"]')
    assert "pushed" in ran.said
    login = f"{remote.login.removesuffix('localhost')}[localhost]:{remote.server.port}"
    assert set(ran.signed) == {(login, "allow")}


def test_server_that_the_user_knows_by_another_name_gets_no_login_in_a_run(remote: Remote) -> None:
    known = remote.runs.home / ".ssh/known_hosts"
    written = remote.server.known_hosts.replace(f"[localhost]:{remote.server.port}", "code.example")
    known.write_text(written)
    ran = remote.runs.run(remote.push, f'{remote.host}\ncredentials = ["ssh-agent"]')
    assert "pushed" not in ran.said
    login = f"{remote.login.removesuffix('localhost')}code.example"
    assert set(ran.signed) == {(login, "deny")}
    assert f"the ssh agent did not {login}: only a user can approve" in ran.said


def test_server_with_another_key_than_the_user_knows_is_refused(
    remote: Remote, tmp_path: Path
) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "k"])
    other = Server(remote.server.port, tmp_path / "k")
    (remote.runs.home / ".ssh/known_hosts").write_text(other.known_hosts)
    ran = remote.runs.run(remote.push, f'{remote.host}\ncredentials = ["ssh-agent"]')
    assert "HOST IDENTIFICATION HAS CHANGED" in ran.said
    assert ran.signed == []


def test_unknown_server_is_accepted_and_named_as_such(remote: Remote) -> None:
    (remote.runs.home / ".ssh/known_hosts").unlink()
    ran = remote.runs.run(remote.push, f'{remote.host}\ncredentials = ["ssh-agent"]')
    assert "pushed" in ran.said
    ((purpose, decision), *_) = ran.signed
    assert "at an unknown server (SHA256:" in purpose
    assert decision == "allow"


def test_only_keys_are_listed_and_only_logins_are_signed_in_a_run(remote: Remote) -> None:
    tries = (
        "ssh-add -L > keys.pub && echo listed",
        "ssh-add -q -D && echo removed",
        "ssh-keygen -q -t ed25519 -N '' -f own && ssh-add -q own && echo added",
        "SSH_ASKPASS=/bin/true SSH_ASKPASS_REQUIRE=force ssh-add -q -x < /dev/null && echo locked",
        "echo x > data && ssh-keygen -q -Y sign -f keys.pub -n git data && echo signed",
    )
    ran = remote.runs.run("; ".join(tries), f'{remote.host}\ncredentials = ["ssh-agent"]')
    shown = set(ran.said.split("\n"))
    assert "listed" in shown
    assert shown.isdisjoint({"removed", "added", "locked", "signed"})
    assert ran.signed == [("sign data for git", "deny")]
    assert remote.agent.run("ssh-add", "-T", remote.agent.key.with_suffix(".pub")) == 0


def test_without_an_agent_the_command_runs_and_the_model_knows(remote: Remote) -> None:
    runs = replace(remote.runs, env={"SSH_AUTH_SOCK": "/nonexistent/agent"})
    ran = runs.run('echo "[$SSH_AUTH_SOCK]"; false', f'{remote.host}\ncredentials = ["ssh-agent"]')
    assert "[]" in ran.said
    assert NO_AGENT in ran.said


def test_another_command_does_not_reach_the_socket(remote: Remote) -> None:
    workspace = remote.runs.workspace
    (workspace / "tell.sh").write_text(
        "echo $SSH_AUTH_SOCK > new; mv new at; until [ -e seen ]; do sleep 0.02; done"
    )
    (workspace / "look.sh").write_text(
        "until [ -e at ]; do sleep 0.02; done; SSH_AUTH_SOCK=$(cat at) ssh-add -l; touch seen"
    )
    tell = {"bash": {"command": "sh tell.sh", "background": True}}
    look = {"bash": {"command": "sh look.sh"}}
    rule = 'decision = "allow"\nrule = "bash(sh tell.sh)"\ncredentials = ["ssh-agent"]'
    ran = remote.runs.run_calls([[tell], [look]], rule, "--mode", "auto")
    assert "Error connecting to agent" in ran.said
    assert (workspace / "at").read_text().strip()
