"""The comparison of a fork with its original, side by side."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from agentcli.features.fork.engine import (
    CourseSummary,
    Fork,
    ForkChanges,
    ForkComparison,
    continue_fork,
    fork_session,
)
from agentcli.log.sessions import SessionSummary, find_session, summarize
from agentcli.settings import load_settings
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, SettingsError
from agentcli.types.settings import Settings
from agentcli.ui.oneshot.plain import ProgressRenderer, StderrSink

COLUMN = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkOptions:
    """The changes made on the command line."""

    model: str | None
    mode: str | None
    policy: Path | None
    result_file: Path | None

    def load_settings(self, recorded: SessionSummary, tree: Path) -> Settings:
        options = {
            "model": self.model or recorded.model,
            "mode": self.mode or recorded.mode,
            "policy": self.policy,
        }
        return load_settings(options, workspace=tree, command="fork")


def fork_and_compare(named: str, *, at: str | None, prompt: str, options: ForkOptions) -> Exit:
    origin = find_session(named)
    changes = ForkChanges(at=at, prompt=prompt, result=_read_result(options.result_file))
    made = fork_session(origin, changes)
    if at is None and not prompt:
        sys.stdout.write(f"{made.paths.id}\n")
        sys.stderr.write(f"continue it: agentcli run --resume {made.paths.id} PROMPT\n")
        return Exit.DONE
    recorded = summarize(origin)
    branches = asyncio.run(
        continue_fork(
            made,
            changes,
            build_settings=lambda tree: options.load_settings(recorded, tree),
            listeners=[ProgressRenderer(StderrSink(bodies=False))],
        )
    )
    for line in _render_comparison(made, branches):
        sys.stdout.write(show_controls(line) + "\n")
    return branches.exit_code


def _read_result(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SettingsError(
            f"cannot read {path}: {error.strerror}", hint="choose a file with the result"
        ) from error


def _render_comparison(made: Fork, branches: ForkComparison) -> list[str]:
    rows = [("", "original", "fork"), ("session", made.origin.id, made.paths.id)]
    sides = [_format_cells(branches.original), _format_cells(branches.fork)]
    rows += [(name, sides[0][name], sides[1][name]) for name in sides[0]]
    table = [f"{name:<9} {_cut(one):<{COLUMN}}  {_cut(other)}" for name, one, other in rows]
    diff = branches.diff.splitlines() or ["no difference in the files"]
    return [
        *(line.rstrip() for line in table),
        f"the fork ran in {branches.tree}",
        "",
        *(["--- original", "+++ fork"] if branches.diff else []),
        *diff,
    ]


def _format_cells(course: CourseSummary) -> dict[str, str]:
    spending, used = course.spending, course.spending.usage
    changed = ", ".join(f"{path} +{add} -{cut}" for path, (add, cut) in course.changed.items())
    return {
        "model": course.model,
        "ending": course.ending,
        "requests": str(spending.requests),
        "tokens": f"{used.prompt_tokens} in, {used.output_tokens} out",
        "cost": spending.cost_text,
        "calls": f"{course.calls}, {course.failed} failed, {course.denied} denied",
        "changed": changed or "nothing",
        "answer": " ".join(course.answer.split()),
    }


def _cut(text: str) -> str:
    return text if len(text) <= COLUMN else text[: COLUMN - 1] + "…"
