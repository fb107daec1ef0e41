"""Translation of calls into the names that common agent hooks use, and of changes back into ours.

A hook gets a call under the common names: `Bash`, `Edit`, `file_path`, `mcp__SERVER__TOOL`. It gets
our names only if its matcher was written for our name and for no common one, or if it matches every
tool and its script tests our names and no common ones. A patch is passed once for each file, since
a hook looks at one path.
"""

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.permissions.hook_process import HookProblem
from agentcli.permissions.subject import KNOWN_TOOLS, find_patched_paths
from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.own_tools import EDITING, OWN_TOOLS, READING

# Matchers: which names they match, by the common rule


_EVERY_NAME = ("", "*")
_LIST_OF_NAMES = compile_later(r"[\w ,|-]+", re.ASCII)
_OF_A_SERVER = compile_later(r"mcp__.+__")


def is_catch_all(matcher: str) -> bool:
    return matcher.strip() in _EVERY_NAME


def check_matcher(matcher: str) -> None:
    """Raise re.error if the matcher is not a regular expression.

    Nothing is matched: that may take for ever, and a project's hooks are read before it is trusted.
    """
    if not is_catch_all(matcher):
        re.compile(matcher)


def fits(matcher: str, name: str) -> bool:
    """Return whether the matcher matches the name."""
    if is_catch_all(matcher):
        return True
    if _LIST_OF_NAMES.fullmatch(matcher):
        return name in _split_words(matcher)
    return re.search(matcher, name) is not None


def names_exactly(matcher: str, name: str) -> bool:
    """Return whether the matcher was written for exactly this name, and not for every name."""
    if is_catch_all(matcher):
        return False
    if _LIST_OF_NAMES.fullmatch(matcher):
        return name in _split_words(matcher)
    return re.fullmatch(matcher, name) is not None


def may_ever_fit(matcher: str, names: Iterable[str]) -> bool:
    """Return whether it matches one of the names, or may match a tool of a server not known yet."""
    if any(fits(matcher, name) for name in names):
        return True
    if _LIST_OF_NAMES.fullmatch(matcher):
        return any(_OF_A_SERVER.match(word) for word in _split_words(matcher))
    return "__" in matcher


_OUR_NAMES = compile_later(
    r"""\b(?:edit_file|write_file|read_file|find_files|apply_patch)\b|(["'])bash\1|\bbash\)|=\s+bash\b"""
)
_COMMON_NAMES = compile_later(
    r"\b(?:Bash|Edit|MultiEdit|Write|Read|Grep|Glob|Task|file_path|old_string|new_string)\b"
)


def tests_our_names(text: str) -> bool:
    """Return whether the text of a hook names our tools, and neither tools nor fields of others."""
    return bool(_OUR_NAMES.search(text)) and not _COMMON_NAMES.search(text)


def _split_words(matcher: str) -> list[str]:
    return [word.strip() for word in re.split(r"[|,]", matcher)]


COMMON_NAMES: Mapping[str, Sequence[str]] = {
    **{name: tool.hook_names for name, tool in OWN_TOOLS.items() if tool.hook_names},
    "exit": ("prompt_input_exit",),
}
"""Common names of tools and of ways a session ends. The first is used unless the matcher names
another.
"""

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
        "before": "-B",
        "after": "-A",
        "mode": "output_mode",
        "limit": "head_limit",
    },
    "find_files": {"glob": "pattern"},
    "delegate": {"task": "prompt", "role": "subagent_type"},
}
_COMMON_TEXTS = {"old": "old_string", "new": "new_string", "rep": "replace_all"}
"""The common names of the fields of one of several edits, by how all of their names begin."""
_WITHOUT_MEANING: Mapping[str, Sequence[str]] = {
    "bash": ("description",),
    "delegate": ("description",),
}
"""Fields for people that a hook may return beside the arguments. They are ignored."""
_FILES_MODE = ("files", "files_with_matches")
_NOT_IN_NAMES = compile_later(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedFile:
    """The change that a patch makes to one file."""

    path: str
    old_text: str = ""
    new_text: str = ""
    is_whole: bool = False
    """True if the new text is the whole content of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCall:
    """A call as the tool itself understands it."""

    tool: str
    input: Json
    """The arguments under the tool's own names, whatever names the model used."""
    server: str = ""
    """The MCP server; empty for our own tools."""
    server_tool: str = ""
    files: Sequence[TouchedFile] = ()
    """The files of a patch."""

    @property
    def common_names(self) -> Sequence[str]:
        """The names that other agents use for this tool; empty if they have no such tool."""
        if not self.server:
            return COMMON_NAMES.get(self.tool, ())
        parts = (_NOT_IN_NAMES.sub("_", part) for part in (self.server, self.server_tool))
        return ("__".join(("mcp", *parts)), f"mcp__{self.tool}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookCallView:
    """A call under the names that one hook uses."""

    call: OwnCall
    tool_name: str
    tool_input: Json
    takes_changes: bool = True
    """True if the hook got the whole call, so that it can return a changed one."""

    @property
    def is_in_our_names(self) -> bool:
        return self.tool_name == self.call.tool

    @property
    def file_path(self) -> Json:
        """The one file that the call is about.

        Empty if it is not about one file, or if the hook gets our names.
        """
        return self.tool_input.get("file_path", "") if isinstance(self.tool_input, dict) else ""

    def translate_back(self, changed: dict[str, Json]) -> dict[str, Json]:
        """Return the hook's changed arguments under our names.

        Raise HookProblem if an argument is given twice.
        """
        if self.is_in_our_names or self.call.server:
            return changed
        tool = self.call.tool
        names = {foreign: own for own, foreign in _FIELDS.get(tool, {}).items()}
        ours: dict[str, Json] = {}
        for key, value in changed.items():
            if key in _WITHOUT_MEANING.get(tool, ()):
                continue
            own = names.get(key, key)
            if own in ours:
                raise HookProblem(f"printed an updatedInput that sets {own} twice")
            ours[own] = self._choose_own_value(own, key, value=value)
        return ours

    def _choose_own_value(self, own: str, key: str, *, value: Json) -> Json:
        given, foreign = self.call.input, self.tool_input
        if not isinstance(given, dict) or not isinstance(foreign, dict):
            return value
        if own in given and value == foreign.get(key):
            return given[own]
        return _to_own_value(self.call.tool, own, value=value)


def describe_call(
    matcher: str, call: OwnCall, *, root: Path, is_ours: bool = False
) -> Sequence[HookCallView]:
    """Return the call under the names of a hook with this matcher; empty if it does not match.

    `is_ours` is True if the hook tests our names."""
    meant = [name for name in call.common_names if fits(matcher, name)]
    if _means_ours(matcher, call, meant=meant) or (is_ours and is_catch_all(matcher)):
        return [HookCallView(call=call, tool_name=call.tool, tool_input=call.input)]
    if not meant:
        return ()
    if call.tool == "apply_patch":
        return list(_describe_files(meant, call, root=root))
    edits = call.input.get("edits") if isinstance(call.input, dict) else None
    if call.tool == "edit_file" and isinstance(edits, list) and edits:
        return _describe_edits(meant[0], call, edits=edits, root=root)
    return [_describe(meant[0], call, root=root)]


def fits_subject(matcher: str, subject: str) -> bool:
    """Return whether a matcher matches this beginning or end of a session."""
    return any(fits(matcher, name) for name in (subject, *COMMON_NAMES.get(subject, ())))


def fits_some_tool(matcher: str, names: Iterable[str]) -> bool:
    """Return whether it matches any tool. `names` are the tools besides our own."""
    own = {*KNOWN_TOOLS, *names}
    common = (name for tool in own for name in COMMON_NAMES.get(tool, (f"mcp__{tool}",)))
    return may_ever_fit(matcher, (*own, *common))


def _means_ours(matcher: str, call: OwnCall, *, meant: Sequence[str]) -> bool:
    if not meant:
        return fits(matcher, call.tool)
    whole = any(names_exactly(matcher, name) for name in meant)
    return names_exactly(matcher, call.tool) and not whole


def _describe(name: str, call: OwnCall, *, root: Path) -> HookCallView:
    if call.server or not isinstance(call.input, dict):
        return HookCallView(call=call, tool_name=name, tool_input=call.input)
    fields = _FIELDS.get(call.tool, {})
    tool_input = {
        fields.get(own, own): _to_common_value(call.tool, own, value=value, root=root)
        for own, value in call.input.items()
    }
    if name == "MultiEdit":
        path = tool_input.pop("file_path", "")
        several: dict[str, Json] = {"file_path": path, "edits": [tool_input]}
        return HookCallView(call=call, tool_name=name, tool_input=several, takes_changes=False)
    return HookCallView(call=call, tool_name=name, tool_input=tool_input)


def _describe_files(meant: Sequence[str], call: OwnCall, *, root: Path) -> Iterator[HookCallView]:
    patch = call.input.get("patch", call.input) if isinstance(call.input, dict) else call.input
    for file in call.files or _list_unparsed_files(call.input, str(patch)):
        natural = "Write" if file.is_whole else "Edit"
        name = natural if natural in meant else meant[0]
        edit: dict[str, Json] = {"old_string": file.old_text, "new_string": file.new_text}
        match name:
            case "Write":
                edit = {"content": file.new_text}
            case "MultiEdit":
                edit = {"edits": [edit]}
        fields = {"file_path": _to_absolute(file.path, root), **edit, "patch": patch}
        yield HookCallView(call=call, tool_name=name, tool_input=fields, takes_changes=False)


def _describe_edits(
    name: str, call: OwnCall, *, edits: Sequence[Json], root: Path
) -> list[HookCallView]:
    """Return a call with several edits: whole as MultiEdit, else once for each edit."""
    parts: list[dict[str, Json]] = [
        {_COMMON_TEXTS.get(key[:3], key): value for key, value in edit.items()}
        for edit in edits
        if isinstance(edit, dict)
    ]
    whole = _describe(name, call, root=root)
    if len(parts) < len(edits):  # the tool refuses it
        return [whole]
    inputs: list[dict[str, Json]] = [{"edits": [*parts]}] if name == "MultiEdit" else parts
    return [
        replace(whole, tool_input={"file_path": whole.file_path, **one}, takes_changes=False)
        for one in inputs
    ]


def _list_unparsed_files(tool_input: Json, patch: str) -> Sequence[TouchedFile]:
    """Return the files of a patch that its tool cannot parse. Hooks see it anyway."""
    paths = find_patched_paths(tool_input) or [""]
    return [TouchedFile(path=path, new_text=patch) for path in paths]


def _to_common_value(tool: str, own: str, *, value: Json, root: Path) -> Json:
    if own == "path" and tool in EDITING | READING and isinstance(value, str) and value:
        return _to_absolute(value, root)
    if (tool, own) == ("bash", "timeout") and isinstance(value, int):
        return value * 1000
    if (tool, own) == ("grep", "mode") and value == _FILES_MODE[0]:
        return _FILES_MODE[1]
    return value


def _to_own_value(tool: str, own: str, *, value: Json) -> Json:
    """Translate a value. One that cannot be translated is left for the tool to refuse."""
    if (tool, own) == ("bash", "timeout") and isinstance(value, int | float):
        return math.ceil(value / 1000) if math.isfinite(value) else value
    if (tool, own) == ("grep", "mode") and value == _FILES_MODE[1]:
        return _FILES_MODE[0]
    return value


def _to_absolute(path: str, root: Path) -> str:
    return os.path.normpath(root / path)
