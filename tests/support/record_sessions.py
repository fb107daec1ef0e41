"""Records the sessions in fixtures/sessions: python -m tests.support.record_sessions [CASE...]

Each is a real session in a scratch directory, with a script in the model's place. Beside its log
stands the tree it began with, so that it can be replayed anywhere.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agentcli.session.builder import open_session
from agentcli.session.session import Session
from agentcli.types.deltas import CallProgress
from agentcli.types.events import Event
from agentcli.types.settings import Settings
from agentcli.types.verdicts import Mode

ROOT = Path(__file__).parents[2]
SESSIONS = ROOT / "fixtures" / "sessions"
DEMO = ROOT / "agentcli" / "features" / "demo"
RECORDED_IN = Path(tempfile.gettempdir()) / "agentcli-recording"

CALC = """\
def mean(values):
    return sum(values) / (len(values) + 1)


def spread(values):
    return max(values) - min(values)
"""
CHECK = """\
import calc

assert calc.mean([1, 2, 3]) == 2, calc.mean([1, 2, 3])
assert calc.spread([3, 1]) == 2
print("2 checks passed")
"""

Play = Callable[[Session, asyncio.Event], Awaitable[None]]
"""Gets the session, and what is set when a command has printed something."""


async def one_turn(session: Session, printed: asyncio.Event) -> None:
    await session.run_turn("go")


async def two_turns(session: Session, printed: asyncio.Event) -> None:
    await session.run_turn("go")
    await session.run_turn("go on")


async def interrupted(session: Session, printed: asyncio.Event) -> None:
    """The first turn is interrupted while its command runs, and the second goes on."""
    turn = asyncio.ensure_future(session.run_turn("go"))
    await printed.wait()
    turn.cancel()
    await asyncio.gather(turn, return_exceptions=True)
    await session.run_turn("go on")


@dataclass(frozen=True, kw_only=True)
class Case:
    replies: Sequence[Any]
    files: dict[str, str] = field(default_factory=lambda: {"calc.py": CALC, "check.py": CHECK})
    mode: Mode = "auto"
    deny: tuple[str, ...] = ()
    play: Play = one_turn


CASES: dict[str, Case] = {
    "demo": Case(
        replies=yaml.safe_load((DEMO / "script.yaml").read_text())["replies"],
        files={path.name: path.read_text() for path in (DEMO / "project").glob("*.sh")},
    ),
    "edits": Case(
        replies=[
            {"text": "What fails?", "calls": [{"bash": {"command": "python3 check.py"}}]},
            {"calls": [{"read_file": {"path": "calc.py"}}]},
            {
                "text": "The count is one too high, and there is no note of the change.",
                "calls": [
                    {
                        "edit_file": {
                            "path": "calc.py",
                            "old_text": "(len(values) + 1)",
                            "new_text": "len(values)",
                        }
                    },
                    {
                        "write_file": {
                            "path": "docs/NOTES.md",
                            "content": "# Notes\n\nmean is a mean.\n",
                        }
                    },
                    {"edit_file": {"path": "calc.py", "old_text": "nowhere", "new_text": "x"}},
                ],
            },
            {
                "calls": [
                    {
                        "bash": {
                            "command": "python3 check.py && mkdir -p old && mv docs/NOTES.md old/"
                        }
                    }
                ]
            },
            {"calls": [{"bash": {"command": "cd old && ls && pwd"}}]},
            {"calls": [{"bash": {"command": "cat NOTES.md; false"}}]},
            "Both checks pass.",
        ]
    ),
    "denied": Case(
        mode="ask",
        deny=("bash(rm:*)",),
        replies=[
            {
                "calls": [
                    {"read_file": {"path": "calc.py"}},
                    {"write_file": {"path": "calc.py", "content": "gone\n"}},
                    {"bash": {"command": "rm -rf ."}},
                    {"no_such_tool": {}},
                    {"read_file": {}},
                ]
            },
            "I may not, so I leave it.",
        ],
    ),
    "background": Case(
        replies=[
            {
                "calls": [
                    {
                        "bash": {
                            "command": "while [ ! -e stop ]; do sleep 0.05; done; echo served",
                            "background": True,
                        }
                    }
                ]
            },
            {"calls": [{"bash": {"command": "echo ready; touch stop"}}]},
            {"calls": [{"read_file": {"path": "stop"}}]},
            "It ran and was stopped.",
        ]
    ),
    "parallel": Case(
        files={f"part{n}.txt": f"part {n}\n" * n for n in range(1, 6)},
        replies=[
            {
                "calls": [
                    *({"read_file": {"path": f"part{n}.txt"}} for n in range(1, 6)),
                    {"grep": {"pattern": "part [35]"}},
                    {"find_files": {"glob": "*.txt"}},
                    {"read_file": {"path": "part9.txt"}},
                    {"bash": {"command": "cat part*.txt | wc -l"}},
                    {"read_file": {"path": "part1.txt"}},
                ]
            },
            "Fifteen lines.",
        ],
    ),
    "provider_error": Case(
        play=two_turns,
        replies=[
            {"calls": [{"read_file": {"path": "calc.py"}}]},
            {"error": {"kind": "rate_limited", "message": "too many requests"}},
            {"text": "Again:", "calls": [{"grep": {"pattern": "def "}}]},
            {"text": "Two functions, and", "stop": "length"},
            "both are short.",
        ],
    ),
    "interrupted": Case(
        play=interrupted,
        replies=[
            {
                "text": "This takes a while.",
                "calls": [
                    {"read_file": {"path": "calc.py"}},
                    {"bash": {"command": "sleep 0.5; echo begun; sleep 60"}},
                    {"write_file": {"path": "never.txt", "content": "never\n"}},
                ],
            },
            {"calls": [{"read_file": {"path": "calc.py"}}]},
            "Read, this time.",
        ],
    ),
}


async def record(case: Case, *, workspace: Path, sessions: Path, script: Path) -> Path:
    settings = Settings(
        workspace=workspace,
        model=f"script/{script}",
        mode=case.mode,
        deny=case.deny,
        sessions=sessions,
    )
    printed = asyncio.Event()

    def listen(event: Event) -> None:
        if isinstance(event, CallProgress):
            printed.set()

    session = open_session(settings, listeners=[listen])
    await case.play(session, printed)
    await session.close(0)
    return session.paths.log


def write(name: str, case: Case) -> None:
    kept, scratch = SESSIONS / name, RECORDED_IN / name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.rmtree(scratch, ignore_errors=True)
    workspace, script = scratch / "work", scratch / "script.yaml"
    for path, text in case.files.items():
        for tree in (workspace, kept / "base"):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text(text)
    script.write_text(yaml.safe_dump(list(case.replies)))
    log = asyncio.run(
        record(case, workspace=workspace, sessions=scratch / "sessions", script=script)
    )
    shutil.copyfile(log, kept / "log.jsonl")
    shutil.rmtree(scratch)


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, XDG_CONFIG_HOME=home, XDG_STATE_HOME=home)
        for name in sys.argv[1:] or CASES:
            write(name, CASES[name])


if __name__ == "__main__":
    main()
