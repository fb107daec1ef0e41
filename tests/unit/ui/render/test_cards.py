from pathlib import Path

import pytest

from agentcli.types.errors import UsageError
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, Effect, ErrorKind, FileView, Matches, Raw
from agentcli.ui.render.cards import CardRenderer
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import NONE
from agentcli.ui.render.wording import USER_RAN_IT
from tests.support.scenes import Step, denied, edit, failing, read, step


def cards(columns: int = 100) -> CardRenderer:
    return CardRenderer(Paint(columns=columns, rows=24, theme=NONE, color="none", accessible=False))


def shown(*steps: Step, columns: int = 100) -> str:
    drawn = cards(columns)
    text = "".join(drawn.add_finished(one.judged, one.finished) for one in steps) + drawn.flush()
    return text.replace("\x1b[1m", "").replace("\x1b[3m", "").replace("\x1b[0m", "")


def test_reads_in_a_row_become_one_line() -> None:
    steps = [read(path) for path in ("calc.py", "app.py", "a.py", "b.py", "c.py")]
    assert shown(*steps) == "✓ read_file 5 files  calc.py, app.py, +3  10ms\n"


def test_reads_are_held_back_until_something_else_comes() -> None:
    drawn = cards()
    first, second, last = read("a.py"), read("b.py"), denied("user", "no")
    assert drawn.add_finished(first.judged, first.finished) == ""
    assert "a.py" in drawn.render_held()
    assert drawn.add_finished(second.judged, second.finished) == ""
    assert "2 files" in drawn.render_held()
    committed = drawn.add_finished(last.judged, last.finished)
    assert committed.index("2 files") < committed.index("denied by you")
    assert (drawn.render_held(), drawn.flush()) == ("", "")


def test_failed_read_is_not_folded_away() -> None:
    missing = step("read_file", {"path": "x"}, error=ErrorKind.FAILED, text="No such file: x")
    text = shown(read("a.py"), missing, read("b.py"))
    assert text == (
        "✓ read_file a.py  14 lines · 2ms\n\n"
        "✗ read_file x  failed · 2ms\n  No such file: x\n"
        "✓ read_file b.py  14 lines · 2ms\n"
    )


def test_failing_command_shows_both_ends_its_code_and_its_log() -> None:
    text = shown(failing())
    assert text.startswith(
        "✗ bash pytest -q  "
        "exit 3 · 2.1s · 61 lines · rule bash(pytest:*) · model saw 40 of 61 lines\n"
        "  test_calc.py::test_case_1 PASSED\n  test_calc.py::test_case_2 PASSED\n"
        "  … 49 lines hidden · /show 1 · full log /state/agentcli/7f3a/out/7.log\n"
    )
    assert text.endswith("  3 passed, 1 warning in 0.12s\n")


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (denied("user", "no"), "denied by you\n"),
        (
            denied("rule", "rule deny bash(rm:*) forbids it", "deny bash(rm:*)"),
            "denied by rule deny bash(rm:*)\n  rule deny bash(rm:*) forbids it\n",
        ),
        (
            denied("nobody", "no rule allows make; --allow x"),
            "denied: needs approval\n  no rule allows make; --allow x\n",
        ),
        (denied("hook", "audit: no"), "denied by the hook\n  audit: no\n"),
        (denied("mode", "plan mode only reads"), "denied by the mode\n  plan mode only reads\n"),
    ],
)
def test_denial_says_by_whom_and_why(verdict: Step, said: str) -> None:
    assert shown(verdict) == f"⊘ bash rm -rf build  {said}"


@pytest.mark.parametrize(
    ("command", "error", "header"),
    [
        (Command(command="x", cwd="", exit_code=0), None, "✓ bash x  2ms"),
        (
            Command(command="x", cwd="", exit_code=0, pipe="pytest 1, tail 0"),
            None,
            "✓ bash x  exit 0; in the pipe: pytest 1, tail 0 · 2ms",
        ),
        (
            Command(command="x", cwd="", background_pid=7),
            None,
            "✓ bash x  in the background, pid 7 · 2ms",
        ),
        (
            Command(command="x", cwd="", signal="SIGSEGV"),
            ErrorKind.FAILED,
            "✗ bash x  killed by SIGSEGV · 2ms",
        ),
        (
            Command(command="x", cwd="", timed_out=True, signal="SIGKILL"),
            ErrorKind.TIMEOUT,
            "✗ bash x  timed out after 2ms",
        ),
        (None, ErrorKind.CANCELLED, "■ bash x  interrupted after 2ms"),
        (None, ErrorKind.NOT_RUN, "■ bash x  not run"),
    ],
)
def test_ending_of_a_command_is_in_its_header(
    command: Command | None, error: ErrorKind | None, header: str
) -> None:
    text = shown(step("bash", {"command": "x"}, command, error=error))
    assert text.split("\n")[0] == header


def test_command_that_does_not_fit_the_header_is_shown_below() -> None:
    line = "echo " + "word " * 30 + "end"
    ran = Command(command=line, cwd="", exit_code=0)
    text = shown(step("bash", {"command": line}, ran), columns=60)
    first, *rows = text.rstrip("\n").split("\n")
    assert "…" in first and first.endswith("word end  2ms")
    assert " ".join(map(str.strip, rows)) == f"$ {line}"


def test_arguments_of_another_tool_are_pairs_and_its_text_is_cut() -> None:
    raw = Raw(text="\n".join(map(str, range(9))))
    text = shown(step("issues", {"repo": "a/b", "n": 1}, raw, truncated=True))
    assert text == (
        "✓ issues repo=a/b n=1  2ms · model saw part of it\n"
        "  0\n  1\n  2\n  3\n  4\n  … 4 lines hidden · /show 1\n"
    )


def test_target_that_would_act_on_the_terminal_is_escaped() -> None:
    text = shown(step("bash", {"command": "echo \u202egnp.x\x1b[2J"}))
    assert "\u202e" not in text and "\\u202e" in text and "\x1b[2J" not in text


def test_part_of_a_file_says_how_much_there_is() -> None:
    view = FileView(
        path="a", media="text", size_bytes=9, first_line=1, last_line=200, total_lines=900
    )
    assert shown(step("read_file", {"path": "a"}, view)) == (
        "✓ read_file a  200 of 900 lines · 2ms\n"
    )


def test_running_call_shows_its_last_three_lines_settled() -> None:
    call = ToolCall(id="c", name="bash", input={"command": "pytest -q"})
    text = cards().render_running(call, 12.4, last_lines="one\ntwo\n10%\r90%\x1b[K\nthree\nfour\n")
    assert text.replace("\x1b[1m", "").replace("\x1b[0m", "") == (
        "● bash pytest -q  12s\n  90%\n  three\n  four\n"
    )


def test_show_brings_the_whole_log_back(tmp_path: Path) -> None:
    log = tmp_path / "1.log"
    log.write_bytes(b"".join(b"line %d\r\n" % number for number in range(500)))
    ran = Command(
        command="x", cwd="", exit_code=0, output_lines=500, tail="line 499", log_path=str(log)
    )
    drawn = cards()
    one = step("bash", {"command": "x"}, ran, effect=Effect.EXECUTE)
    drawn.add_finished(one.judged, one.finished)
    rows = drawn.render_card(1).rstrip("\n").split("\n")[1:]
    assert rows == [f"  line {number}" for number in range(500)]


def test_output_that_is_not_stored_as_a_whole_says_how_much_is() -> None:
    ran = Command(
        command="x", cwd="", exit_code=0, output_bytes=5 << 30, output_lines=500,
        stored_bytes=200 << 20, head="line 0", tail="line 9999", log_path="/out/1.log",
    )  # fmt: skip
    text = shown(step("bash", {"command": "x"}, ran, effect=Effect.EXECUTE, truncated=True))
    assert "5.0 GB, the first 200 MB stored" in text
    assert "model saw part of it" in text
    assert "part of it hidden · /show 1 · first 200 MB in /out/1.log" in text


def test_show_for_model_is_exactly_its_text() -> None:
    drawn = cards()
    one = step("bash", {"command": "x"}, text="  kept blanks  \n\ttab\n[exit code 0]")
    drawn.add_finished(one.judged, one.finished)
    assert drawn.render_card(1, for_model=True) == "  kept blanks  \n\ttab\n[exit code 0]\n"


def test_show_of_a_diff_is_not_cut() -> None:
    drawn = CardRenderer(Paint(columns=80, rows=5, theme=NONE, color="none"))
    one = edit()
    assert "more line" in drawn.add_finished(one.judged, one.finished)
    assert "more line" not in drawn.render_card(1)


def test_show_of_a_missing_card_names_the_ones_there_are() -> None:
    drawn = cards()
    one = read("a.py")
    drawn.add_finished(one.judged, one.finished)
    with pytest.raises(UsageError, match="there is no card 2") as caught:
        drawn.render_card(2)
    assert caught.value.hint == "cards are numbered 1 to 1"


@pytest.mark.parametrize("columns", [1, 2, 5, 12, 20])
def test_narrow_screen_is_no_reason_to_fail(columns: int) -> None:
    for one in (read("a.py"), edit(), failing(), denied("nobody", "no rule allows make")):
        assert shown(one, columns=columns)


def test_card_of_a_command_of_the_user_says_who_ran_it() -> None:
    details = Command(command="make", cwd="/w", exit_code=0, output_lines=0)
    own = step("bash", {"command": "make"}, details, by="user", reason=USER_RAN_IT)
    assert "run by you" in shown(own)
    asked = step(
        "bash", {"command": "make"}, details, by="user", reason="the user approved it once"
    )
    assert "approved by you" in shown(asked)


def own_command(lines: int) -> Step:
    output = "\n".join(f"row {number}" for number in range(1, lines + 1))
    details = Command(command="ls", cwd="/w", exit_code=0, output_lines=lines, head=output)
    return step("bash", {"command": "ls"}, details, by="user", reason=USER_RAN_IT)


def test_command_of_the_user_shows_all_of_its_output() -> None:
    text = shown(own_command(150))
    assert all(f"  row {number}\n" in text for number in range(1, 151))
    assert "hidden" not in text


def test_very_long_output_of_the_user_shows_its_end_and_says_so() -> None:
    text = shown(own_command(1_000))
    assert "800 lines hidden · /show 1" in text
    assert "  row 1000\n" in text
    assert "  row 800\n" not in text


def test_reads_of_different_kinds_stand_below_each_other() -> None:
    search = step(
        "grep", {"pattern": "x", "path": "src"}, Matches(target="x", path="src", matches=2, files=1)
    )
    text = shown(read("a.py"), search, read("b.py"))
    assert [row.split("  ")[0] for row in text.splitlines()] == [
        "✓ read_file a.py",
        "✓ grep x in src",
        "✓ read_file b.py",
    ]


def test_long_line_of_output_is_left_to_the_terminal_to_wrap() -> None:
    line = "https://example.org/" + "x" * 300
    details = Command(command="cat a", cwd="/w", exit_code=0, output_lines=1, head=line)
    assert f"  {line}\n" in shown(step("bash", {"command": "cat a"}, details))
