from pathlib import Path

import pytest

from agentcli.system.temporary import TEMPORARY
from agentcli.tools.missing_grants import explain_failure
from agentcli.types.grants import NO_GRANTS, WITHOUT_SANDBOX, Grants

ROOT = Path("/workspace")

HOSTS = {
    "curl": "curl: (6) Could not resolve host: docs.example.org",
    "git": "fatal: unable to access 'https://x/': Could not resolve host: docs.example.org",
    "wget": "wget: unable to resolve host address ‘docs.example.org’",
    "node": "Error: getaddrinfo EAI_AGAIN docs.example.org",
    "npm": "npm error request to https://x failed: getaddrinfo ENOTFOUND docs.example.org",
    "go": "dial tcp: lookup docs.example.org on 127.0.0.1:53: connection refused",
    "pip": "HTTPSConnectionPool(host='docs.example.org', port=443): Max retries exceeded",
    "ssh": "ssh: Could not resolve hostname docs.example.org: Temporary failure in name resolution",
}


@pytest.mark.parametrize("program", HOSTS)
def test_unreached_host_is_named_with_how_to_ask(program: str) -> None:
    (note,) = explain_failure(HOSTS[program], grants=NO_GRANTS, workspace=ROOT)
    assert '"network:docs.example.org"' in note


def test_network_without_a_name_is_noted_too() -> None:
    text = "socket.gaierror: [Errno -3] Temporary failure in name resolution"
    (note,) = explain_failure(text, grants=NO_GRANTS, workspace=ROOT)
    assert '"network:HOST"' in note


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("touch: cannot touch '/usr/share/x': Read-only file system", "write:/usr/share"),
        ("OSError: [Errno 30] Read-only file system: '/usr/share/x'", "write:/usr/share"),
        ("bash: line 1: /usr/share/x: Permission denied", "write:/usr/share"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "outside"),
        ("Could not open a connection to your authentication agent.", "credentials:ssh-agent"),
        ("git@docs.example.org: Permission denied (publickey).", "credentials:ssh-agent"),
        ("fatal: could not read Username for 'https://x': No such device", "credentials:git"),
        ("To get started with GitHub CLI, please run:  gh auth login", "credentials:gh"),
        ("npm error code ENEEDAUTH", "credentials:npm"),
        ("E: Unable to acquire the dpkg frontend lock, are you root?", "outside"),
        ("Error: This command has to be run under the root user.", "outside"),
        ("bash: line 1: sudo: command not found", "outside"),
        ("sudo: effective uid is not 0, is sudo installed setuid root?", "outside"),
        ("System has not been booted with systemd as init system (PID 1).", "outside"),
        ("Failed to connect to bus: Host is down", "outside"),
        ("useradd: cannot lock /etc/passwd; try again later.", "outside"),
        ("strace: ptrace(PTRACE_TRACEME, ...): Operation not permitted", "outside"),
        ("warning: ptrace: Operation not permitted", "outside"),
        ("RTNETLINK answers: Operation not permitted", "outside"),
        ("chown: changing ownership of 'a': Invalid argument", "outside"),
        ('psql: error: connection to server on socket "/run/x/.s.PGSQL.5432" failed', "outside"),
        ("Can't connect to local MySQL server through socket '/run/mysqld.sock' (2)", "outside"),
        ("OSError: [Errno 97] Address family not supported by protocol", "outside"),
        ("curl: (7) Failed to connect to localhost port 80: Connection refused", "outside"),
        ("Error: connect ECONNREFUSED 127.0.0.1:5432", "outside"),
    ],
)
def test_what_is_closed_is_named_with_how_to_ask(text: str, entry: str) -> None:
    notes = explain_failure(text, grants=NO_GRANTS, workspace=ROOT)
    assert any(f'"{entry}"' in note for note in notes), notes


def test_hidden_home_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    text = "cat: /home/me/notes.txt: No such file or directory"
    (note,) = explain_failure(text, grants=NO_GRANTS, workspace=ROOT)
    assert '"read:/home/me/notes.txt"' in note


@pytest.mark.parametrize(
    "text",
    [
        "E   assert 1 == 2",
        "cat: /workspace/a: No such file or directory",
        "bash: line 1: ./tool.sh: Permission denied",
        "bash: line 1: ../x/tool.sh: Permission denied",
        "touch: cannot touch 'out/x': Read-only file system",
        "rm: cannot remove '/workspace/mnt': Device or resource busy",
        "cat: /nowhere: No such file or directory",
        "cat: /workspace/a: Permission denied",
    ],
)
def test_ordinary_failure_is_not_blamed_on_the_sandbox(text: str) -> None:
    assert explain_failure(text, grants=NO_GRANTS, workspace=ROOT) == ()


def test_protected_path_of_the_workspace_is_said_to_be_closed_for_good() -> None:
    text = "touch: cannot touch '/workspace/.git/hooks/x': Read-only file system"
    (note,) = explain_failure(text, grants=NO_GRANTS, workspace=ROOT)
    assert "nothing can grant that" in note


@pytest.mark.parametrize("why", ["Permission denied", "Read-only file system"])
def test_temporary_file_is_sent_where_commands_have_theirs(why: str) -> None:
    (note,) = explain_failure(f"bash: /tmp/x: {why}", grants=NO_GRANTS, workspace=ROOT)
    assert "go to $TMPDIR" in note


def test_repository_of_maven_can_be_in_the_home_of_commands() -> None:
    text = "[ERROR] Could not create local repository at /root/.m2/repository -> [Help 1]"
    (note,) = explain_failure(text, grants=NO_GRANTS, workspace=ROOT)
    assert "-Dmaven.repo.local=$HOME/.m2/repository" in note


def test_setting_of_git_that_cannot_be_stored_can_be_given_to_one_command() -> None:
    text = "error: could not write config file /workspace/.git/config: Device or resource busy"
    (note,) = explain_failure(text, grants=NO_GRANTS, workspace=ROOT)
    assert "git -c NAME=VALUE" in note


def test_what_was_granted_is_not_asked_for() -> None:
    text = "\n".join(HOSTS.values())
    assert explain_failure(text, grants=WITHOUT_SANDBOX, workspace=ROOT) == ()
    assert explain_failure(text, grants=Grants(network=True), workspace=ROOT) == ()
    denied = "touch: cannot touch '/srv/x': Permission denied"
    assert explain_failure(denied, grants=Grants(writable=(Path("/srv"),)), workspace=ROOT) == ()


def test_granted_host_that_a_program_reaches_for_without_the_proxy_is_not_asked_for_again() -> None:
    text = "TypeError: fetch failed: getaddrinfo EAI_AGAIN docs.example.org"
    (note,) = explain_failure(
        text, grants=Grants(hosts=("docs.example.org",)), workspace=Path("/w")
    )
    assert "is granted, but this program does not use the proxy" in note


def test_closed_temporary_directory_is_answered_by_where_to_write() -> None:
    text = "bash: /tmp/x: Permission denied"
    (note,) = explain_failure(text, grants=NO_GRANTS, workspace=Path("/w"))
    assert "$TMPDIR" in note


def test_what_only_the_user_has_in_tmp_is_asked_for(tmp_path: Path) -> None:
    if not any(map(tmp_path.is_relative_to, TEMPORARY)):
        pytest.skip("the temporary files of this test are elsewhere")
    (tmp_path / "report").touch()
    for name, entry in (("report", f"read:{tmp_path}/report"), ("new", f"write:{tmp_path}")):
        text = f"cat: {tmp_path}/{name}: No such file or directory"
        (note,) = explain_failure(text, grants=NO_GRANTS, workspace=Path("/w"))
        assert f'with needs: "{entry}"' in note
    assert (
        explain_failure(
            "cat: /tmp/no-such: No such file or directory", grants=NO_GRANTS, workspace=Path("/w")
        )
        == ()
    )
