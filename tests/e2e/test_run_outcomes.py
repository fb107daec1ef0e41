import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcli.log.audit import audit_log
from tests.support import anthropic_streams as anthropic
from tests.support.hidden import starred
from tests.support.outcomes import KEY, Told, assert_all_say, run_against, using
from tests.support.program import (
    PROGRAM,
    Ran,
    agentcli,
    environment,
    script,
    session_log,
    write_fork_command,
)
from tests.support.provider import Provider, Reply, answer, error_of_anthropic, sse, stream

READ = anthropic.calls(anthropic.call("c1", "read_file", {"path": "a.txt"}))
EDIT = {"path": "a.txt", "old_text": "two", "new_text": "2"}
REFUSAL = stream(sse(anthropic.events([anthropic.text("No.")], stop_reason="refusal")))
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n")
    (work / "schema.json").write_text(json.dumps(SCHEMA))
    (work / "any.json").write_text("{}")
    (work / "slow.json").write_text('{"properties": {"a": {"pattern": "^(a+)+$"}}}')
    return work


def unauthorised() -> Reply:
    error = {"type": "error", "error": {"type": "authentication_error", "message": "bad key"}}
    return answer(error, status=401)


def overloaded() -> Reply:
    headers = {"retry-after": "3600"}
    return answer(error_of_anthropic("slow down"), status=429, headers=headers)


SCENARIOS: dict[str, tuple[list[Reply], list[str], Told]] = {
    "done": ([anthropic.says("Hi.")], [], Told(exit_code=0, status="ok", ending="done")),
    "nothing said, twice": (
        [stream(sse(anthropic.events([], stop_reason="end_turn")))] * 2,
        [],
        Told(exit_code=4, status="error", ending="provider_failed"),
    ),
    "key rejected": (
        [unauthorised()],
        [],
        Told(exit_code=3, status="error", ending="misconfigured"),
    ),
    "no such sandbox": (
        [
            anthropic.calls(
                anthropic.call("c1", "bash", {"command": "echo 1"}),
                anthropic.call("c2", "bash", {"command": "echo 2"}),
            )
        ],
        ["--mode", "auto", "--sandbox", "seatbelt" if sys.platform == "linux" else "landlock"],
        Told(exit_code=3, status="error", ending="misconfigured"),
    ),
    "provider down": (
        [overloaded()],
        ["--max-wait", "1s"],
        Told(exit_code=4, status="error", ending="provider_failed"),
    ),
    "denied": (
        [anthropic.calls(anthropic.call("c1", "edit_file", EDIT)), anthropic.says("Done.")],
        [],
        Told(exit_code=5, status="denied", ending="denied"),
    ),
    "denied, stops": (
        [anthropic.calls(anthropic.call("c1", "edit_file", EDIT))],
        ["--on-deny", "fail"],
        Told(exit_code=5, status="denied", ending="denied"),
    ),
    "denied, ignored": (
        [anthropic.calls(anthropic.call("c1", "edit_file", EDIT)), anthropic.says("Done.")],
        ["--on-deny", "ignore"],
        Told(exit_code=0, status="ok", ending="done"),
    ),
    "turns": (
        [READ],
        ["--max-turns", "1"],
        Told(exit_code=6, status="limit", ending="step_limit"),
    ),
    "cost": ([], ["--max-cost", "0.0001"], Told(exit_code=6, status="limit", ending="cost_limit")),
    "tokens": ([], ["--max-tokens", "10"], Told(exit_code=6, status="limit", ending="token_limit")),
    "verification": (
        [anthropic.says("Done.")] * 5,
        ["--verify", "exit 3"],
        Told(exit_code=7, status="failed", ending="verify_failed"),
    ),
    "verification without end": (
        [anthropic.says("Done.")] * 5,
        ["--verify", "sleep 600", "--tool-timeout", "0.2s"],
        Told(exit_code=7, status="failed", ending="verify_failed"),
    ),
    "option that is gone": (
        [anthropic.says("All tests pass.")],
        ["--check-claims"],
        Told(exit_code=0, status="ok", ending="done"),
    ),
    "refusal": ([REFUSAL], [], Told(exit_code=8, status="failed", ending="refused")),
    "schema": (
        [anthropic.says("No."), anthropic.says('{"n": "1"}')],
        ["--schema", "schema.json"],
        Told(exit_code=9, status="failed", ending="schema_unmet"),
    ),
    "answer that is not JSON": (
        [anthropic.says('{"n": NaN}'), anthropic.says('{"n": 1e400}')],
        ["--schema", "any.json"],
        Told(exit_code=9, status="failed", ending="schema_unmet"),
    ),
    "slow pattern": (
        [anthropic.says(json.dumps({"a": "a" * 45 + "!"}))],
        ["--schema", "slow.json", "--timeout", "2s"],
        Told(exit_code=124, status="limit", ending="time_limit"),
    ),
    "time": (
        [anthropic.says("Hi.").but(stall_before_headers=True)],
        ["--timeout", "0.5s"],
        Told(exit_code=124, status="limit", ending="time_limit"),
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_outcome_is_the_same_in_exit_code_result_and_log(name: str, home: Path, work: Path) -> None:
    replies, options, expected = SCENARIOS[name]
    with Provider(replies) as provider:
        ran = run_against(provider, "-o", "stream-json", *options, "go", home=home, cwd=work)
        assert len(provider.requests) == len(replies)
    assert_all_say(ran, expected, home=home)
    assert "Traceback" not in ran.err


NOT_BEGUN: dict[str, tuple[list[str], Told]] = {
    "usage": ([" "], Told(exit_code=2, status="error", ending="usage")),
    "no such model": (
        ["--model", "nonsense", "go"],
        Told(exit_code=3, status="error", ending="misconfigured"),
    ),
}


@pytest.mark.parametrize("name", NOT_BEGUN)
@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_run_that_could_not_begin_has_a_result_too(name: str, form: str, home: Path) -> None:
    arguments, expected = NOT_BEGUN[name]
    ran = agentcli("run", "-o", form, *arguments, home=home)
    assert_all_say(ran, expected, home=home, has_log=False)


def test_bug_has_a_result_and_a_report_and_no_traceback(home: Path) -> None:
    planted = home / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(
        "from agentcli.agent import loop\n"
        "def broken(*args, **kwargs): raise ZeroDivisionError('planted')\n"
        "loop.run_batch = broken\n"
    )
    with Provider([READ]) as provider:
        env = {"PYTHONPATH": str(planted), "TMPDIR": str(home)}
        ran = run_against(provider, "-o", "stream-json", "go", home=home, env=env)
    assert_all_say(ran, Told(exit_code=1, status="error", ending="internal"), home=home)
    assert "Traceback" not in ran.err
    (report,) = home.glob("agentcli-crash-*.txt")
    assert "ZeroDivisionError: planted" in report.read_text()


ENDED, WENT_ON = (3, "error"), (0, "ok")


# What starts at once does not always meet: then the command fails, and the model is told why.
@pytest.mark.parametrize(("limit", "ends"), [(8, [ENDED]), (14, [ENDED, WENT_ON])])
def test_too_few_files_end_the_run_with_a_hint(
    limit: int, ends: list[tuple[int, str]], home: Path, work: Path
) -> None:
    model = script(home / "s.json", [{"calls": [{"bash": {"command": "echo hi"}}]}, "Done."])
    arguments = ["run", "-C", str(work), "--mode", "auto", "--model", model, "-o", "json", "go"]
    ran = subprocess.run(
        ["bash", "-c", f'ulimit -n {limit}; exec "$@"', "-", PROGRAM, *arguments],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, json.loads(ran.stdout)["status"]) in ends, ran.stderr
    assert "too many open files" in ran.stderr.lower()
    assert "sandbox off" not in ran.stderr


@pytest.mark.parametrize("limit_mb", [40, 44])
def test_too_little_memory_is_no_bug(limit_mb: int, home: Path, work: Path) -> None:
    model = script(home / "s.json", [{"calls": [{"bash": {"command": "echo hi"}}]}, "Done."])
    arguments = ["run", "-C", str(work), "--mode", "auto", "--model", model, "-o", "json", "go"]
    ran = subprocess.run(
        ["bash", "-c", f'ulimit -v {limit_mb * 1024}; exec "$@"', "-", PROGRAM, *arguments],
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in ran.stderr
    assert ran.returncode in (0, 3), ran.stderr  # how much it needs depends on the machine


@pytest.mark.parametrize("command", ["rm -rf work", "mv work gone"])
def test_workspace_that_vanishes_is_no_success(command: str, home: Path, work: Path) -> None:
    replies = [{"calls": [{"bash": {"command": f"cd .. && {command}"}}]}, "Done."]
    arguments = ("-C", work, "--mode", "auto", "--sandbox", "off", "-o", "json")
    model = script(home / "s.json", replies)
    ran = agentcli("run", *arguments, "--model", model, "go", home=home)
    said = f"the workspace {work} was moved or deleted during the run"
    assert (ran.code, json.loads(ran.out)["status"], said in ran.err) == (3, "error", True)
    assert audit_log(session_log(home)).status == "intact"


def test_face_that_breaks_ends_the_run_instead_of_going_quiet(home: Path, work: Path) -> None:
    planted = home / "planted"
    planted.mkdir()
    (planted / "sitecustomize.py").write_text(
        "from agentcli.ui.oneshot.plain import TextAnswer\n"
        "def broken(self, event): raise ZeroDivisionError('planted')\n"
        "TextAnswer.__call__ = broken\n"
    )
    with Provider([READ, anthropic.says("Hi.")]) as provider:
        env = {"PYTHONPATH": str(planted), "TMPDIR": str(home)}
        ran = run_against(provider, "go", home=home, cwd=work, env=env)
    assert (ran.code, ran.out) == (1, "")
    (report,) = home.glob("agentcli-crash-*.txt")
    assert "ZeroDivisionError: planted" in report.read_text()


@pytest.mark.parametrize(
    ("number", "code", "ending"),
    [
        (signal.SIGTERM, 143, "terminated"),
        (signal.SIGINT, 130, "cancelled"),
        (signal.SIGHUP, 129, "hung_up"),
    ],
)
def test_signal_while_the_model_is_thinking(
    number: signal.Signals, code: int, ending: str, home: Path, work: Path
) -> None:
    with (
        Provider([anthropic.says("Hi.").but(stall_before_headers=True)]) as provider,
        subprocess.Popen(
            [write_fork_command(), "run", "--model", "opus", "-o", "stream-json", "go"],
            cwd=work,
            env=environment(home, **using(provider)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert provider.stalled.wait(30)
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    ran = Ran(process.returncode, out, err)
    assert_all_say(ran, Told(exit_code=code, status="interrupted", ending=ending), home=home)


SIGNALLED_WHEN_LOADING = """
import os, sys
from agentcli.__main__ import main
number, module, *sys.argv = sys.argv[1:]
pending = [int(number)]

def strike(event, arguments):
    if event == "import" and arguments[0] == module and pending:
        os.kill(os.getpid(), pending.pop())

sys.addaudithook(strike)
main()
"""


@pytest.mark.parametrize(
    ("number", "code", "module"),
    [
        (signal.SIGTERM, 143, "agentcli.settings"),
        (signal.SIGINT, 130, "agentcli.ui.oneshot.request"),
        (signal.SIGHUP, 129, "agentcli.ui.oneshot.runner"),
        (signal.SIGTERM, 143, "agentcli.ui.oneshot.jsonl"),
    ],
)
@pytest.mark.parametrize("form", ["json", "stream-json"])
def test_signal_while_the_program_is_loaded_has_a_result(
    number: signal.Signals, code: int, module: str, form: str, home: Path, work: Path
) -> None:
    words = ("agentcli", "run", "--model", script(home / "s.json", ["Hi."]), "-o", form, "go")
    ran = subprocess.run(
        [sys.executable, "-c", SIGNALLED_WHEN_LOADING, str(int(number)), module, *words],
        cwd=work,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    result = json.loads(ran.stdout.splitlines()[-1])
    assert (ran.returncode, result["exit_code"], result["status"]) == (code, code, "interrupted")
    assert "Traceback" not in ran.stderr


CALLS: dict[str, tuple[str, dict[str, str], Callable[[Path], bool]]] = {
    "edit": ("edit_file", EDIT, lambda work: (work / "a.txt").read_text() == "one\n2\n"),
    "write": (
        "write_file",
        {"path": "new/b.txt", "content": "x\n"},
        lambda work: (work / "new/b.txt").read_text() == "x\n",
    ),
    "command": ("bash", {"command": "touch made.txt"}, lambda work: (work / "made.txt").exists()),
    "command with words": (
        "bash",
        {"command": "touch 'a b.txt' && mkdir -p d"},
        lambda work: (work / "a b.txt").exists() and (work / "d").is_dir(),
    ),
    "command that cannot be matched": (
        "bash",
        {"command": "for i in 1 2; do echo $i > f$i.txt; done"},
        lambda work: (work / "f2.txt").exists(),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_denial_prints_the_options_that_permit_it_and_with_them_it_is_done(
    name: str, home: Path, work: Path
) -> None:
    tool, given, is_done = CALLS[name]
    model = script(home / "s.json", [{"calls": [{tool: given}]}, "Done."])
    denied = agentcli("run", "-C", work, "--model", model, "go", home=home)
    assert (denied.code, denied.out) == (5, "")
    assert not (work / "made.txt").exists()
    (fix,) = [line for line in denied.err.splitlines() if line.startswith("  fix: ")]
    options = shlex.split(fix.removeprefix("  fix: "))
    assert options[0] == "--allow"
    allowed = agentcli("run", "-C", work, "--model", model, *options, "go", home=home)
    assert (allowed.code, allowed.out) == (0, "Done.\n"), allowed.err
    assert is_done(work)


def test_target_that_was_reached_another_way_is_no_denial(home: Path, work: Path) -> None:
    replies = [
        {"calls": [{"write_file": {"path": "a.txt", "content": "x"}}]},
        {"calls": [{"read_file": {"path": "a.txt"}}]},
        "Done.",
    ]
    model = script(home / "s.json", replies)
    ran = agentcli("run", "-C", work, "--model", model, "go", home=home)
    assert (ran.code, ran.out) == (0, "Done.\n")


@pytest.mark.parametrize(
    ("mode", "permitted"),
    [("ask", "you may read files of the workspace, and"), ("auto-edit", "inside the workspace")],
)
def test_model_learns_once_what_it_may_do_instead_of_a_denied_call(
    mode: str, permitted: str, home: Path, work: Path
) -> None:
    outside = {"path": "/srv/x.py", "content": "x"}
    tries = [
        anthropic.calls(anthropic.call(f"c{number}", "write_file", outside)) for number in (1, 2)
    ]
    with Provider([*tries, anthropic.says("Done.")]) as provider:
        ran = run_against(provider, "--mode", mode, "go", home=home, cwd=work)
        bodies = [json.dumps(request.json["messages"]) for request in provider.requests]
    told = "nobody can approve it in this run"
    assert ran.code == 5
    assert "write_file was denied: /srv/x.py is outside the workspace" in ran.err
    assert [body.count(told) for body in bodies] == [0, 1, 1]
    assert permitted in bodies[1]


def test_claim_without_a_check_is_sent_back_once(home: Path, work: Path) -> None:
    edit = anthropic.calls(
        anthropic.call("c1", "read_file", {"path": "a.txt"}),
        anthropic.call("c2", "edit_file", EDIT),
    )
    claims = [anthropic.says("All tests pass."), anthropic.says("Edited; nothing was run.")]
    with Provider([edit, *claims]) as provider:
        ran = run_against(provider, "--mode", "auto-edit", "go", home=home, cwd=work)
        bodies = [json.dumps(request.json["messages"]) for request in provider.requests]
    assert (ran.code, ran.out) == (0, "Edited; nothing was run.\n"), ran.err
    told = "no command ran after your last edit (a.txt)"
    assert [body.count(told) for body in bodies] == [0, 0, 1]


def test_deny_rule_of_the_person_is_no_failure(home: Path, work: Path) -> None:
    replies = [{"calls": [{"bash": {"command": "touch x"}}]}, "Done."]
    model = script(home / "s.json", replies)
    options = ("--mode", "auto", "--deny", "bash(touch:*)")
    ran = agentcli("run", "-C", work, "--model", model, *options, "go", home=home)
    assert (ran.code, ran.out) == (0, "Done.\n")


def test_key_is_in_no_sink(home: Path, work: Path) -> None:
    call = anthropic.call("c1", "bash", {"command": "env; cat secret.txt"})
    (work / "secret.txt").write_text(KEY)
    replies = [anthropic.calls(call), anthropic.says(f"It is {KEY[:9]}", KEY[9:], ".")]
    out = home / "out"
    with Provider(replies) as provider:
        ran = run_against(
            provider,
            *("-o", "stream-json", "--partial", "-v", "--mode", "auto"),
            *("--output-dir", out, "--report", "markdown,junit,sarif", "go"),
            home=home,
            cwd=work,
        )
    assert ran.code == 0, ran.err
    deltas = "".join(row["text"] for row in ran.events if row["type"] == "message.delta")
    assert starred(deltas) == "It is ***."
    sinks = [ran.out, ran.err, *(file.read_text() for file in out.iterdir())]
    logs = [file.read_text() for file in home.rglob("*.log")]
    assert [text for text in (*sinks, *logs) if KEY in text] == []


def test_windows_itself_is_refused_with_the_command_for_wsl() -> None:
    start = "import sys; sys.platform = 'win32'; from agentcli.__main__ import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", start, "run", "hi"], capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (3, "")
    assert ran.stderr == "error: agentcli does not run on Windows itself\n  fix: wsl --install\n"
