"""What a session shows, made of the events it would have: for goldens and pictures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from agentcli.system.diff import compare
from agentcli.types.events import CallFinished, CallJudged
from agentcli.types.messages import Json, Text, ToolCall
from agentcli.types.tools import (
    Command,
    Details,
    Diff,
    Effect,
    ErrorKind,
    FileView,
    Matches,
    Raw,
    ToolResult,
)
from agentcli.types.verdicts import By, Decision, Mode, Verdict
from agentcli.ui.render.cards import CardRenderer
from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import Paint

OLD_CALC = '''"""Small sums."""


def add(a, b):
    return a + b


def divide(a, b):
    return a / b
'''
NEW_CALC = OLD_CALC.replace(
    "def divide(a, b):\n",
    '''def divide(a: float, b: float) -> float:
    """Divide a by b."""
    if b == 0:
        raise ValueError("b must not be zero")
''',
)

INTRO = "I'll guard `divide` against a zero divisor, then run the tests.\n"

ANSWER = """## What changed

`divide` now raises **ValueError** when *b* is zero; see
[the manual](https://docs.python.org/3/library/exceptions.html).

```python
def divide(a: float, b: float) -> float:
    if b == 0:
        raise ValueError("b must not be zero")
    return a / b
```

1. The signature is typed.
2. The suite exits 3 because of a warning filter:
   - `pytest.ini` turns warnings into errors
   - nothing in *calc.py* causes it

| file | lines | 状態 |
|:-----|------:|:----:|
| calc.py | 14 | ✅ done |
| test_calc.py | 61 | unchanged |

> A quotient of two integers is a float.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call, from the verdict to the result."""

    judged: CallJudged | None
    finished: CallFinished


def step(
    name: str,
    given: Json,
    details: Details | None = None,
    *,
    effect: Effect = Effect.READ,
    by: By = "mode",
    decision: Decision = "allow",
    reason: str = "ask mode allows reading",
    rule: str | None = None,
    mode: Mode | None = None,
    error: ErrorKind | None = None,
    text: str = "",
    duration_s: float = 0.002,
    truncated: bool = False,
) -> Step:
    call = ToolCall(id="c1", name=name, input=given)
    verdict = Verdict(decision=decision, by=by, reason=reason, rule=rule, mode=mode)
    result = ToolResult(
        call_id="c1",
        name=name,
        status="error" if error else "ok",
        content=(Text(text=text),),
        details=details,
        error=error,
        truncated=truncated,
    )
    return Step(
        judged=CallJudged(call=call, effect=effect, verdict=verdict),
        finished=CallFinished(result=result, duration_s=duration_s),
    )


def diff_of(old: str, new: str, *, path: str = "calc.py", created: bool = False) -> Diff:
    made = compare(old, new, path=path, created=created)
    return Diff(
        path=path,
        unified=made.unified,
        added=made.added,
        removed=made.removed,
        created=created,
        notes=made.notes,
    )


def read(path: str, lines: int = 14) -> Step:
    view = FileView(
        path=path,
        media="text",
        size_bytes=400,
        first_line=1,
        last_line=lines,
        total_lines=lines,
    )
    return step("read_file", {"path": path}, view)


def edit() -> Step:
    return step(
        "edit_file",
        {"path": "calc.py", "old_text": "…", "new_text": "…"},
        diff_of(OLD_CALC, NEW_CALC),
        effect=Effect.WRITE,
        by="user",
        reason="the user approved it once",
        duration_s=0.011,
    )


def write() -> Step:
    new = "".join(f"def test_case_{number}():\n    assert True\n\n\n" for number in range(1, 8))
    return step(
        "write_file",
        {"path": "test_calc.py", "content": new},
        diff_of("", new, path="test_calc.py", created=True),
        effect=Effect.WRITE,
        reason="auto-edit mode allows it",
        mode="auto-edit",
        duration_s=0.006,
    )


def failing() -> Step:
    head = "\n".join(f"test_calc.py::test_case_{number} PASSED" for number in (1, 2))
    tail = "\n".join(f"test_calc.py::test_case_{number} PASSED" for number in range(52, 61))
    command = Command(
        command="pytest -q",
        cwd="/src/demo",
        exit_code=3,
        output_lines=61,
        shown_lines=40,
        head=head,
        tail=f"{tail}\n3 passed, 1 warning in 0.12s",
        log_path="/state/agentcli/7f3a/out/7.log",
    )
    return step(
        "bash",
        {"command": "pytest -q"},
        command,
        effect=Effect.EXECUTE,
        by="rule",
        reason="rule allow bash(pytest:*) allows it",
        rule="allow bash(pytest:*)",
        duration_s=2.1,
    )


def passing() -> Step:
    line = "for i in $(seq 1 60); do echo case_$i PASSED; done; echo '3 passed' | tee out.txt"
    command = Command(
        command=line,
        cwd="/src/demo",
        exit_code=0,
        output_lines=61,
        shown_lines=61,
        head="test_case_1 PASSED\ntest_case_2 PASSED",
        tail="test_case_59 PASSED\ntest_case_60 PASSED\n3 passed",
        log_path="/state/agentcli/7f3a/out/8.log",
    )
    return step(
        "bash",
        {"command": line},
        command,
        effect=Effect.EXECUTE,
        by="user",
        reason="the user approved it once",
        duration_s=64.2,
    )


def denied(by: By, reason: str, rule: str | None = None) -> Step:
    return step(
        "bash",
        {"command": "rm -rf build"},
        effect=Effect.EXECUTE,
        by=by,
        decision="deny",
        reason=reason,
        rule=rule,
        error=ErrorKind.DENIED,
        text=f"Denied: {reason}",
    )


def steps() -> list[Step]:
    """One of every kind of card."""
    return [
        *(read(path) for path in ("calc.py", "app.py", "docs/日本語.md", "README.md", "setup.py")),
        step(
            "grep",
            {"pattern": r"def \w+"},
            Matches(target=r"def \w+", path=".", matches=14, files=6),
            duration_s=0.031,
        ),
        edit(),
        write(),
        failing(),
        passing(),
        denied("user", "the user denied it"),
        denied("rule", "rule deny bash(rm:*) (user settings) forbids it", "deny bash(rm:*)"),
        denied("nobody", "no rule allows rm -rf build, and this run cannot ask"),
        step(
            "bash",
            {"command": "sleep 100"},
            effect=Effect.EXECUTE,
            error=ErrorKind.CANCELLED,
            text="Cancelled.",
            duration_s=12.3,
        ),
        step(
            "bash",
            {"command": "make check"},
            Command(command="make check", cwd="/src/demo", timed_out=True, signal="SIGKILL"),
            effect=Effect.EXECUTE,
            error=ErrorKind.TIMEOUT,
            text="[timed out]",
            duration_s=120,
        ),
        step(
            "tracker__find_issue",
            {"repository": "demo/calc", "number": 12, "title": "divide by zero"},
            Raw(text="\n".join(f"line {number} of the issue" for number in range(1, 10))),
            effect=Effect.NETWORK,
            by="user",
            reason="the user approved it once",
            duration_s=0.4,
            truncated=True,
        ),
        Step(
            judged=None,
            finished=step(
                "edit_fil",
                {},
                error=ErrorKind.UNKNOWN_TOOL,
                text="There is no tool edit_fil. Did you mean edit_file?",
            ).finished,
        ),
    ]


def prose(paint: Paint, source: str) -> str:
    stream = MarkdownStream(paint)
    return stream.feed(source) + stream.finish()


def card_text(paint: Paint, taken: list[Step]) -> str:
    """Cards one below the other, an empty line between them."""
    cards = CardRenderer(paint)
    shown = [cards.add_finished(one.judged, one.finished) for one in taken]
    return "\n".join(card for card in (*shown, cards.flush()) if card)


def _session(paint: Paint) -> Iterator[str]:
    cards = CardRenderer(paint)
    yield paint.apply_style("> fix the divide bug in @calc.py", paint.theme.strong) + "\n"
    yield prose(paint, INTRO)
    for one in (read("calc.py"), edit(), failing()):
        yield cards.add_finished(one.judged, one.finished)
    yield cards.flush()
    yield prose(
        paint, "`divide` now raises `ValueError`. The suite exits 3 for a warning filter.\n"
    )


SCENES: dict[str, Callable[[Paint], str]] = {
    "answer": lambda paint: prose(paint, ANSWER),
    "cards": lambda paint: card_text(paint, steps()),
    "session": lambda paint: "\n".join(part for part in _session(paint) if part),
}
