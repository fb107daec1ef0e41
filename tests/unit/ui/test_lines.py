import pytest

from agentcli.types.messages import Json, Text, ToolCall
from agentcli.types.tools import (
    Command,
    Details,
    Diff,
    ErrorKind,
    FileView,
    Matches,
    Raw,
    ToolResult,
)
from agentcli.ui.render.wording import format_call, format_duration, format_target


def line(details: Details | None, *, error: ErrorKind | None = None, text: str = "") -> str:
    result = ToolResult(
        call_id="c",
        name="t",
        status="error" if error else "ok",
        content=(Text(text=text),),
        details=details,
        error=error,
    )
    return format_call(ToolCall(id="c", name="t", input={"path": "a"}), result, duration_s=0.5)


@pytest.mark.parametrize(
    ("details", "said"),
    [
        (Diff(path="a", unified="", added=4, removed=1), "+4 -1"),
        (Diff(path="a", unified="", added=4, removed=0, created=True), "new file, +4 -0"),
        (Command(command="x", cwd="", exit_code=3, output_lines=61), "exit 3, 61 lines"),
        (
            Command(command="x", cwd="", signal="SIGSEGV", output_lines=1),
            "killed by SIGSEGV, 1 line",
        ),
        (Command(command="x", cwd="", timed_out=True), "timed out, 0 lines"),
        (
            Command(command="x", cwd="", exit_code=0, output_bytes=5 << 30, stored_bytes=200 << 20),
            "exit 0, 5.0 GB, the first 200 MB stored",
        ),
        (Command(command="x", cwd="", background_pid=7), "in the background, pid 7"),
        (FileView(path="a", media="text", size_bytes=9, first_line=3, last_line=7), "5 lines"),
        (FileView(path="a", media="image", size_bytes=9), "image"),
        (Matches(target="x", path=".", matches=14, files=6), "14 matches in 6 files"),
        (Matches(target="x", path=".", matches=2, files=2, more=True), "2 files, there are more"),
        (Raw(text="first\nsecond"), "first"),
        (None, "ok"),
    ],
)
def test_outcome_is_said_in_words(details: Details | None, said: str) -> None:
    assert line(details) == f"t a: {said} (500ms)"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ErrorKind.DENIED, "denied: no"),
        (ErrorKind.CANCELLED, "interrupted: no"),
        (ErrorKind.NOT_RUN, "not run: no"),
        (ErrorKind.FAILED, "failed: no"),
    ],
)
def test_error_is_named_with_its_first_line(error: ErrorKind, said: str) -> None:
    assert line(None, error=error, text="no\nmore") == f"t a: {said} (500ms)"


def test_denial_says_so_once() -> None:
    denied = line(None, error=ErrorKind.DENIED, text="Denied: no rule allows make")
    assert denied == "t a: denied: no rule allows make (500ms)"


def test_command_that_was_interrupted_has_no_exit_code() -> None:
    command = Command(command="a", cwd=".", exit_code=None)
    assert line(command, error=ErrorKind.CANCELLED) == "t a: interrupted, 0 lines (500ms)"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"command": "pytest -q\n  --lf"}, "pytest -q --lf"),
        ({"command": "x" * 100}, "x" * 36 + "…" + "x" * 35),
        ({"command": "a\x1b[2Jb"}, "a\ufffd[2Jb"),
        ({"n": 1, "to": "x", "text": "a b"}, 'n=1 to=x text="a b"'),
        ("not json", "not json"),
        (None, ""),
    ],
)
def test_target_is_one_short_printable_line(given: Json, shown: str) -> None:
    assert format_target(ToolCall(id="c", name="t", input=given)) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(0.011, "11ms"), (2.14, "2.1s"), (64.0, "1m 04s")])
def test_duration_is_short(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(
    ("given", "subject"),
    [
        ({"pattern": "x+", "path": "django"}, "x+ in django"),
        ({"pattern": "x+", "path": "django", "glob": "*.py"}, "x+ in django, *.py"),
        ({"pattern": "x+"}, "x+"),
        ({"glob": "*.py", "path": "src"}, "*.py in src"),
    ],
)
def test_search_says_its_pattern_and_its_place(given: Json, subject: str) -> None:
    assert format_target(ToolCall(id="c", name="grep", input=given)) == subject
