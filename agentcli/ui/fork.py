"""A fork and its original, side by side."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from agentcli.app.fork import Branches, Fork, Wish, fork_session, go_on
from agentcli.machine.plain import visible
from agentcli.record.fork.course import Course
from agentcli.record.sessions import Summary, find_session, summary_of
from agentcli.settings import Settings, load
from agentcli.types.errors import Exit, SettingsError
from agentcli.ui.plain import PlainPage, Story

COLUMN = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class Otherwise:
    """What the command line changes."""

    model: str | None
    mode: str | None
    policy: Path | None
    result_file: Path | None

    def settings(self, recorded: Summary, tree: Path) -> Settings:
        flags = {"model": self.model or recorded.model, "mode": self.mode or recorded.mode}
        return load(flags, workspace=tree, policy=self.policy)


def fork_and_compare(named: str, *, at: str | None, prompt: str, otherwise: Otherwise) -> Exit:
    origin = find_session(named)
    wish = Wish(at=at, prompt=prompt, result=_content(otherwise.result_file))
    made = fork_session(origin, wish)
    if at is None and not prompt:
        sys.stdout.write(f"{made.place.id}\n")
        sys.stderr.write(f"go on with it: agentcli run --resume {made.place.id} PROMPT\n")
        return Exit.DONE
    recorded = summary_of(origin)
    branches = asyncio.run(
        go_on(
            made,
            wish,
            lambda tree: otherwise.settings(recorded, tree),
            listeners=[Story(PlainPage(bodies=False))],
        )
    )
    for line in _lines(made, branches):
        sys.stdout.write(visible(line) + "\n")
    return branches.exit_code


def _content(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SettingsError(
            f"cannot read {path}: {error.strerror}", hint="name the file with the result"
        ) from error


def _lines(made: Fork, branches: Branches) -> list[str]:
    rows = [("", "original", "fork"), ("session", made.origin.id, made.place.id)]
    sides = [_cells(branches.original), _cells(branches.fork)]
    rows += [(name, sides[0][name], sides[1][name]) for name in sides[0]]
    table = [f"{name:<9} {_cut(one):<{COLUMN}}  {_cut(other)}" for name, one, other in rows]
    diff = branches.diff.splitlines() or ["both leave the same files"]
    return [
        *(line.rstrip() for line in table),
        f"the fork worked in {branches.tree}",
        "",
        *(["--- original", "+++ fork"] if branches.diff else []),
        *diff,
    ]


def _cells(course: Course) -> dict[str, str]:
    spending, used = course.spending, course.spending.usage
    changed = ", ".join(f"{path} +{add} -{cut}" for path, (add, cut) in course.changed.items())
    return {
        "model": course.model,
        "ending": course.ending,
        "requests": str(spending.requests),
        "tokens": f"{used.prompt_tokens} in, {used.output_tokens} out",
        "cost": spending.cost,
        "calls": f"{course.calls}, {course.failed} failed, {course.denied} denied",
        "changed": changed or "nothing",
        "answer": " ".join(course.answer.split()),
    }


def _cut(text: str) -> str:
    return text if len(text) <= COLUMN else text[: COLUMN - 1] + "…"
