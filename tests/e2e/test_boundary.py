import json
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.support.confined import LAYERS
from tests.support.program import Ran, agentcli, script, session_log
from tests.support.serving import serve


class Hello(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from outside")

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    with serve(HTTPServer(("127.0.0.1", 0), Hello)) as made:
        yield f"http://127.0.0.1:{made.server_port}/"


def run(home: Path, workspace: Path, calls: list[Any], *options: str | Path) -> Ran:
    model = script(home / "s.json", [*({"calls": [one]} for one in calls), "done"])
    return agentcli(
        *("run", "-o", "stream-json", "-C", workspace, "--model", model, *options, "x"), home=home
    )


def results(ran: Ran) -> list[str]:
    return [one["model_text"] for one in ran.events if one["type"] == "tool.finished"]


def bash(*commands: str) -> list[Any]:
    return [{"bash": {"command": command}} for command in commands]


def fetching(url: str) -> str:
    return f"python3 -c \"import urllib.request as u; print(u.urlopen('{url}').read())\""


@pytest.mark.parametrize("layer", LAYERS)
def test_network_and_directories_are_given_by_rule_to_that_command_alone(
    layer: str, home: Path, workspace: Path, server: str
) -> None:
    other = home.parent / "other"
    other.mkdir()
    (workspace / "fetch.sh").write_text(f"{fetching(server)}; touch {other}/made\n")
    rules = home / "policy.toml"
    rules.write_text(
        '[[rule]]\ndecision = "allow"\nrule = "bash(bash fetch.sh:*)"\n'
        f'network = true\nwritable = ["{other}"]\n'
    )
    commands = ("bash fetch.sh", "bash fetch.sh; bash other.sh", fetching(server))
    (workspace / "other.sh").write_text(f"{fetching(server)}; touch {other}/other\n")
    ran = run(
        *(home, workspace, bash(*commands), "--policy", rules, "--mode", "auto"),
        *("--sandbox", layer, "--allow", "bash(bash other.sh:*)"),
    )

    assert ["hello from outside" in text for text in results(ran)] == [True, False, False]
    assert [path.name for path in other.iterdir()] == ["made"]
    judged = [
        json.loads(line)["fact"]["verdict"].get("grants")
        for line in session_log(home).read_text().splitlines()
        if '"call_judged"' in line
    ]
    assert judged == [{"network": True, "writable": [str(other)]}, None, None]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("network = 1\n", "network must be true, false or a list of hosts"),
        ('writable = "x"\n', "writable must be a list"),
        ('writable = ["x"]\n', "must be an absolute path"),
        ('writable = ["/"]\n', "and not /"),
    ],
)
def test_rule_that_gives_nonsense_is_refused(
    extra: str, message: str, home: Path, workspace: Path
) -> None:
    rules = home / "policy.toml"
    rules.write_text(f'[[rule]]\ndecision = "allow"\nrule = "bash(make:*)"\n{extra}')
    ran = agentcli("policy", "explain", "-C", workspace, "--policy", rules, "bash: x", home=home)
    assert ran.code == 3
    assert f"{rules}:1" in ran.err
    assert message in ran.err


def test_without_any_layer_a_run_that_needs_one_ends_with_3(home: Path) -> None:
    ran = run(home, Path("/"), bash("ls"), "--mode", "auto", "--allow", "bash")
    assert ran.code == 3
    (refused,) = results(ran)
    assert refused == ran.events[-1]["error"]["message"]
    assert "No sandbox" in ran.events[-1]["error"]["message"] or "root directory" in str(ran.events)


def test_sandbox_that_is_off_is_told_and_recorded(home: Path, workspace: Path) -> None:
    ran = run(home, workspace, bash(f"touch {home}/outside"), "--sandbox", "off", "--mode", "auto")
    assert (home / "outside").exists()
    assert [one["code"] for one in ran.events if one["type"] == "warning"] == ["sandbox.off"]
    assert '"sandbox.off"' in session_log(home).read_text()
    model = script(home / "s.json", ["done"])
    plain = agentcli("run", "-C", workspace, "--model", model, "--sandbox", "off", "x", home=home)
    assert "the sandbox is off" in plain.err


def test_denied_file_is_not_found_by_searches(home: Path, workspace: Path) -> None:
    (workspace / ".env").write_text("needle=1\n")
    (workspace / "sub").mkdir()
    (workspace / "sub/.env.local").write_text("needle=2\n")
    (workspace / "a.py").write_text("needle = 3\n")
    calls = [
        {"grep": {"pattern": "needle"}},
        {"grep": {"pattern": "needle", "mode": "files"}},
        {"grep": {"pattern": "needle", "mode": "count", "path": "sub"}},
        {"find_files": {"glob": "**/.env*"}},
        {"read_file": {"path": ".env"}},
        {"grep": {"pattern": "needle", "path": ".env"}},
        {"bash": {"command": "cat .env"}},
    ]
    ran = run(home, workspace, calls, "--deny", "read(**/.env*)")
    told = results(ran)
    assert all("needle=" not in text for text in told)
    assert "a.py" in told[0]
    assert "sub/" not in "".join(told[:4])


def test_file_that_a_rule_asks_about_is_left_out_of_searches(home: Path, workspace: Path) -> None:
    (workspace / "keys").mkdir()
    (workspace / "keys/one").write_text("needle=1\n")
    (workspace / "a.py").write_text("needle = 3\n")
    rules = home / "policy.toml"
    rules.write_text('[[rule]]\ndecision = "ask"\nrule = "read(keys/**)"\n')
    calls = [
        {"grep": {"pattern": "needle"}},
        {"grep": {"pattern": "needle", "mode": "files"}},
        {"grep": {"pattern": "needle", "glob": "k*/*"}},
        {"find_files": {"glob": "**/one"}},
        {"find_files": {"glob": "keys/*"}},
        {"grep": {"pattern": "needle", "path": "keys"}},
        {"bash": {"command": "cat < keys/one"}},
        {"bash": {"command": "cat */one"}},
    ]
    told = results(run(home, workspace, calls, "--policy", rules))
    assert all("needle=" not in text and "one\n" not in text for text in told)
    assert "a.py" in told[0]
    assert all("[left out what rule ask read(keys/**) is about" in text for text in told[:5])
    assert all("requires approval" in text for text in told[5:])


def test_tools_write_nothing_that_git_or_mercurial_would_run(home: Path, workspace: Path) -> None:
    (workspace / ".husky").mkdir()
    (workspace / ".husky/pre-commit").write_text("true\n")
    (workspace / "shared.cfg").write_text("[core]\n")
    (workspace / "bare").mkdir()
    for name, value in (("core.hooksPath", ".husky"), ("include.path", "../shared.cfg")):
        subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
        subprocess.run(["git", "config", name, value], cwd=workspace, check=True)
    before = {path: path.read_bytes() for path in workspace.rglob("*") if path.is_file()}
    protected = (
        *(".husky/pre-commit", ".husky/new", "shared.cfg", ".hg/hgrc", "sub/.hg/hgrc-not-shared"),
        *("bare/objects/x", "bare/config", "bare/hooks/pre-receive", "bare/commondir"),
    )
    (workspace / "bare/HEAD").write_text("ref: refs/heads/main\n")
    (workspace / "bare/objects").mkdir()
    edits = ({"write_file": {"path": path, "content": "evil\n"}} for path in protected)
    reads = ({"read_file": {"path": path}} for path in (".husky/pre-commit", "shared.cfg"))
    free = ("hooks/a", "objects/b", "config", "src/HEAD", ".hg/store")
    others = ({"write_file": {"path": path, "content": "x\n"}} for path in free)
    calls = [*reads, *edits, *others]
    told = results(run(home, workspace, calls, "--mode", "auto", "--allow", "edit"))
    assert ["only a user can approve it" in text for text in told] == [
        *([False] * 2),
        *([True] * len(protected)),
        *([False] * len(free)),
    ]
    assert all(path.read_bytes() == content for path, content in before.items())
    assert all((workspace / path).exists() for path in free)


def test_directory_that_became_a_link_is_not_followed(home: Path, workspace: Path) -> None:
    outside = home.parent / "outside"
    outside.mkdir()
    commands = bash("mkdir sub; cd sub", f"rmdir ../sub; ln -s {outside} ../sub", "pwd; touch here")
    ran = run(home, workspace, commands, "--mode", "auto", "--sandbox", "off")
    assert list(outside.iterdir()) == []
    assert str(workspace) in results(ran)[-1]
