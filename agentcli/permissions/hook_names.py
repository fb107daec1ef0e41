"""Calls in the names that hooks of this field are written for, and changes back in ours.

A hook is told of a call in the common names: `Bash`, `Edit`, `file_path`, `mcp__SERVER__TOOL`. Only
one whose matcher was written for our name and for no common one is told in ours. A patch is told
once for each file, since a hook looks at one path.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.permissions.hook_process import HookProblem
from agentcli.permissions.subject import KNOWN_TOOLS, find_patched_paths
from agentcli.types.messages import Json

# Which names a hook's matcher means, by the rule that is common in this field.


_EVERY_NAME = ("", "*")
_LIST = re.compile(r"[\w ,|-]+", re.ASCII)
_OF_A_SERVER = re.compile(r"mcp__.+__")


def is_catch_all(matcher: str) -> bool:
    return matcher.strip() in _EVERY_NAME


def fits(matcher: str, name: str) -> bool:
    """Raises re.error for a matcher that is no regular expression."""
    if is_catch_all(matcher):
        return True
    if _LIST.fullmatch(matcher):
        return name in _words(matcher)
    return re.search(matcher, name) is not None


def names_all_of(matcher: str, name: str) -> bool:
    """Whether the matcher was written for this very name, and not for every one."""
    if is_catch_all(matcher):
        return False
    if _LIST.fullmatch(matcher):
        return name in _words(matcher)
    return re.fullmatch(matcher, name) is not None


def may_ever_fit(matcher: str, names: Iterable[str]) -> bool:
    """Whether it fits one of the names, or may fit a tool of a server that is not known yet."""
    if any(fits(matcher, name) for name in names):
        return True
    if _LIST.fullmatch(matcher):
        return any(_OF_A_SERVER.match(word) for word in _words(matcher))
    return "__" in matcher


def _words(matcher: str) -> list[str]:
    return [word.strip() for word in re.split(r"[|,]", matcher)]


COMMON_NAMES: Mapping[str, Sequence[str]] = {
    "bash": ("Bash",),
    "edit_file": ("Edit", "MultiEdit"),
    "write_file": ("Write",),
    "apply_patch": ("Edit", "Write", "MultiEdit"),
    "read_file": ("Read",),
    "grep": ("Grep",),
    "find_files": ("Glob",),
    "delegate": ("Task", "Agent"),
    "exit": ("prompt_input_exit",),
}
"""Of tools, and of how a session ended; the first is told unless the matcher means another."""

COMMON_MODES: Mapping[str, str] = {
    "ask": "default",
    "auto-edit": "acceptEdits",
    "auto": "bypassPermissions",
}

_FIELDS: Mapping[str, Mapping[str, str]] = {
    "bash": {"background": "run_in_background"},
    "edit_file": {"path": "file_path", "old_text": "old_string", "new_text": "new_string"},
    "write_file": {"path": "file_path"},
    "read_file": {"path": "file_path"},
    "grep": {
        "ignore_case": "-i",
        "context": "-C",
        "mode": "output_mode",
        "limit": "head_limit",
    },
    "find_files": {"glob": "pattern"},
    "delegate": {"task": "prompt", "role": "subagent_type"},
}
_WITH_PATH = ("edit_file", "write_file", "read_file", "grep", "find_files")
_WITHOUT_MEANING: Mapping[str, Sequence[str]] = {
    "bash": ("description",),
    "delegate": ("description",),
}
"""What a hook may hand back beside the arguments, for people."""
_FILES_MODE = ("files", "files_with_matches")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedFile:
    """What a patch does to one file."""

    path: str
    old_text: str = ""
    new_text: str = ""
    is_whole: bool = False
    """Whether the new text is all that will be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCall:
    """A call as the tool itself understands it."""

    tool: str
    input: Json
    """Under the tool's own names, whatever names the model used."""
    server: str = ""
    """Of MCP; empty for our own tools."""
    server_tool: str = ""
    files: Sequence[TouchedFile] = ()
    """Of a patch."""

    @property
    def common_names(self) -> Sequence[str]:
        """Empty: other agents have no such tool."""
        if not self.server:
            return COMMON_NAMES.get(self.tool, ())
        parts = (_NOT_IN_NAMES.sub("_", part) for part in (self.server, self.server_tool))
        return ("__".join(("mcp", *parts)), f"mcp__{self.tool}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCallView:
    """A call in the words one hook uses."""

    call: OwnCall
    tool_name: str
    tool_input: Json
    takes_changes: bool = True
    """Whether what it was told is all of the call, so that it can hand back another."""

    @property
    def is_in_our_names(self) -> bool:
        return self.tool_name == self.call.tool

    @property
    def file_path(self) -> Json:
        """Empty: it is not about one file, or it is told in our names."""
        return self.tool_input.get("file_path", "") if isinstance(self.tool_input, dict) else ""

    def translate_back(self, changed: dict[str, Json]) -> dict[str, Json]:
        """Return arguments that the hook handed back, under our names. Raises HookProblem."""
        if self.is_in_our_names or self.call.server:
            return changed
        tool = self.call.tool
        names = {told: own for own, told in _FIELDS.get(tool, {}).items()}
        ours: dict[str, Json] = {}
        for key, value in changed.items():
            if key in _WITHOUT_MEANING.get(tool, ()):
                continue
            own = names.get(key, key)
            if own in ours:
                raise HookProblem(f"printed an updatedInput that says twice what {own} is")
            ours[own] = self._own_value(own, key, value)
        return ours

    def _own_value(self, own: str, key: str, value: Json) -> Json:
        given, told = self.call.input, self.tool_input
        if not isinstance(given, dict) or not isinstance(told, dict):
            return value
        if own in given and value == told.get(key):
            return given[own]
        return _own_value(self.call.tool, own, value)


def tell_call(matcher: str, call: OwnCall, *, root: Path) -> Sequence[HookCallView]:
    """Return the call in the words of a hook with this matcher; empty: it does not mean it."""
    meant = [name for name in call.common_names if fits(matcher, name)]
    if _means_ours(matcher, call, meant):
        return [HookCallView(call=call, tool_name=call.tool, tool_input=call.input)]
    if not meant:
        return ()
    if call.tool == "apply_patch":
        return list(_tell_files(meant, call, root))
    return [_tell(meant[0], call, root)]


def fits_subject(matcher: str, subject: str) -> bool:
    """Whether a matcher means this beginning or end of a session."""
    return any(fits(matcher, name) for name in (subject, *COMMON_NAMES.get(subject, ())))


def fits_some_tool(matcher: str, names: Iterable[str]) -> bool:
    """Whether it means any tool there is, `names` being those beside our own."""
    own = {*KNOWN_TOOLS, *names}
    common = (name for tool in own for name in COMMON_NAMES.get(tool, (f"mcp__{tool}",)))
    return may_ever_fit(matcher, (*own, *common))


def _means_ours(matcher: str, call: OwnCall, meant: Sequence[str]) -> bool:
    if not meant:
        return fits(matcher, call.tool)
    whole = any(names_all_of(matcher, name) for name in meant)
    return names_all_of(matcher, call.tool) and not whole


def _tell(name: str, call: OwnCall, root: Path) -> HookCallView:
    if call.server or not isinstance(call.input, dict):
        return HookCallView(call=call, tool_name=name, tool_input=call.input)
    fields = _FIELDS.get(call.tool, {})
    told = {
        fields.get(own, own): _common_value(call.tool, own, value, root)
        for own, value in call.input.items()
    }
    if name == "MultiEdit":
        path = told.pop("file_path", "")
        several: dict[str, Json] = {"file_path": path, "edits": [told]}
        return HookCallView(call=call, tool_name=name, tool_input=several, takes_changes=False)
    return HookCallView(call=call, tool_name=name, tool_input=told)


def _tell_files(meant: Sequence[str], call: OwnCall, root: Path) -> Iterator[HookCallView]:
    patch = call.input.get("patch", call.input) if isinstance(call.input, dict) else call.input
    for file in call.files or _files_of_text(call.input, str(patch)):
        natural = "Write" if file.is_whole else "Edit"
        name = natural if natural in meant else meant[0]
        edit: dict[str, Json] = {"old_string": file.old_text, "new_string": file.new_text}
        match name:
            case "Write":
                edit = {"content": file.new_text}
            case "MultiEdit":
                edit = {"edits": [edit]}
        told = {"file_path": _absolute(file.path, root), **edit, "patch": patch}
        yield HookCallView(call=call, tool_name=name, tool_input=told, takes_changes=False)


def _files_of_text(tool_input: Json, patch: str) -> Sequence[TouchedFile]:
    """Of a patch that its tool does not understand: it is shown all the same."""
    paths = find_patched_paths(tool_input) or [""]
    return [TouchedFile(path=path, new_text=patch) for path in paths]


def _common_value(tool: str, own: str, value: Json, root: Path) -> Json:
    if own == "path" and tool in _WITH_PATH and isinstance(value, str) and value:
        return _absolute(value, root)
    if (tool, own) == ("bash", "timeout") and isinstance(value, int):
        return value * 1000
    if (tool, own) == ("grep", "mode") and value == _FILES_MODE[0]:
        return _FILES_MODE[1]
    return value


def _own_value(tool: str, own: str, value: Json) -> Json:
    """What cannot be translated is left to the tool to refuse."""
    if (tool, own) == ("bash", "timeout") and isinstance(value, int | float):
        return math.ceil(value / 1000) if math.isfinite(value) else value
    if (tool, own) == ("grep", "mode") and value == _FILES_MODE[1]:
        return _FILES_MODE[0]
    return value


def _absolute(path: str, root: Path) -> str:
    return os.path.normpath(root / path)
