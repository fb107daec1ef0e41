"""The steps of a patch carried out: all of them, or none.

Files that go are removed last. Where a step fails, those before it are taken back, and whatever
could not be taken back is named in the error.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agentcli.machine.workspace import Workspace
from agentcli.tools.patching.plan import PatchStep
from agentcli.types.errors import ToolError


def apply_patch_steps(steps: Sequence[PatchStep], workspace: Workspace) -> tuple[str, ...]:
    """What a person may want to know about the files beside their text."""
    done: list[PatchStep] = []
    made: list[Path] = []
    notes: list[str] = []
    try:
        for step in sorted(steps, key=lambda step: step.after is None):
            made += _missing_folders(step)
            notes += _take(step, workspace)
            done.append(step)
    except BaseException as error:
        left = _roll_back(done, workspace)
        for folder in reversed(made):
            with suppress(OSError):  # something is in it that is not ours
                folder.rmdir()
        if left:
            names = ", ".join(step.path.given for step in left)
            raise ToolError(
                f"Only a part was applied: {names}. The rest failed: {error}"
            ) from error
        raise
    return tuple(notes)


def _missing_folders(step: PatchStep) -> list[Path]:
    parents = [path for path in step.path.path.parents if path.is_relative_to(step.path.root)]
    return [path for path in reversed(parents) if not path.exists()]


def _roll_back(done: Sequence[PatchStep], workspace: Workspace) -> list[PatchStep]:
    left: list[PatchStep] = []
    for step in reversed(done):
        try:
            _take(replace(step, before=step.after, after=step.before), workspace)
        except ToolError:
            left.append(step)
    return left


def _take(step: PatchStep, workspace: Workspace) -> tuple[str, ...]:
    if step.after is None:
        _remove(step, workspace)
        return ()
    notes = workspace.replace(step.path, step.after, expected=step.before).notes
    if step.before is None and step.mode is not None and hasattr(os, "fchmod"):
        with os.fdopen(workspace.open_file(step.path), "rb") as file:
            os.fchmod(file.fileno(), step.mode)
    return notes


def _remove(step: PatchStep, workspace: Workspace) -> None:
    *parents, name = step.path.parts
    folder_place = replace(step.path, relative="/".join(parents) or ".")
    with os.fdopen(workspace.open_file(step.path), "rb") as file:
        is_as_planned = file.read() == step.before
    if not is_as_planned:
        raise ToolError(f"{step.path.given} changed on disk meanwhile. Read it again.")
    with workspace.open_folder(folder_place) as folder:
        folder.unlink(name)
