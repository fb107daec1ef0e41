"""Our own tools, one row each: what other parts must know of a tool without loading it.

Permissions, hooks, roles, the editor protocol and the reply to a misspelt name read this table.
How a tool is built is in `session/builtin_tools`, or in the feature that it belongs to.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

ToolKind: TypeAlias = Literal["read", "search", "edit", "execute", "fetch", "think", "other"]


class OwnTool(NamedTuple):
    kind: ToolKind
    default_path: str = ""
    """The path that a call means if it names none."""
    is_built_in: bool = False
    """True if every session declares it."""
    hook_names: tuple[str, ...] = ()
    """Its names in hooks written for other agents. The first is used unless the hook names one."""
    other_names: str = ""
    """Its names in other programs, with spaces between; `to_plain` makes them comparable."""


WEB_FETCH = "web_fetch"

OWN_TOOLS: Mapping[str, OwnTool] = {
    "read_file": OwnTool(
        "read",
        is_built_in=True,
        hook_names=("Read",),
        other_names="read view cat open_file view_file notebook_read read_many_files",
    ),
    "write_file": OwnTool(
        "edit",
        is_built_in=True,
        hook_names=("Write",),
        other_names="write create create_file save_file",
    ),
    "edit_file": OwnTool(
        "edit",
        is_built_in=True,
        hook_names=("Edit", "MultiEdit"),
        other_names="edit multi_edit replace str_replace search_replace str_replace_editor "
        "str_replace_based_edit_tool notebook_edit insert edit_files",
    ),
    "grep": OwnTool(
        "search",
        default_path=".",
        is_built_in=True,
        hook_names=("Grep",),
        other_names="search rg ripgrep grep_search search_files search_file_content "
        "codebase_search",
    ),
    "find_files": OwnTool(
        "search",
        default_path=".",
        is_built_in=True,
        hook_names=("Glob",),
        other_names="glob ls find list list_dir list_files list_directory file_search",
    ),
    "bash": OwnTool(
        "execute",
        is_built_in=True,
        hook_names=("Bash",),
        other_names="shell sh exec execute terminal run_shell execute_bash run_command "
        "run_commands execute_command run_shell_command run_terminal_cmd run_in_terminal "
        "local_shell exec_command container_exec bash_output kill_shell kill_bash",
    ),
    "delegate": OwnTool(
        "think", hook_names=("Task", "Agent"), other_names="task agent spawn_agent subagent"
    ),
    "search_tools": OwnTool("other"),
    "run_program": OwnTool("execute"),
    "symbols": OwnTool("search", default_path="."),
    WEB_FETCH: OwnTool("fetch", other_names="fetch"),
    "web_search": OwnTool("fetch", other_names="google_web_search"),
    "ask_user": OwnTool("other"),
    "computer": OwnTool("other"),
    "recall": OwnTool("other"),
    "write_stdin": OwnTool("execute", other_names="send_input write_to_terminal send_keys"),
    "apply_patch": OwnTool(
        "edit",
        hook_names=("Edit", "Write", "MultiEdit"),
        other_names="edit multi_edit patch replace",
    ),
}

BUILT_IN = tuple(name for name, tool in OWN_TOOLS.items() if tool.is_built_in)
"""The tools that are always declared."""
READING = frozenset(name for name, tool in OWN_TOOLS.items() if tool.kind in ("read", "search"))
EDITING = frozenset(name for name, tool in OWN_TOOLS.items() if tool.kind == "edit")
BUILT_IN_READING = tuple(name for name in BUILT_IN if name in READING)


def find_own_tools(name: str, available: Collection[str]) -> Iterator[str]:
    """Yield those of the available tools that another program calls by this name."""
    plain = to_plain(name)
    for own, tool in OWN_TOOLS.items():
        if own in available and plain in map(to_plain, (own, *tool.other_names.split())):
            yield own


def list_paths(args: Any) -> list[str]:
    """Return the paths that a file tool's arguments name: all its `paths`, or else its `path`.

    A tool that changes more than one file must have `paths`: permissions, undo, checks after edits
    and editors go by them."""
    paths = getattr(args, "paths", None)
    return [args.path] if paths is None else [*map(str, paths)]


def get_kind(name: str) -> ToolKind:
    """Return the kind of a tool; that of a foreign tool is not known."""
    return OWN_TOOLS[name].kind if name in OWN_TOOLS else "other"


def to_plain(name: str) -> str:
    """Return a name without its case, its separators and a namespace such as `functions.`."""
    return name.rpartition(".")[2].lower().replace("_", "").replace("-", "")
