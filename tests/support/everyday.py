"""The work of every day as rows: commands of real programs, and what each one needs."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support import certificates
from tests.support.accounts import Account
from tests.support.program import Ran, agentcli, read_facts, script
from tests.support.registries import (
    CODE,
    CRATES,
    GH_API,
    GO,
    NPM,
    PACKAGES,
    PASSWORD,
    USER,
    Registries,
)
from tests.support.serving import serve
from tests.support.ssh import run_agent, serve_ssh

OWN_PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of everyday work: its commands, and what the last shows when all has worked."""

    program: str
    commands: Sequence[str | Mapping[str, Any]]
    shows: str
    host: str = ""
    """The host that it needs, if any, with a port that is not usual."""
    files: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    """What else it needs, as a model asks for it: `credentials:git`, `outside`."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables of the user."""

    @property
    def name(self) -> str:
        return self.program.replace(" ", "-")

    @property
    def given(self) -> str:
        """The line of a rule that gives what it needs beside its host."""
        kind, _, name = self.needs.partition(":")
        return {"credentials": f'credentials = ["{name}"]', "outside": "outside = true"}[kind]

    @property
    def rule(self) -> str:
        """The rule that gives its program all that it needs."""
        # Outside the sandbox runs only what is named exactly.
        is_outside = self.needs == "outside"
        covered = self.commands[0] if is_outside else f"{self.program.split()[0]}:*"
        network = f'network = ["{self.host}"]\n' if self.host else ""
        named = json.dumps(f"bash({covered})")
        return f'[[rule]]\ndecision = "allow"\nrule = {named}\n{self.given}\n{network}'

    def list_needs(self) -> list[str]:
        """Return all that it needs, as a model asks for it."""
        return [*([f"network:{self.host}"] if self.host else []), self.needs]

    def get_shown_grant(self) -> str:
        """Return what the question says that the command gets."""
        _, _, name = self.needs.partition(":")
        network = f"network: {self.host}"
        return f"{network}, credentials: {name}" if name else "no sandbox: runs as you"

    def ask_after_it_failed(self) -> "Work":
        """Return the work of a model that tries its command first, and then asks for more."""
        command = self.commands[0]
        return replace(self, commands=[command, {"command": command, "needs": [self.needs]}])


@dataclass(frozen=True, slots=True)
class Person:
    """Whoever uses the program."""

    base: Path
    account: Account | None = None
    """None for the user who runs the tests."""

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def path(self) -> str:
        return self.account.path if self.account else OWN_PATH

    def has(self, work: Work) -> bool:
        return not self._list_missing(work)

    def prepare(self, work: Work) -> None:
        """Write the files of a piece of work. Skips the test where a program is missing."""
        if missing := self._list_missing(work):
            pytest.skip(f"not installed: {' '.join(missing)}")
        for name, text in work.files.items():
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            (self.project / name).write_text(text)
        self.own_all()

    def own_all(self) -> None:
        if self.account:
            self.account.own(self.base)

    def run(self, layer: str, work: Work, *options: str, registries: Registries) -> Ran:
        """Run a piece of work in a session of its own, as a build server does."""
        calls = [one if isinstance(one, Mapping) else {"command": one} for one in work.commands]
        replies = [*({"calls": [{"bash": one}]} for one in calls), "Done."]
        model = script(self.home / "script.json", replies)
        self.prepare(work)
        return agentcli(
            *("run", "-C", self.project, "--sandbox", layer, "--mode", "auto"),
            *("--model", model, *options, "x"),
            home=self.home,
            env={**registries.environment, **work.env, "PATH": self.path},
            account=self.account,
        )

    def read_result(self) -> str:
        """Return what the model was told in the latest session."""
        logs = self.home.glob(".local/state/agentcli/sessions/*/log.jsonl")
        log = max(logs, key=lambda path: path.stat().st_mtime_ns)
        facts = read_facts(log)
        results = [fact["result"] for fact in facts if fact["type"] == "call_finished"]
        return "\n".join(block["text"] for one in results for block in one["content"])

    def _list_missing(self, work: Work) -> list[str]:
        names = work.program.split()
        return [name for name in names if shutil.which(name, path=self.path) is None]


FETCH = f"curl -fsS --max-time 20 http://{PACKAGES}/simple/hello-agent/"
PIP = (
    "python3 -m venv --without-pip env"
    " && pip3 --python env install -q --disable-pip-version-check --retries 0"
    f" --index-url http://{PACKAGES}/simple --trusted-host {PACKAGES} hello-agent"
)
UV = f"uv pip install -q --target lib --default-index http://{PACKAGES}/simple hello-agent"
NODE = f"npm install --no-audit --no-fund --fetch-retries 0 --registry http://{NPM} hello-agent"
NPM_FILES = {
    "package.json": json.dumps({"scripts": {"test": "node check.js"}}),
    "check.js": "console.log(`tested ${require('hello-agent')}`)\n",
}
GO_FILES = {
    "go.mod": "module own\n\ngo 1.18\n\nrequire example.org/hello v1.0.0\n",
    "main.go": 'package main\nimport "example.org/hello"\nfunc main() { println(hello.Word) }\n',
}
GO_RUN = f"export GOPROXY=http://{GO} GONOSUMDB=* GOFLAGS=-mod=mod GOTOOLCHAIN=local; go run . 2>&1"
CARGO_FILES = {
    "Cargo.toml": '[package]\nname = "own"\nversion = "0.1.0"\nedition = "2021"\n'
    '[dependencies]\nhello-agent = "1"\n',
    "src/main.rs": 'fn main() { println!("{}", hello_agent::WORD) }\n',
    ".cargo/config.toml": '[source.crates-io]\nreplace-with = "own"\n[source.own]\n'
    f'registry = "sparse+http://{CRATES}/index/"\n[net]\nretry = 0\n',
}
SHOW = "cat lib/hello_agent.py"
FETCH_PAGE = f"fetch('http://{PACKAGES}/simple/hello-agent/').then(r => r.text()).then(console.log)"
NODE_FETCH = Work("node", [f'node -e "{FETCH_PAGE}"'], "hello_agent-1.0", PACKAGES)
FROM_HOSTS = (
    Work("curl", [FETCH], "hello_agent-1.0", PACKAGES),
    Work("python3 pip3", [f"{PIP}; env/bin/python -m hello_agent"], "installed and run", PACKAGES),
    Work("uv", [f"{UV} && {SHOW}"], 'WORD = "installed"', PACKAGES),
    Work("npm", [f"{NODE} && npm test"], "tested installed", NPM, NPM_FILES),
    Work("go", [GO_RUN], "go", GO, GO_FILES),
    Work("cargo cc", ["cargo run -q 2>&1"], "rust", CRATES, CARGO_FILES),
    Work("git", [f"git clone -q http://{CODE}/demo.git a && cat a/a.txt"], "first line", CODE),
)
HOOKS = """\
repos:
- repo: local
  hooks:
  - {id: look, name: look, language: system, entry: grep -n hello, files: c$}
"""
GIT_INIT = "git init -q . && git add -A"
CHROMIUM = "chromium --headless --no-sandbox --disable-gpu"
SERVER = {"command": "python3 -m http.server 8931 --bind 127.0.0.1", "background": True}
WAIT = "curl -sS --retry 50 --retry-connrefused --retry-delay 1 http://localhost:8931/page"
PAGE = "<p id=a></p><script>document.getElementById('a').textContent = 6 * 7</script>"
BROWSER = Work(
    "python3 curl chromium",
    [SERVER, f"{WAIT} -o got; {CHROMIUM} --dump-dom http://localhost:8931/page.html 2> errors"],
    '<p id="a">42</p>',
    files={"page": "the page\n", "page.html": PAGE},
)
ALONE = (
    Work(
        "make cc",
        ["make -s && ./hello"],
        "hello from C",
        files={
            "Makefile": "hello: hello.c\n\t$(CC) -o hello hello.c\n",
            "hello.c": '#include <stdio.h>\nint main(void) { puts("hello from C"); }\n',
        },
    ),
    Work(
        "pre-commit git",
        [f"{GIT_INIT} && pre-commit run --all-files --color never --verbose"],
        '1:puts("hello")',
        files={".pre-commit-config.yaml": HOOKS, "hello.c": 'puts("hello")\n'},
    ),
    Work(
        "bash",
        ['echo kept > "${TMPDIR:-/tmp}/note"', 'cat "$TMPDIR/note"'],
        "kept",
    ),
    Work("python3 curl", [SERVER, WAIT], "the page", files={"page": "the page\n"}),
    Work(
        "pytest",
        ["pytest -q -n 1"],
        "1 passed",
        files={
            "conftest.py": "pytest_plugins = ['plugin']\n",
            "plugin.py": "import pytest\n\n@pytest.fixture\ndef word():\n    return 'kept'\n",
            "test_word.py": "def test_word(word):\n    assert word == 'kept'\n",
        },
    ),
)


# Work that needs the user's identity, each with a server that knows the user


def _push(url: str) -> str:
    return f"git commit -q --allow-empty -m B && git push {url} HEAD:refs/heads/new"


def _use_git(person: Person) -> None:
    subprocess.run(["git", "init", "-q", person.project], check=True)
    (person.home / ".gitconfig").write_text(GIT_SETTINGS)


PUSHED = "HEAD -> new"
GIT_SETTINGS = "[user]\n\tname = A\n\temail = a@example.org\n[credential]\n\thelper = store\n"
TOKEN = "gh-token-4f1c9a77e2"


@contextmanager
def push_by_http(person: Person, registries: Registries) -> Iterator[Work]:
    """A user whose git keeps a password."""
    _use_git(person)
    (person.home / ".git-credentials").write_text(f"http://{USER}:{PASSWORD}@{CODE}\n")
    push = _push(f"http://{CODE}/demo.git")
    yield Work("git", [push], PUSHED, CODE, needs="credentials:git")


@contextmanager
def push_by_ssh(person: Person, registries: Registries) -> Iterator[Work]:
    """A user whose agent has a key that a server accepts."""
    with (
        TemporaryDirectory(prefix="agentcli-sshd-", dir="/var/tmp") as server_directory,
        run_agent(person.base / "agent", account=person.account) as agent,
        serve_ssh(Path(server_directory), authorized=agent.key) as server,
    ):
        repository = Path(server_directory, "demo.git")
        subprocess.run(["git", "init", "-q", "--bare", repository], check=True)
        (person.home / ".ssh").mkdir(mode=0o700, exist_ok=True)
        (person.home / ".ssh/known_hosts").write_text(server.known_hosts)
        _use_git(person)
        yield Work(
            "git ssh",
            [_push(server.url(repository))],
            PUSHED,
            f"localhost:{server.port}",
            needs="credentials:ssh-agent",
            env=agent.environment,
        )


@contextmanager
def ask_github(person: Person, registries: Registries) -> Iterator[Work]:
    """A user with a token of gh."""
    if shutil.which("openssl") is None:
        pytest.skip("not installed: openssl")
    certificate = certificates.made_in(person.project, GH_API)
    registries.tls = certificate.server_context()
    yield Work(
        "gh",
        ["gh api user --jq .login"],
        USER,
        GH_API,
        needs="credentials:gh",
        env={"GH_TOKEN": TOKEN, "SSL_CERT_FILE": str(certificate.path)},
    )


class _Daemon(ThreadingMixIn, UnixStreamServer):
    """A docker daemon that only knows its version."""

    daemon_threads = True


class _DaemonHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"Version": "99.1", "ApiVersion": "1.41"}'
        self.send_response(200)
        self.send_header("Api-Version", "1.41")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    do_HEAD = do_GET

    def address_string(self) -> str:
        return "a client"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def ask_docker(person: Person, registries: Registries) -> Iterator[Work]:
    """A user who may use the socket of a docker daemon, outside the workspace."""
    with TemporaryDirectory(prefix="agentcli-docker-", dir="/var/tmp") as directory:
        at = Path(directory, "docker.sock")
        with serve(_Daemon(str(at), _DaemonHandler)):
            for path, mode in ((at.parent, 0o755), (at, 0o666)):
                path.chmod(mode)
            line = f"docker -H unix://{at} version --format '{{{{.Server.Version}}}}'"
            yield Work("docker", [line], "99.1", needs="outside")


OpenWork = Callable[[Person, Registries], AbstractContextManager[Work]]
WITH_IDENTITY: tuple[OpenWork, ...] = (push_by_http, push_by_ssh, ask_github, ask_docker)
