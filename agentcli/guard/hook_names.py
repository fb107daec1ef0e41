"""The names other agents have for our tools and their arguments, for hooks written for those.

A hook is told of a call in the words its matcher uses: `Edit|Write` gets `file_path`, `edit_file`
gets `path`. A patch of several files is told to a hook that knows only `Edit` once for each file,
since such a hook looks at one path.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.guard.subject import patched_paths
from agentcli.types.messages import Json

COMMON_NAMES: Mapping[str, Sequence[str]] = {
    "bash": ("Bash",),
    "edit_file": ("Edit", "MultiEdit"),
    "write_file": ("Write",),
    "apply_patch": ("Edit", "MultiEdit", "Write"),
    "read_file": ("Read",),
    "grep": ("Grep",),
    "find_files": ("Glob",),
    "delegate": ("Task",),
}

_FIELDS: Mapping[str, Mapping[str, str]] = {
    "bash": {"background": "run_in_background"},
    "edit_file": {"path": "file_path", "old_text": "old_string", "new_text": "new_string"},
    "write_file": {"path": "file_path"},
    "read_file": {"path": "file_path"},
    "find_files": {"glob": "pattern"},
}

_EVERY_TOOL = ("", "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A call in the words one hook uses."""

    tool_name: str
    tool_input: Json
    fields: Mapping[str, str]
    """Our names of arguments to those it was told; empty: our own."""
    takes_changes: bool = True
    """Whether what it was told is all of the call, so that it can hand back another."""

    def ours(self, changed: dict[str, Json], given: Json) -> dict[str, Json]:
        """Arguments that the hook handed back, under our names."""
        names = {told: own for own, told in self.fields.items()}
        renamed = {names.get(key, key): value for key, value in changed.items()}
        if isinstance(given, dict) and isinstance(self.tool_input, dict):
            for own, told in self.fields.items():
                if own in given and renamed.get(own) == self.tool_input.get(told):
                    renamed[own] = given[own]
        return renamed


def known_as(matcher: str, tool: str) -> str | None:
    """By which name a matcher means this tool: ours where it can; None: it does not mean it."""
    if matcher in _EVERY_TOOL:
        return tool
    names = (tool, *COMMON_NAMES.get(tool, ()))
    return next((name for name in names if re.fullmatch(matcher, name)), None)


def tellings(name: str, tool: str, tool_input: Json, *, root: Path) -> Sequence[Telling]:
    """`name`: by which the hook knows the tool."""
    if name == tool:
        return [Telling(tool_name=tool, tool_input=tool_input, fields={})]
    if tool == "apply_patch":
        patch = _patch(tool_input)
        paths = patched_paths(tool_input) or [""]  # a patch without paths is shown, too
        return [
            Telling(
                tool_name=name,
                tool_input={"file_path": str(root / path), "patch": patch},
                fields={},
                takes_changes=False,
            )
            for path in paths
        ]
    fields = _FIELDS.get(tool, {})
    return [Telling(tool_name=name, tool_input=_told(tool_input, fields, root), fields=fields)]


def _told(tool_input: Json, fields: Mapping[str, str], root: Path) -> Json:
    if not isinstance(tool_input, dict):
        return tool_input
    told = {fields.get(key, key): value for key, value in tool_input.items()}
    path = told.get("file_path")
    if isinstance(path, str) and path:
        told["file_path"] = str(root / path)
    return told


def _patch(tool_input: Json) -> Json:
    return tool_input.get("patch", tool_input) if isinstance(tool_input, dict) else tool_input
