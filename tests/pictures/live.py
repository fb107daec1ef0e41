"""The real session at work, in a terminal of its own, against a model server on loopback."""

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from tests.support import anthropic_streams as anthropic
from tests.support.repl import Live, git, live, paced, says
from tests.support.scenes import ANSWER, INTRO, NEW_CALC, OLD_CALC
from tests.support.terminal import PyteTerm

TESTS = """import warnings

from calc import divide


def test_divide():
    warnings.warn("old name", DeprecationWarning)
    assert divide(6, 3) == 2
"""
RUNNER = """import sys
for number in range(1, 61):
    print(f"test_calc.py::test_case_{number} PASSED")
print("60 passed, 1 warning in 0.12s")
sys.exit(3)
"""
FILES = {"calc.py": OLD_CALC, "test_calc.py": TESTS, "check.py": RUNNER}
SHORT_ANSWER = "`divide` now raises `ValueError`. The suite exits 3 because of a warning filter.\n"


def _edit() -> anthropic.Deltas:
    old, new = OLD_CALC.rpartition("def divide")[2], NEW_CALC.rpartition("def divide")[2]
    given = {"path": "calc.py", "old_text": f"def divide{old}", "new_text": f"def divide{new}"}
    return anthropic.call("toolu_2", "edit_file", given)


def screens(theme: str, *, columns: int, rows: int) -> Iterator[tuple[str, bytes]]:
    """Each moment worth a picture: its name, and every byte written until then."""
    script = [
        anthropic.calls(
            anthropic.text(INTRO), anthropic.call("toolu_1", "read_file", {"path": "calc.py"})
        ),
        anthropic.calls(_edit()),
        anthropic.calls(anthropic.call("toolu_3", "bash", {"command": "python3 check.py"})),
        says(SHORT_ANSWER),
        paced(ANSWER, tokens_per_s=60),
    ]
    with tempfile.TemporaryDirectory() as made:
        project = _project(Path(made) / "home" / "src" / "demo")
        opened: AbstractContextManager[Live[PyteTerm]] = live(
            Path(made),
            script,
            arguments=["--theme", theme, "--cwd", str(project)],
            env={"COLORTERM": "truecolor"},
            cols=columns,
            rows=rows,
        )
        with opened as session:
            yield from _moments(session)


def _project(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name, text in FILES.items():
        (directory / name).write_text(text)
    git(directory, "init", "-q", "-b", "main")
    git(directory, "add", ".")
    git(directory, "commit", "-q", "-m", "Begin")
    return directory


def _moments(session: Live[PyteTerm]) -> Iterator[tuple[str, bytes]]:
    term = session.term
    term.ready()
    term.send("fix the divide bug in @calc.py")
    term.wait("? edit_file")
    term.wait_gone("keys go to your message")
    yield "approval", term.raw()
    term.type("y")
    term.wait("? bash")
    term.wait_gone("keys go to your message")
    term.type("y")
    term.wait("done in")
    yield "failing", term.raw()
    before = _count(session, "raise ValueError")
    term.send("and what changed in the end?")
    term.wait("What changed")
    term.type("and add a test for divide(1, 0)")
    term.wait_for(lambda: _count(session, "raise ValueError") > before, "code is being written")
    yield "streaming", term.raw()


def _count(session: Live[PyteTerm], text: str) -> int:
    return sum(text in row for row in session.term.history())
