"""The slash command that moves the session into a worktree, or ends one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.features.worktree.engine import (
    WorktreeEnd,
    build_record,
    discard_worktree,
    merge_worktree,
)
from agentcli.features.worktree.render import (
    describe_losses,
    render_end,
    render_worktree,
    render_worktrees,
)
from agentcli.session.worktrees import (
    RESERVED_NAMES,
    Worktree,
    Worktrees,
    enter_worktree,
    find_worktree,
    open_worktrees,
)
from agentcli.types.errors import UsageError
from agentcli.types.events import NoteReason, TurnStarted
from agentcli.ui.render.paint import escape
from agentcli.ui.repl.commands.registry import CommandHost
from agentcli.ui.repl.picker import PickerRow

ACTIONS = {
    "merge": "merge its changes into your files, and return there",
    "keep": "return to your files; the worktree stays",
    "discard": "remove it with its changes, and return",
}
NOTES = {
    "enter": "The user moved the session into the git worktree {name}, {to}. It has what was "
    "committed or changed there: other changes of this conversation are not in it.",
    "merge": "The user merged the worktree {name} and went back to {to}.",
    "keep": "The user went back to {to}. What was changed in the worktree {name} is not there.",
    "discard": "The user discarded the worktree {name} with its changes and went back to {to}.",
}
"""What the model needs to know of a move."""


def list_worktree_arguments(host: CommandHost) -> Sequence[tuple[str, str]]:
    return list(ACTIONS.items())


async def run_worktree(host: CommandHost, rest: str) -> None:
    settings = host.settings
    trees = open_worktrees(settings.workspace, sessions=settings.sessions)
    current = find_worktree(settings.workspace)
    if not rest or rest == "list":
        _show(host, trees, current=current)
        return
    if host.is_busy:
        raise UsageError("a turn is running", hint="stop it with esc, then try again")
    if rest in RESERVED_NAMES:
        if current is None:
            raise UsageError("this session is in no worktree", hint="/worktree NAME")
        await _end(host, trees, worktree=current, action=rest)
        return
    if current is not None:
        raise UsageError(f"this session is in the worktree {current.name}", hint="/worktree keep")
    worktree, surprises = enter_worktree(settings.workspace, rest, sessions=settings.sessions)
    host.say("\n".join(map(escape, (f"Worktree {worktree.name}", *surprises))), "dim")
    _move(
        host, worktree.workspace, note=NOTES["enter"].format(name=worktree.name, to=worktree.tree)
    )


def _show(host: CommandHost, trees: Worktrees, *, current: Worktree | None) -> None:
    if current is not None:
        host.say(escape(f"In the worktree {' '.join(render_worktree(trees, current).split())}"))
        host.print_table([(f"/worktree {name}", what) for name, what in ACTIONS.items()])
        return
    lines = render_worktrees(trees)
    lines += ["Not in a worktree. /worktree NAME moves this session into one."]
    host.say("\n".join(map(escape, lines)))


async def _end(host: CommandHost, trees: Worktrees, *, worktree: Worktree, action: str) -> None:
    session = host.session
    ended: WorktreeEnd | None = None
    if action == "merge":
        record = build_record(session.paths, session.journal.append)
        ended = merge_worktree(trees, worktree, into=record)
    elif action == "discard":
        if not await _confirm_discard(host, trees, worktree=worktree):
            host.say("Nothing was discarded.", "dim")
            return
        ended = discard_worktree(trees, worktree)
    if ended is not None:
        host.say("\n".join(map(escape, render_end(ended))))
        if ended.has_conflicts:
            return
    note = NOTES[action].format(name=worktree.name, to=worktree.checkout)
    _move(host, worktree.checkout, note=note)


async def _confirm_discard(host: CommandHost, trees: Worktrees, *, worktree: Worktree) -> bool:
    losses = describe_losses(trees, worktree)
    if not losses:
        return True
    rows = [PickerRow(label="no"), PickerRow(label=f"yes, {losses}")]
    return await host.choose(f"Discard the worktree {worktree.name}?", rows) == 1


def _move(host: CommandHost, workspace: Path, *, note: str) -> None:
    """End the session here; it goes on in the other directory."""
    if any(isinstance(fact, TurnStarted) for fact in host.session.facts):
        note = f"[{note} Read files again before you rely on their content.]"
        host.session.add_note(note, reason=NoteReason.ENVIRONMENT)
    model = host.session.model.name
    host.settings = replace(host.settings, workspace=workspace, model=model, mode=host.mode)
    host.leave()
