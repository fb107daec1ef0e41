from dataclasses import replace

import pytest

from agentcli.features.replay.compare import build_normalizer, diff_results
from agentcli.features.replay.recording import PathRelocation, RecordedPaths
from agentcli.types.messages import Text
from agentcli.types.tools import Command, ToolResult

THEN = RecordedPaths(workspaces=("/home/ann/app",), sessions=("20260101-000000-abcd",))
NOW = RecordedPaths(workspaces=("/tmp/x/workspace",), sessions=("replay-1",))


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("see /home/ann/app/a.py", "see /tmp/x/workspace/a.py"),
        (
            "[all of it: /home/ann/.local/state/agentcli/sessions/20260101-000000-abcd/out/1.log]",
            "[all of it: /tmp/x/sessions/replay-1/out/1.log]",
        ),
        ("Ran 2 tests in 0.001s", "Ran 2 tests in 12.5s"),
        ("at 2026-01-01T10:00:00.123Z", "at 2027-02-03T04:05:06Z"),
        ("at 2026-01-01 10:00", "at 2027-02-03 04:05:06.1"),
        ("[background pid 12, output", "[background pid 3456, output"),
        ("x.log; kill 12 stops it]", "x.log; kill 3456 stops it]"),
        ("<object at 0x7f0011223344>", "<object at 0x7fffffffffff>"),
        ("/tmp/tmpabcd1234/x", "/tmp/tmpefgh5678/x"),
        ("./tmp.WymqxckJ0t", "./tmp.aT0ODDZINn"),
        ("/var/tmp/build-e8o4x15x.d", "/var/tmp/build-s17ep_i9.d"),
        (
            "-rw-r--r-- 1 ann staff 12 Jan  1 10:00 a.py",
            "-rw-r--r--. 2 bob users 12 Feb 28 2027 a.py",
        ),
        ("real\t0m0.010s", "real\t0m9.000s"),
        ("    f(x)\n    ~^^^\nError", "    f(x)\nError"),
    ],
)
def test_place_and_moment_do_not_count(then: str, now: str) -> None:
    assert build_normalizer(THEN)(then) == build_normalizer(NOW)(now)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("2 passed", "3 passed"),
        ("/home/ann/app2/a.py", "/tmp/x/workspace2/a.py"),
        ("line 10", "line 11"),
        ("-rw-r--r-- 1 a a 12 Jan  1 10:00 a.py", "-rwxr-xr-x 1 a a 12 Jan  1 10:00 a.py"),
        ("exit code 0", "exit code 1"),
        ("tmp.py: 1 error", "tmp.txt: 1 error"),
        ("/tmp/build-one", "/tmp/build-two"),
        ("out/1.log", "out/2.log"),
    ],
)
def test_everything_else_counts(then: str, now: str) -> None:
    assert build_normalizer(THEN)(then) != build_normalizer(NOW)(now)


def result(text: str, *, cwd: str, exit_code: int, output_bytes: int = 0) -> ToolResult:
    return ToolResult(
        call_id="c",
        name="bash",
        status="ok",
        content=(Text(text=text),),
        details=Command(command="make", cwd=cwd, exit_code=exit_code, output_bytes=output_bytes),
    )


def test_difference_is_a_diff_of_what_counts() -> None:
    then = result("built in 3.2s", cwd="/home/ann/app", output_bytes=13, exit_code=0)
    now = result("built in 1s", cwd="/tmp/x/workspace", output_bytes=11, exit_code=0)
    assert diff_results(then, now, then=build_normalizer(THEN), now=build_normalizer(NOW)) == ""
    broken = result("built in 1s", cwd="/tmp/x/workspace", exit_code=2)
    shown = diff_results(then, broken, then=build_normalizer(THEN), now=build_normalizer(NOW))
    assert "+exit_code: 2" in shown


def test_names_that_mktemp_chose_do_not_count() -> None:
    def shown(then: str, now: str, command: str) -> str:
        details = Command(command=command, cwd="/w", exit_code=0)
        one, two = (
            replace(result(text, cwd="", exit_code=0), details=details) for text in (then, now)
        )
        return diff_results(one, two, then=build_normalizer(THEN), now=build_normalizer(NOW))

    assert shown("log.abcdef", "log.ghijkl", "mktemp log.XXXXXX") == ""
    assert shown("log.abcdef", "log.ghijkl", "ls log.XXXXXX") != ""
    assert shown("log.abcdef", "lot.ghijkl", "mktemp log.XXXXXX") != ""
    assert shown("red", "tan", "mktemp XXX") != ""


def test_relocation_reaches_every_text_of_an_input() -> None:
    move = PathRelocation(THEN, workspace="/w", directory="/s")
    given = {
        "path": "/home/ann/app/a.py",
        "many": ["cat /home/ann/app2 '/x/20260101-000000-abcd/out/1.log'", 3, None],
    }
    assert move.relocate_json(given) == {
        "path": "/w/a.py",
        "many": ["cat /home/ann/app2 '/s/out/1.log'", 3, None],
    }


def test_workspace_that_is_the_root_is_left_alone() -> None:
    move = PathRelocation(
        RecordedPaths(workspaces=("/",), sessions=("s",)), workspace="/w", directory="/s"
    )
    assert move.relocate_json("/etc/hosts") == "/etc/hosts"
