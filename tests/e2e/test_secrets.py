import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.confined import LAYERS
from tests.support.hidden import starred
from tests.support.mcp_links import NASTY
from tests.support.program import agentcli, environment, script, session_log, write_fork_command

SECRET = "opensesame-0123456789"
SHAPED = "ghp_" + "a1B2" * 9

PRINTING = (
    "printf opensesa; sleep 0.3; printf 'me-0123456789\\n';"
    "printf 'opens\\033[31mesame\\033[0m-0123456789\\n';"
    "printf 'o\\0p\\0e\\0n\\0s\\0e\\0s\\0a\\0m\\0e\\0-\\0001\\0002\\0003\\0004\\0005\\n';"
    'printf %s "$PASSED_TOKEN" | base64; printf %s "$PASSED_TOKEN" | xxd -p;'
    f"echo {SHAPED}; env; head -c 70000 /dev/zero | tr '\\0' x; echo; echo $PASSED_TOKEN"
)


def _holds(directory: Path, *texts: str) -> list[str]:
    return [
        str(path)
        for path in directory.rglob("*")
        if path.is_file() and any(text.encode() in path.read_bytes() for text in texts)
    ]


@pytest.mark.parametrize("layer", [*LAYERS, "off"])
@pytest.mark.parametrize("form", ["text", "stream-json"])
def test_secret_reaches_no_sink(layer: str, form: str, home: Path, workspace: Path) -> None:
    model = script(
        home.parent / "s.json",
        [
            {"text": f"I say {SECRET}", "calls": [{"bash": {"command": PRINTING}}]},
            {"calls": [{"bash": {"command": PRINTING, "background": True}}]},
            {"calls": [{"bash": {"command": "sleep 2"}}]},
            {"calls": [{"write_file": {"path": "key.txt", "content": f"key={SECRET}\n"}}]},
            {"calls": [{"read_file": {"path": "key.txt"}}, {"grep": {"pattern": "key"}}]},
            {"calls": [{"read_file": {"path": f"no/{SECRET}"}}]},
            f"The key is {SECRET}, or {SHAPED}.",
        ],
    )
    ran = agentcli(
        *("run", "-v", "-o", form, "-C", workspace, "--mode", "auto", "--sandbox", layer),
        *("--pass-env", "PASSED_TOKEN", "--model", model, f"use {SECRET}"),
        home=home,
        env={"PASSED_TOKEN": SECRET},
    )

    assert ran.code == 0
    assert (workspace / "key.txt").read_text() == f"key={SECRET}\n"
    encoded = ("b3BlbnNlc2FtZS0wMTIz", SECRET.encode().hex())
    assert [text for text in (SECRET, SHAPED, *encoded) if text in ran.out + ran.err] == []
    assert _holds(home, SECRET, SHAPED, *encoded) == []
    logs = list(home.rglob("out/*.log"))
    assert len(logs) >= 2
    assert "PASSED_TOKEN=***" in starred(logs[0].read_text(errors="replace"))


@pytest.mark.parametrize("layer", (*LAYERS, "off"))
def test_passed_variable_reaches_the_command_and_others_do_not(
    home: Path, workspace: Path, layer: str
) -> None:
    command = 'test ${#PASSED_TOKEN} = 21 && test -z "$OTHER_TOKEN$ANTHROPIC_API_KEY" && touch ok'
    model = script(home / "s.json", [{"calls": [{"bash": {"command": command}}]}, "ok"])
    ran = agentcli(
        *("run", "-C", workspace, "--mode", "auto", "--sandbox", layer, "--model", model),
        *("--pass-env", "PASSED_TOKEN", "x"),
        home=home,
        env={"PASSED_TOKEN": SECRET, "OTHER_TOKEN": "x" * 20, "ANTHROPIC_API_KEY": "y" * 20},
    )
    assert (ran.code, (workspace / "ok").exists()) == (0, True)


def test_masked_variables_are_chosen_by_name_or_glob(home: Path, workspace: Path) -> None:
    model = script(home / "s.json", ["plain-words and more-words and other-words"])
    ran = agentcli(
        *("run", "-C", workspace, "--model", model, "--mask", "PLAIN", "--mask", "MORE_*", "x"),
        home=home,
        env={"PLAIN": "plain-words", "MORE_1": "more-words", "OTHER": "other-words"},
    )
    assert starred(ran.out) == "*** and *** and other-words\n"


def test_password_in_an_address_of_the_environment_is_masked(home: Path, workspace: Path) -> None:
    model = script(home / "s.json", ["it is correct-horse"])
    ran = agentcli(
        *("run", "-C", workspace, "--model", model, "x"),
        home=home,
        env={"DATABASE_URL": "postgres://me:correct-horse@db/x"},
    )
    assert starred(ran.out) == "it is ***\n"


def test_model_gets_masked_text_and_its_own_words_as_they_were(home: Path, workspace: Path) -> None:
    (workspace / "a.txt").write_text(f"{SECRET}\n")
    model = script(
        home / "s.json", [{"text": SECRET, "calls": [{"read_file": {"path": "a.txt"}}]}, "ok"]
    )
    ran = agentcli(
        *("run", "-o", "stream-json", "-C", workspace, "--model", model, "x"),
        home=home,
        env={"MY_KEY": SECRET},
    )
    finished = [one for one in ran.events if one["type"] == "tool.finished"]
    assert SECRET not in json.dumps(finished)
    assert "«secret:" in finished[0]["model_text"]
    assert SECRET not in session_log(home).read_text()


def test_secret_in_the_name_of_a_changed_file_is_masked(home: Path, workspace: Path) -> None:
    write = {"write_file": {"path": f"{SECRET}.txt", "content": "a"}}
    command = {"bash": {"command": f"echo b > b-{SECRET}.txt"}}
    model = script(home.parent / "s.json", [{"calls": [write]}, {"calls": [command]}, "ok"])
    env = {"MY_KEY": SECRET}
    report = home.parent / "reports"
    ran = agentcli(
        *("run", "-o", "json", "-C", workspace, "--mode", "auto", "--model", model, "x"),
        *("--output-dir", report, "--report", "markdown,junit,sarif"),
        home=home,
        env=env,
    )
    changed = json.loads(ran.out)["files_changed"]
    assert [starred(one["path"]) for one in changed] == ["b-***.txt", "***.txt"]
    shown = [
        agentcli(*words, home=home, env=env, cwd=workspace)
        for words in (
            ("sessions", "show"),
            ("export", "-o", home.parent / "page.html"),
            ("undo", "--list"),
            ("undo", "--dry-run", "--turn", "1"),
            ("undo", "--turn", "1"),
        )
    ]
    assert [(one.code, SECRET in one.out + one.err) for one in shown] == [(0, False)] * len(shown)
    assert "***" in starred(shown[-1].out)
    assert list(workspace.iterdir()) == []
    assert _holds(report, SECRET) == _holds(home, SECRET) == []
    assert SECRET not in (home.parent / "page.html").read_text()


def test_long_result_of_a_server_is_stored_without_secrets_and_for_the_user_alone(
    home: Path, workspace: Path
) -> None:
    server = {"command": sys.executable, "args": [str(NASTY), "plain"]}
    servers = home.parent / "servers.json"
    servers.write_text(json.dumps({"mcpServers": {"nasty": server}}))
    text = "line of text\n" * 4000 + f"PASSED_TOKEN={SECRET}\n{SHAPED}\n"
    replies = [{"calls": [{"nasty__echo": {"text": text}}]}, "Done."]
    model = script(home.parent / "s.json", replies)
    ran = agentcli(
        *("run", "-C", workspace, "--mcp-config", servers, "--allow", "mcp(nasty:echo)"),
        *("--model", model, "go"),
        home=home,
        env={"PASSED_TOKEN": SECRET},
    )
    assert ran.code == 0, ran.err
    (stored,) = home.rglob("out/mcp-*.txt")
    assert "PASSED_TOKEN=«secret:" in stored.read_text()
    assert _holds(home, SECRET, SHAPED) == []
    files = [path for path in session_log(home).parent.rglob("*") if path.is_file()]
    assert {oct(path.stat().st_mode & 0o777) for path in files} == {"0o600"}


def test_secret_in_an_interrupted_reply_is_masked(home: Path, workspace: Path) -> None:
    command = f"echo {SECRET}; sleep 60"
    model = script(home / "s.json", [{"calls": [{"bash": {"command": command}}]}, "ok"])
    process = subprocess.Popen(
        [
            *(write_fork_command(), "run", "-o", "stream-json", "-C", str(workspace)),
            *("--mode", "auto", "--model", model, "x"),
        ],
        cwd=home,
        env=environment(home, MY_KEY=SECRET),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if '"tool.started"' in line:
            break
        assert SECRET not in line
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert SECRET not in out + err
    assert _holds(home / ".local", SECRET) == []
