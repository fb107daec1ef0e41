import asyncio
from collections.abc import Sequence
from pathlib import Path

from agentcli.session.edit_checks import LINES_MAX, EditChecks
from agentcli.types.checks import Verified
from agentcli.types.events import Event, Warned


class Compiler:
    """A command whose output is what the test says next."""

    def __init__(self, *outputs: Sequence[str] | None) -> None:
        self._outputs = list(outputs)
        self.runs = 0

    async def __call__(self, command: str) -> Verified:
        self.runs += 1
        lines = self._outputs.pop(0)
        if lines is None:
            return Verified(command=command, exit_code=None, output="timed out")
        text = "\n".join([*lines, "[exit code]"])
        return Verified(command=command, exit_code=1 if lines else 0, output=text)


def check(
    tmp_path: Path, compiler: Compiler, edits: int = 1, *, may_run_commands: bool = True
) -> tuple[list[list[str]], list[Event]]:
    """Return what each of some edits of a file found, and the events."""
    events: list[Event] = []
    (tmp_path / "a.ts").write_text("x")
    checks = EditChecks(
        tmp_path,
        [("*.ts", "tsc"), ("*.rs", "cargo check")],
        run_check=compiler,
        may_run_commands=lambda: may_run_commands,
        emit=events.append,
    )

    async def edit() -> list[list[str]]:
        found = []
        for _ in range(edits):
            before = await checks.capture_before(["src/a.ts"])
            found.append(await checks.find_new(["src/a.ts"], before))
        return found

    return asyncio.run(edit()), events


def test_only_errors_that_were_not_there_before_are_found(tmp_path: Path) -> None:
    old, new = "a.ts(3,1): error TS1: old", "a.ts(9,1): error TS2: new"
    compiler = Compiler([old], ["a.ts(7,2): error TS1: old", new], [old, new], [])
    assert check(tmp_path, compiler, 3)[0] == [[new], [], []]
    assert compiler.runs == 4


def test_second_error_of_a_kind_is_new(tmp_path: Path) -> None:
    compiler = Compiler(["a(1): bad"], ["a(1): bad", "a(2): bad"])
    assert check(tmp_path, compiler)[0] == [["a(2): bad"]]


def test_findings_are_few(tmp_path: Path) -> None:
    compiler = Compiler([], [f"error {chr(65 + number)}" for number in range(25)])
    ((*lines, last),), _ = check(tmp_path, compiler)
    assert len(lines) == LINES_MAX - 1
    assert last == "… and 16 more"


def test_command_that_hangs_is_dropped_and_said_once(tmp_path: Path) -> None:
    compiler = Compiler(None)
    found, events = check(tmp_path, compiler, 2)
    assert (found, compiler.runs) == ([[], []], 1)
    (warned,) = events
    assert isinstance(warned, Warned)
    assert warned.message == "the check 'tsc' is not run any more: it did not end within 60 s"


def test_nothing_runs_without_the_sandbox_that_is_wanted(tmp_path: Path) -> None:
    compiler = Compiler()
    found, events = check(tmp_path, compiler, may_run_commands=False)
    assert (found, compiler.runs, len(events)) == ([[]], 0, 1)


def test_file_that_did_not_parse_before_is_no_news(tmp_path: Path) -> None:
    checks = EditChecks(
        tmp_path, (), run_check=Compiler(), may_run_commands=lambda: True, emit=lambda event: None
    )

    async def edit() -> list[list[str]]:
        found = []
        for name, texts in {"a.py": ("x = 1\n", "x = \n", "y = \n"), "b.py": ("(", "((")}.items():
            (tmp_path / name).write_text(texts[0])
            for text in texts[1:]:
                before = await checks.capture_before([name])
                (tmp_path / name).write_text(text)
                found.append(await checks.find_new([name], before))
        return found

    (first,), second, third = asyncio.run(edit())
    assert first.startswith("a.py: line 1: invalid syntax (Python 3.")
    assert (second, third) == ([], [])
