"""A server and an agent of ssh on loopback, with a key of their own each."""

import getpass
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.accounts import Account

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
_SEPARATION = Path("/run/sshd")


def _make_key(at: Path, comment: str) -> Path:
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", at], check=True
    )
    return at


@dataclass(frozen=True, slots=True)
class Agent:
    socket: Path
    key: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"SSH_AUTH_SOCK": str(self.socket)}

    def run(self, *argv: str | Path, through: Path | None = None) -> int:
        """Run a program of ssh with this agent, or with another socket. Return its exit code."""
        env = {**os.environ, "SSH_AUTH_SOCK": str(through or self.socket)}
        return subprocess.run(argv, env=env, capture_output=True, timeout=60).returncode


@contextmanager
def run_agent(directory: Path, *, account: Account | None = None) -> Iterator[Agent]:
    """Run an agent with one key, as another user if there is an account."""
    if shutil.which("ssh-agent") is None:
        pytest.skip("not installed: ssh-agent")
    directory.mkdir(parents=True, exist_ok=True)
    at = Path(os.path.relpath(directory / "a")) if len(str(directory)) > 90 else directory / "a"
    argv: tuple[str, ...] = ("ssh-agent", "-D", "-a", str(at))
    if account:
        account.own(directory)
        argv = account.become(*argv)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as agent:
        try:
            assert agent.stdout is not None
            agent.stdout.readline()  # it listens
            made = Agent(at, _make_key(directory / "key", "dev@laptop"))
            assert made.run("ssh-add", "-q", made.key) == 0
            yield made
        finally:
            agent.terminate()


@dataclass(frozen=True, slots=True)
class Server:
    port: int
    key: Path

    @property
    def known_hosts(self) -> str:
        """The line by which a user knows this server."""
        kind, blob = self.key.with_suffix(".pub").read_text().split()[:2]
        return f"[localhost]:{self.port} {kind} {blob}\n"

    def url(self, repository: Path) -> str:
        return f"ssh://{getpass.getuser()}@localhost:{self.port}{repository}"


@contextmanager
def serve_ssh(directory: Path, *, authorized: Path) -> Iterator[Server]:
    """Serve logins of our own user with a key. Skips the test where that cannot be."""
    if SSHD is None:
        pytest.skip("not installed: sshd")
    if os.geteuid() == 0:
        _SEPARATION.mkdir(exist_ok=True)  # it wants it, and its service would make it
    directory.mkdir(parents=True, exist_ok=True)
    key = _make_key(directory / "host", "server")
    allowed = directory / "authorized"
    allowed.write_text(authorized.with_suffix(".pub").read_text())
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    settings = (
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {key}",
        f"AuthorizedKeysFile {allowed}",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin yes",
        "StrictModes no",
        "UsePAM no",
        "PidFile none",
    )
    config = directory / "config"
    config.write_text("\n".join(settings) + "\n")
    with subprocess.Popen([SSHD, "-D", "-e", "-f", config], stderr=subprocess.PIPE) as server:
        try:
            assert server.stderr is not None
            first = server.stderr.readline().decode()
            if "listening" not in first:
                pytest.skip(f"sshd does not run here: {first.strip()}")
            yield Server(port, key)
        finally:
            server.terminate()
