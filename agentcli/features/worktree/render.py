"""Worktrees as text: a list, what a merge did, and the question how one ends."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agentcli.features.worktree.engine import (
    WorktreeEnd,
    discard_worktree,
    find_record,
    iter_conflict_lines,
    merge_worktree,
)
from agentcli.session.worktrees import (
    Worktree,
    Worktrees,
    enter_worktree,
    find_worktree,
    open_worktrees,
)
from agentcli.system.files import resolve_directory, shorten_home
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import AgentError, Exit, UsageError
from agentcli.types.words import pluralize
from agentcli.ui.report import print_line
from agentcli.ui.streams import write_err

PATHS_SHOWN = 10
CONFLICT_LINES = 30


def enter_and_say(workspace: Path, name: str, *, quiet: bool = False) -> Path:
    """Return the directory of a worktree, and say what the user may not expect of it."""
    worktree, surprises = enter_worktree(resolve_directory(workspace), name)
    lines = (f"worktree {worktree.name}: {shorten_home(worktree.tree)}", *surprises)
    _say_beside(() if quiet else lines)
    return worktree.workspace


def say_kept(workspace: Path, *, quiet: bool = False) -> None:
    """Say where the changes of a run are, or remove a worktree without any."""
    worktree = find_worktree(workspace)
    if worktree is not None:
        lines = list(render_kept(Worktrees(worktree.checkout), worktree))
        _say_beside(() if quiet else lines)


def render_kept(trees: Worktrees, worktree: Worktree) -> Iterator[str]:
    """Render a worktree that stays; one in which nothing was changed is removed."""
    changes = trees.find_changes(worktree)
    if not changes and not describe_losses(trees, worktree):
        trees.remove(worktree, keeps_commits=False)
        yield f"worktree {worktree.name}: nothing was changed, so it was removed"
        return
    yield f"worktree {worktree.name}: {pluralize(len(changes), 'file')} changed, kept"
    if unmerged := trees.find_unmerged(worktree):
        yield describe_unmerged(unmerged)
    yield f"merge it: agentcli worktree merge {_name_place(worktree)}{worktree.name}"


def _name_place(worktree: Worktree) -> str:
    return f"-C {worktree.checkout} " if worktree.checkout != Path.cwd() else ""


def _name_discard(worktree: Worktree) -> str:
    return f"agentcli worktree discard {_name_place(worktree)}{worktree.name} --yes"


def describe_unmerged(names: Sequence[str]) -> str:
    """Return why a merged worktree is kept."""
    return f"it has what is never merged and nowhere else: {', '.join(names[:PATHS_SHOWN])}"


def render_worktrees(trees: Worktrees) -> list[str]:
    """Render all worktrees, also those whose directory was removed."""
    return [
        *(render_worktree(trees, one) for one in trees.list_all()),
        *(
            f"{one.name:<16} its directory was removed  branch {one.branch}  make it again: "
            f"agentcli -w {one.name}"
            for one in trees.list_lost()
        ),
    ]


def render_worktree(trees: Worktrees, worktree: Worktree) -> str:
    changed = pluralize(len(trees.find_changes(worktree)), "file")
    branch = f"  branch {worktree.branch}" if worktree.branch else ""
    return f"{worktree.name:<16} {changed} changed{branch}  {shorten_home(worktree.workspace)}"


def render_end(ended: WorktreeEnd) -> Iterator[str]:
    worktree = ended.worktree
    if ended.report is None:
        yield f"Discarded the worktree {worktree.name}."
        if ended.commit:
            yield f"Its last commit was {ended.commit[:12]}."
        return
    merged = ended.report.merged
    if merged:
        more = f" and {len(merged) - PATHS_SHOWN} more" if len(merged) > PATHS_SHOWN else ""
        files = pluralize(len(merged), "file")
        yield f"Merged {files} into {worktree.checkout}: {', '.join(merged[:PATHS_SHOWN])}{more}"
    elif not ended.has_conflicts:
        yield "Nothing to merge: your files have all of its changes."
    for one in ended.report.conflicts:
        yield f"CONFLICT {one.path}: {one.reason}"
    yield from _render_rest(ended)
    if ended.branches:
        which = "branch" if len(ended.branches) == 1 else "branches"
        yield f"Its commits stay on the {which} {' and '.join(ended.branches)}."


def _render_rest(ended: WorktreeEnd) -> Iterator[str]:
    """Render whether a merged worktree stays, and why."""
    worktree = ended.worktree
    if ended.saved is not None:
        yield from iter_conflict_lines(ended.saved, limit=CONFLICT_LINES)
        yield f"Your version stays. Both, with markers: {ended.saved}"
        yield f"The worktree stays, too: {worktree.workspace}"
    elif ended.unmerged:
        yield f"The worktree stays: {describe_unmerged(ended.unmerged)}."
        yield f"It is in {worktree.tree}. To remove it: {_name_discard(worktree)}"
    else:
        yield f"Removed the worktree {worktree.name}."


def describe_losses(trees: Worktrees, worktree: Worktree) -> str:
    """Return what would be lost with a worktree; empty if nothing would."""
    changed = len(trees.find_changes(worktree))
    found = (
        pluralize(changed, "changed file") if changed else "",
        "the commits" if trees.has_commits(worktree) else "",
        *trees.find_unmerged(worktree)[:PATHS_SHOWN],
    )
    losses = " and ".join(filter(None, found))
    return f"{losses} of {worktree.name}" if losses else ""


def show_worktrees(workspace: Path) -> Exit:
    trees = open_worktrees(resolve_directory(workspace))
    lines = render_worktrees(trees)
    for line in lines:
        print_line(line)
    if not lines:
        write_err("no worktrees: agentcli -w NAME makes one\n")
    return Exit.DONE


def merge_by_name(workspace: Path, name: str) -> Exit:
    trees = open_worktrees(resolve_directory(workspace))
    worktree = trees.find(name)
    ended = merge_worktree(trees, worktree, into=find_record(trees, worktree))
    for line in render_end(ended):
        print_line(line)
    return Exit.VERIFY_FAILED if ended.has_conflicts else Exit.DONE


def discard_by_name(workspace: Path, name: str, *, is_confirmed: bool) -> Exit:
    trees = open_worktrees(resolve_directory(workspace))
    lost = next((one for one in trees.list_lost() if one.name == name), None)
    worktree = lost or trees.find(name)
    if lost is not None:
        losses = f"the commits on {lost.branch}" if trees.has_commits(lost) else ""
    else:
        losses = describe_losses(trees, worktree)
    if losses and not is_confirmed:
        raise UsageError(f"{losses} would be lost", hint=f"agentcli worktree discard {name} --yes")
    for line in render_end(discard_worktree(trees, worktree)):
        print_line(line)
    return Exit.DONE


# The question at the end of a session


def ask_ending(workspace: Path) -> None:
    """Ask what becomes of the worktree. Keep it if there is no answer."""
    worktree = find_worktree(workspace)
    if worktree is None:
        return
    trees = Worktrees(worktree.checkout)
    changes = trees.find_changes(worktree)
    if changes and sys.stdin.isatty():
        files = pluralize(len(changes), "changed file")
        answer = _ask(f"Worktree {worktree.name} has {files}. [k]eep [m]erge [d]iscard ")
        try:
            if answer in ("m", "merge"):
                ended = merge_worktree(trees, worktree, into=find_record(trees, worktree))
            elif answer in ("d", "discard"):
                ended = discard_worktree(trees, worktree)
            else:
                ended = None
        except AgentError as error:
            write_err(f"{show_controls(str(error))}\n")
            ended = None
        if ended is not None:
            for line in render_end(ended):
                print_line(line)
            return
    _say_beside(render_kept(trees, worktree))


def _ask(question: str) -> str:
    try:
        return input(question).strip().lower()
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")
        return ""


def _say_beside(lines: Iterable[str]) -> None:
    for line in lines:
        write_err(f"{show_controls(line)}\n")
