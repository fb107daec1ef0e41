import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.program import (
    PROGRAM,
    agentcli,
    environment,
    script,
    session_log,
    write_fork_command,
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--on-deny", "perhaps"], "--on-deny cannot be 'perhaps'"),
        (["--continue", "--resume", "x"], "--continue and --resume cannot be used together"),
        (["--no-such-option"], "No such option: --no-such-option"),
        (["--max-cost"], "Option '--max-cost' requires an argument."),
    ],
)
@pytest.mark.parametrize("form", [["-o", "json"], ["-ostream-json"], ["--output=json"]])
def test_command_line_that_is_wrong_has_a_result_too(
    tmp_path: Path, form: list[str], arguments: list[str], message: str
) -> None:
    ran = agentcli("run", *form, "go", *arguments, home=tmp_path)
    (result,) = ran.events
    assert ran.code == result["exit_code"] == 2
    assert result["error"]["message"].startswith(message)
    assert ran.err.startswith(f"error: {message}")
    assert "  fix: " in ran.err


def test_missing_value_names_the_help_of_the_command(tmp_path: Path) -> None:
    assert "  fix: agentcli run --help\n" in agentcli("run", "x", "--max-cost", home=tmp_path).err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run", ["go", "--max-cost", "0"]),
        ("batch", ["tasks.jsonl", "--max-cost", "0"]),
        ("eval", ["basics", "--max-cost", "0"]),
        ("review", ["--max-cost", "0"]),
        ("doctor", ["--sandbox", "none"]),
        ("doctor", ["--project", "--sandbox", "none"]),
        ("policy explain", ["bash", "--mode", "none"]),
        ("policy test", ["--mode", "none"]),
        ("prompt", ["--mode", "none"]),
        ("mcp serve", ["--mode", "none"]),
    ],
)
def test_wrong_value_names_the_help_of_the_command(
    command: str, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"prompt": "go"}\n')
    ran = agentcli(*command.split(), *words, home=tmp_path)
    assert (ran.code, ran.err.count(f"{words[-2]} must be ")) == (2, 1)
    assert ran.err.endswith(f"  fix: {' '.join(['agentcli', *command.split()])} --help\n")


def test_workspace_whose_path_is_not_utf8_is_refused_before_anything_is_recorded(
    tmp_path: Path,
) -> None:
    odd = tmp_path / os.fsdecode(b"bad\xff")
    odd.mkdir()
    model = script(tmp_path / "s.json", ["Hi."])
    ran = agentcli("run", "-C", odd, "--model", model, "-o", "json", "go", home=tmp_path)
    (result,) = ran.events
    message = f"the path {tmp_path}/bad\\xff is not UTF-8, so no session in it could be found again"
    assert (ran.code, result["error"]["message"]) == (2, message)
    assert ran.err.startswith(f"error: {message}\n  fix: ")
    assert list(tmp_path.glob(".local/state/agentcli/sessions/*")) == []


def test_text_has_no_result(tmp_path: Path) -> None:
    assert agentcli("run", "--no-such-option", "go", home=tmp_path).out == ""


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_stdout_that_is_full_is_an_error(tmp_path: Path, form: str) -> None:
    model = script(tmp_path / "s.json", ["Hi."])
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [write_fork_command(), "run", "--model", model, "-o", form, "go"],
            cwd=tmp_path,
            env=environment(tmp_path),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert ran.returncode == 3
    assert "error: cannot write to stdout: No space left on device\n" in ran.stderr


@pytest.mark.parametrize("lost", ["{out}", "{state}/checkpoints"])
def test_what_cannot_be_left_is_the_same_in_exit_code_result_and_log(
    tmp_path: Path, lost: str
) -> None:
    home, work, out = tmp_path / "home", tmp_path / "work", tmp_path / "out"
    home.mkdir()
    work.mkdir()
    (work / "a.txt").write_text("a\n")
    gone = lost.format(out=out, state=home / ".local/state/agentcli")
    command = f"rm -r {gone}; echo b > a.txt"
    model = script(home / "s.json", [{"calls": [{"bash": {"command": command}}]}, "Done."])
    options = ["--mode", "auto", "--sandbox", "off", "-o", "json"]
    files: list[str | Path] = ["--output-dir", out, "--patch", tmp_path / "p.diff"]
    ran = agentcli("run", "--model", model, *options, *files, "go", home=home, cwd=work)
    (result,) = ran.events
    ended = json.loads(session_log(home).read_text().splitlines()[-1])["fact"]
    assert (ran.code, result["exit_code"], ended["exit_code"]) == (3, 3, 3)
    assert (result["ending"], ended["ending"]) == ("misconfigured", "misconfigured")
    assert result["error"]["message"] == ended["message"]
    if out.exists():
        assert json.loads((out / "result.json").read_text())["exit_code"] == 3


@pytest.mark.parametrize(
    "command",
    [
        ["run", "-C", "loop", "x"],
        ["sessions", "list", "-C", "loop"],
        ["undo", "-C", "loop"],
        ["worktree", "list", "-C", "loop"],
        ["recall", "list", "-C", "loop"],
        ["caches", "clear", "-C", "loop"],
        ["trust", "loop"],
        ["trust", "--revoke", "loop"],
    ],
)
def test_link_to_itself_is_no_directory(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "loop").symlink_to("loop")
    ran = agentcli(*command, home=tmp_path)
    assert ran.code == 2
    assert ran.err.startswith("error: cannot open loop: Too many levels of symbolic links\n")


@pytest.mark.parametrize(
    "command",
    [
        "run x",
        "doctor",
        "sessions list",
        "undo",
        "worktree list",
        "trust",
        "triage",
        "export",
        "replay",
        "context",
        "audit verify",
        "caches clear",
        "recall list",
        "mcp add x --writable cache -- ls",
    ],
)
def test_directory_that_was_deleted_is_named(tmp_path: Path, command: str) -> None:
    left = tmp_path / "left"
    left.mkdir()
    ran = subprocess.run(
        ["bash", "-c", f'rmdir "$PWD"; exec "$0" {command}', PROGRAM],
        cwd=left,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: cannot open .: No such file or directory\n  fix: ")
