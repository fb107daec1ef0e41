"""Where coding agents keep their files: in a repository at every level, and in the user's home.

Only names are listed here. What a file may do, and whether it needs trust, is decided where it is
read. A listing is bounded, sorted, and never leaves the directory that it was asked about. Patterns
in such files are expanded here, too.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentcli.system.files import locate_config_home, locate_home
from agentcli.system.lazy import compile_later

SKILLS = (
    *(".agentcli/skills", ".agents/skills", ".claude/skills", ".codex/skills", ".cursor/skills"),
    *(".gemini/skills", ".github/skills", ".opencode/skill", ".opencode/skills"),
)
"""Folders with one folder for each skill. The first of two skills with one name wins."""
ROLES = (
    *(".agentcli/agents", ".claude/agents", ".opencode/agent", ".opencode/agents"),
    *(".cursor/agents", ".gemini/agents", ".github/agents"),
)
COMMANDS = (
    ".claude/commands",
    ".codex/prompts",
    ".opencode/command",
    ".opencode/commands",
    ".gemini/commands",
    ".cursor/commands",
    ".github/prompts",
)
"""Folders with prompts of other agents. Those of agentcli are in `.agentcli/commands`."""
SERVERS = (".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
PERMISSIONS = (".claude/settings.json", ".claude/settings.local.json")
"""Files with rules and hooks."""
RULES = (
    *(".claude/rules", ".cursor/rules", ".github/instructions", ".windsurf/rules", ".clinerules"),
    *(".roo/rules", ".kilocode/rules", ".kiro/steering", ".amazonq/rules", ".continue/rules"),
    *(".trae/rules", ".augment/rules"),
)
"""Folders with instructions for certain files."""
NOT_READ: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *(".codex/config.toml", ".gemini/settings.json", "opencode.json", "opencode.jsonc"),
            *(".opencode/opencode.json", ".continue/config.yaml", ".zed/settings.json"),
            *(
                ".aider.conf.yml",
                ".roomodes",
                ".kiro/settings",
                ".roo/mcp.json",
                ".amp/settings.json",
            ),
        ),
        "settings of another program; for its servers: agentcli mcp add",
    ),
    **dict.fromkeys(
        (
            ".cursor/hooks.json",
            ".codex/hooks.json",
            ".github/hooks",
            ".kiro/hooks",
            ".windsurf/hooks.json",
        ),
        "hooks in another form; write them to .agentcli/hooks.json",
    ),
    **dict.fromkeys(
        (
            *(".opencode/plugin", ".opencode/plugins", ".opencode/tool", ".gemini/extensions"),
            *(".claude-plugin/plugin.json", ".claude-plugin/marketplace.json", ".agents/plugins"),
        ),
        "for plugins: agentcli plugins install",
    ),
    **dict.fromkeys(
        (
            *(".claude/output-styles", ".github/chatmodes", ".windsurf/workflows", ".kiro/specs"),
            *(".opencode/mode", ".opencode/themes", ".kilocodemodes", ".goosehints", "replit.md"),
        ),
        "it has no meaning here",
    ),
    **dict.fromkeys(
        (
            ".cursorignore",
            ".cursorindexingignore",
            ".geminiignore",
            ".codeiumignore",
            ".aiderignore",
        ),
        "to keep files from the model: a deny rule such as read(secrets/**)",
    ),
}
"""Files and folders of other agents that are not read, each with the reason."""
OWN_FOLDER = ".agentcli"
PROMPT_SUFFIXES = (".md", ".toml")
FILES_LIMIT = 300
DEPTH_LIMIT = 5
BRACES_LIMIT = 3
_BRACES = compile_later(r"\{([^{}]*)\}")


def list_levels(workspace: Path) -> tuple[Path, ...]:
    """Return the directories from the workspace up to the root of its repository.

    Never look above that root: a nested repository does not inherit from the one around it. Outside
    of any repository only the workspace itself counts."""
    upward = (workspace, *workspace.parents)
    root = next((at for at, one in enumerate(upward) if os.path.lexists(one / ".git")), 0)
    return upward[: root + 1]


def find_project_root(workspace: Path) -> Path | None:
    """Return the nearest directory with files that need trust, from the workspace up to its
    repository.

    Files above it belong to it, too, up to the root of the repository and never above that."""
    names = (OWN_FOLDER, *SERVERS, *PERMISSIONS, *COMMANDS)
    levels = list_levels(workspace)
    return next((one for one in levels if any(os.path.lexists(one / name) for name in names)), None)


def list_user_folders(name: str) -> tuple[Path, ...]:
    """Return the folders of other agents in the user's home.

    `name` is `skills`, `agents` or `commands`, or `instructions` for those that may hold some."""
    own = locate_home()
    match name:
        case "instructions":
            return own / ".claude", own / ".codex", own / ".gemini"
        case "skills":
            return own / ".agents/skills", own / ".claude/skills"
        case "agents":
            opencode = locate_config_home() / "opencode"
            return own / ".claude/agents", opencode / "agent", opencode / "agents"
        case _:
            opencode = locate_config_home() / "opencode"
            return (
                own / ".claude/commands",
                own / ".codex/prompts",
                opencode / "command",
                opencode / "commands",
                own / ".gemini/commands",
            )


def walk_files(folder: Path, suffixes: Sequence[str]) -> Iterator[str]:
    """Yield the files below a folder by relative name, sorted, a bounded number of them.

    Links to files are listed, links to directories are not followed."""
    found = 0
    for directory, folders, names in os.walk(folder):
        relative = Path(directory).relative_to(folder)
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        if len(relative.parts) >= DEPTH_LIMIT:
            folders.clear()
        for name in sorted(names):
            if name.lower().endswith(tuple(suffixes)):
                found += 1
                if found > FILES_LIMIT:
                    return
                yield (relative / name).as_posix()


def is_inside(path: Path, root: Path) -> bool:
    """Return whether a path, with all links followed, is below the root."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    except OSError:  # a link that may not be followed
        return False


def expand_braces(pattern: str, *, limit: int) -> list[str]:
    """Return `a.ts` and `a.js` for `a.{ts,js}`, at most `limit` patterns."""
    found = [pattern]
    for _ in range(BRACES_LIMIT):
        found = [one for text in found for one in _expand_first(text)][:limit]
    return found


def _expand_first(pattern: str) -> list[str]:
    found = _BRACES.search(pattern)
    if found is None:
        return [pattern]
    begin, end = pattern[: found.start()], pattern[found.end() :]
    return [f"{begin}{word.strip()}{end}" for word in found[1].split(",")]
