import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.confined import LAYERS, confined
from tests.support.granted import skip_without_hosts
from tests.support.program import Ran, agentcli, script
from tests.support.registries import CODE, CRATES, GO, NPM, PACKAGES, Registries

NOBODY = 65534
PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
NO_CALLS = "this machine does not let us connect for commands: a named gap"


@dataclass(frozen=True, slots=True)
class Work:
    """A piece of everyday work: its commands, and what the last shows when all has worked."""

    program: str
    commands: Sequence[str | Mapping[str, Any]]
    shows: str
    host: str = ""
    """The host that it needs, if any."""
    files: Mapping[str, str] = field(default_factory=dict)

    def write_script(self, at: Path) -> str:
        """Return the model that does this work."""
        calls = [one if isinstance(one, Mapping) else {"command": one} for one in self.commands]
        return script(at, [*({"calls": [{"bash": one}]} for one in calls), "Done."])

    def prepare(self, workspace: Path, *, path: str | None = None) -> None:
        missing = [name for name in self.program.split() if shutil.which(name, path=path) is None]
        if missing:
            pytest.skip(f"not installed: {' '.join(missing)}")
        for name, text in self.files.items():
            (workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (workspace / name).write_text(text)


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


def name(work: Work) -> str:
    return work.program.replace(" ", "-")


def run_in(
    layer: str, work: Work, *options: str, home: Path, workspace: Path, registries: Registries
) -> Ran:
    work.prepare(workspace, path=PATH)
    return agentcli(
        *("run", "-C", workspace, "--sandbox", layer, "--mode", "auto"),
        *("--model", work.write_script(home / "script.json"), *options, "x"),
        home=home,
        env={**registries.environment, "PATH": PATH},
    )


def read_result(home: Path) -> str:
    """Return what the model was told in the latest session."""
    logs = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    log = max(logs, key=lambda path: path.stat().st_mtime_ns)
    facts = [json.loads(line)["fact"] for line in log.read_text().splitlines()]
    results = [fact["result"] for fact in facts if fact["type"] == "call_finished"]
    return "\n".join(block["text"] for one in results for block in one["content"])


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("work", FROM_HOSTS, ids=name)
def test_command_that_needs_a_host_is_refused_with_the_way_to_it_and_works_with_it(
    work: Work, layer: str, home: Path, workspace: Path, registries: Registries
) -> None:
    skip_without_hosts(layer, workspace.parent / "probe")
    ran = run_in(layer, work, home=home, workspace=workspace, registries=registries)
    told = read_result(home)
    assert f"{work.host}:80 was refused" in told
    assert f"the user can permit it with --network {work.host}" in told
    assert not registries.was_asked(work.host)
    assert ran.code == 5, ran.err
    assert f"fix: --network {work.host}" in ran.err
    ran = run_in(
        layer,
        work,
        *("--network", work.host),
        home=home,
        workspace=workspace,
        registries=registries,
    )
    assert work.shows in read_result(home)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("work", (*ALONE, BROWSER), ids=name)
def test_work_of_every_day_needs_no_grant(
    work: Work, layer: str, home: Path, workspace: Path, registries: Registries
) -> None:
    ran = run_in(layer, work, home=home, workspace=workspace, registries=registries)
    assert work.shows in read_result(home)
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("layer", LAYERS)
def test_fetch_of_node_uses_the_proxy_or_the_model_knows_that_it_does_not(
    layer: str, home: Path, workspace: Path, registries: Registries
) -> None:
    work = Work("node", [f'node -e "{FETCH_PAGE}"'], "hello_agent-1.0", PACKAGES)
    options = ("--network", PACKAGES)
    run_in(layer, work, *options, home=home, workspace=workspace, registries=registries)
    told = read_result(home)
    assert work.shows in told or f"[{PACKAGES} is granted, but this program does not use" in told


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


@pytest.fixture
def docker() -> Iterator[Path]:
    """The socket of a docker daemon, outside the workspace."""
    with TemporaryDirectory(prefix="agentcli-docker-", dir="/var/tmp") as directory:
        at = Path(directory, "docker.sock")
        with _Daemon(str(at), _DaemonHandler) as server:
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            yield at
            server.shutdown()


@pytest.mark.parametrize("layer", LAYERS)
def test_docker_is_not_reached_from_the_sandbox_and_is_outside(
    layer: str, docker: Path, home: Path, workspace: Path, registries: Registries
) -> None:
    line = f"docker -H unix://{docker} version --format '{{{{.Server.Version}}}}'"
    work = Work("docker", [line], "99.1")
    run_in(layer, work, home=home, workspace=workspace, registries=registries)
    told = read_result(home)
    assert work.shows not in told
    assert 'with needs: "outside"' in told
    rules = home / "rules.toml"
    rules.write_text(
        f"[[rule]]\ndecision = 'allow'\nrule = {json.dumps(f'bash({line})')}\noutside = true\n"
    )
    options = ("--policy", str(rules))
    ran = run_in(layer, work, *options, home=home, workspace=workspace, registries=registries)
    assert work.shows in read_result(home), ran.err


def find_python(home: Path) -> str | None:
    """Return an interpreter that everybody may run, and that finds the program."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        check = "import sys; assert sys.version_info >= (3, 11); import agentcli, pydantic, rich"
        if run_as_nobody(home, python, "-c", check).returncode == 0:
            return python
    return None


def run_as_nobody(
    home: Path, *argv: str | Path, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    root, packages = Path(__file__).parents[2], Path(pytest.__file__).parent.parent
    user = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    return subprocess.run(
        ["setpriv", *user, *argv],
        cwd=home,
        env={
            "HOME": str(home),
            "PATH": SYSTEM_PATH,
            "PYTHONPATH": f"{root}:{packages}",
            "PYTHONDONTWRITEBYTECODE": "1",
            **(env or {}),
        },
        capture_output=True,
        text=True,
    )


@pytest.fixture
def nobody() -> Iterator[Path]:
    """The home of an ordinary user, with a workspace in it."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root, with setpriv, can become another user")
    with TemporaryDirectory(prefix="agentcli-test-", dir="/var/tmp") as directory:
        home = Path(directory)
        (home / "work").mkdir()
        for path in (home, home / "work"):
            os.chown(path, NOBODY, NOBODY)
        yield home


@dataclass(frozen=True, slots=True)
class OrdinaryUser:
    """Somebody who is not root."""

    home: Path
    python: str
    registries: Registries

    @property
    def workspace(self) -> Path:
        return self.home / "work"

    def run(self, layer: str, work: Work, *options: str) -> "subprocess.CompletedProcess[str]":
        work.prepare(self.workspace, path=SYSTEM_PATH)
        for path in self.workspace.rglob("*"):
            os.chown(path, NOBODY, NOBODY)
        run_as = (self.python, "-m", "agentcli", "run", "-C", self.workspace)
        return run_as_nobody(
            self.home,
            *(*run_as, "--sandbox", layer, "--mode", "auto"),
            *("--model", work.write_script(self.home / "script.json"), *options, "x"),
            env=self.registries.environment,
        )


@pytest.fixture
def user(nobody: Path, registries: Registries) -> OrdinaryUser:
    python = find_python(nobody)
    if python is None:
        pytest.skip("no Python that another user could run the program with")
    return OrdinaryUser(nobody, python, registries)


ROWS = (
    *(("landlock", work) for work in (*FROM_HOSTS, *ALONE, BROWSER)),
    *(("bubblewrap", work) for work in (FROM_HOSTS[0], ALONE[0], ALONE[2])),
)


@pytest.mark.parametrize(
    ("layer", "work"), [pytest.param(*row, id=f"{name(row[1])}-{row[0]}") for row in ROWS]
)
def test_ordinary_user_does_the_same_work(
    work: Work, layer: str, user: OrdinaryUser, tmp_path: Path
) -> None:
    with confined(layer, tmp_path / "probe"):
        pass  # skipped if this layer does not work here
    network = ("--network", work.host) if work.host else ()
    ran = user.run(layer, work, *network)
    told = read_result(user.home)
    if "hosts cannot be granted one by one in this sandbox" in told:
        pytest.skip(NO_CALLS)
    if "No module named" in told or "ensurepip is not available" in told:
        pytest.skip("the system's Python has no venv or pip")
    assert work.shows in told, ran.stderr


@pytest.mark.parametrize("layer", LAYERS)
def test_ordinary_user_is_told_how_to_grant_a_host(
    layer: str, user: OrdinaryUser, tmp_path: Path
) -> None:
    with confined(layer, tmp_path / "probe"):
        pass  # skipped if this layer does not work here
    ran = user.run(layer, FROM_HOSTS[0])
    told = read_result(user.home)
    if "refused" not in told:
        pytest.skip(NO_CALLS)
    assert f"the user can permit it with --network {PACKAGES}" in told
    assert (ran.returncode, user.registries.was_asked(PACKAGES)) == (5, False)
    assert f"fix: --network {PACKAGES}" in ran.stderr
