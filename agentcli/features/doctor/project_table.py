"""What was read from a repository and from the user's home for agents, and what was left out.

One row for each file or definition: what it is, where it is, and whether it is used, waits for
trust, or is left out, with the reason.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from agentcli.agent.front_matter import InvalidFile, NamedFile, read_text
from agentcli.agent.instructions import (
    ALL_LIMIT_BYTES,
    FOREIGN_FOLDERS,
    LIMIT_BYTES,
    NAMES,
    InstructionFiles,
)
from agentcli.agent.markdown_files import (
    SourceFolder,
    inherits_tools,
    list_role_files,
    list_skill_files,
    read_commands,
    read_role,
    read_skill,
)
from agentcli.agent.rule_files import RuleFile, find_rule_files
from agentcli.permissions.claude_settings import ClaudeSettings
from agentcli.permissions.foreign_files import get_servers, read_object
from agentcli.permissions.plugin_files import PluginFiles
from agentcli.permissions.project_files import describe_hooks
from agentcli.session.configuration import Configuration, load_rules
from agentcli.session.context_sources import (
    build_source_folders,
    find_role_folders,
    find_skill_folders,
)
from agentcli.session.plugins import UsedPlugins, iter_commands, load_plugins
from agentcli.session.project import Project, load_project
from agentcli.settings import get_user_directory
from agentcli.system.agent_files import (
    COMMANDS,
    NOT_READ,
    PERMISSIONS,
    PROMPT_SUFFIXES,
    ROLES,
    RULES,
    SERVERS,
    SKILLS,
    is_inside,
    list_levels,
    list_user_folders,
    walk_files,
)
from agentcli.system.files import exists, is_directory, is_link, shorten_home
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit
from agentcli.types.events import ContextNote, Warned
from agentcli.types.own_tools import BUILT_IN
from agentcli.types.settings import Settings

State = Literal["used", "waits for trust", "left out"]
_WORDS_CHARS = 400
FOLDERS_LIMIT = 20_000


class SourceRow(NamedTuple):
    kind: str
    name: str
    where: str
    state: State
    note: str = ""


def print_project(settings: Settings) -> Exit:
    """Print the table, and what to do about what waits."""
    rows = list(collect_rows(settings))
    for line in _format_rows(rows):
        sys.stdout.write(line + "\n")
    waiting = sum(row.state == "waits for trust" for row in rows)
    left_out = sum(row.state == "left out" for row in rows)
    used = len(rows) - waiting - left_out
    sys.stdout.write(f"{used} used, {waiting} waiting for trust, {left_out} left out\n")
    if waiting:
        sys.stdout.write("review and trust: agentcli trust --show, then agentcli trust\n")
    return Exit.DONE


def _format_rows(rows: Sequence[SourceRow]) -> Iterator[str]:
    shown = [tuple(show_controls(cell)[:_WORDS_CHARS] for cell in row) for row in rows]
    widths = [max((len(row[at]) for row in shown), default=0) for at in range(4)]
    for row in shown:
        cells = "  ".join(
            cell.ljust(min(width, 60)) for cell, width in zip(row, widths, strict=False)
        )
        yield f"{cells}  {row[4]}".rstrip()


def collect_rows(settings: Settings) -> Iterator[SourceRow]:
    """Yield a row for everything that is read, waits or is left out. Raise SettingsError."""
    project = load_project(settings.workspace, trust_project=settings.trust_project)
    facts = _collect_instructions(settings, project)
    yield from _list_instructions(settings, facts)
    yield from _list_rule_files(settings, facts)
    used = load_plugins()
    yield from _list_skills(settings, used.plugins)
    yield from _list_roles(settings, used.plugins)
    yield from _list_own_commands()
    yield from _list_plugins(used)
    if project is not None:
        yield from _list_project(project, settings.workspace)
    yield from _list_unread(settings.workspace)
    yield from _list_nested(settings.workspace)


def _show_path(path: Path, workspace: Path) -> str:
    top = list_levels(workspace)[-1]
    return str(path.relative_to(top)) if path.is_relative_to(top) else shorten_home(path)


def _collect_instructions(
    settings: Settings, project: Project | None
) -> Sequence[ContextNote | Warned]:
    configuration = Configuration(settings=settings, rules=load_rules(settings, project))
    files = InstructionFiles(
        settings.workspace,
        user_directory=get_user_directory(),
        other_user_directories=list_user_folders("instructions"),
        find_rule=configuration.find_read_rule,
    )
    return files.build_start_notes()


def _list_said(facts: Sequence[ContextNote | Warned]) -> list[str]:
    """Return the headings of what is sent, which name the file."""
    return [fact.text.partition("\n")[0] for fact in facts if isinstance(fact, ContextNote)]


def _list_instructions(
    settings: Settings, facts: Sequence[ContextNote | Warned]
) -> Iterator[SourceRow]:
    said = _list_said(facts)
    warned = [fact.message for fact in facts if isinstance(fact, Warned)]
    levels = list_levels(settings.workspace)
    folders = (get_user_directory(), *list_user_folders("instructions"), *reversed(levels))
    for path in (folder / name for folder in folders for name in NAMES):
        is_folder = path.name in RULES and is_directory(path)
        if is_folder or (not exists(path) and not is_link(path)):
            continue
        relative = path.relative_to(levels[-1]) if path.is_relative_to(levels[-1]) else path
        names = {str(path), str(relative), path.name}
        notes = [text for text in warned if any(text.startswith(f"{name} ") for name in names)]
        is_used = any(f"from {name};" in text for name in names for text in said)
        why = "; ".join(notes) or ("" if is_used else "it is empty, or says what another file says")
        state: State = "used" if is_used else "left out"
        yield SourceRow("instructions", path.name, _show_path(path, settings.workspace), state, why)


def _list_rule_files(
    settings: Settings, facts: Sequence[ContextNote | Warned]
) -> Iterator[SourceRow]:
    said = _list_said(facts)
    levels = list_levels(settings.workspace)
    for folder in (level.relative_to(levels[-1]) / name for level in levels for name in RULES):
        yield from _list_links_out(levels[-1], folder)
        for rule in find_rule_files(levels[-1], PurePosixPath(folder)):
            when = {"always": "always", "files": f"for {', '.join(rule.globs)}"}
            note = when.get(rule.applies, "the model reads it when it fits")
            if (levels[-1] / rule.path).stat().st_size > LIMIT_BYTES:
                note += f"; only its first {LIMIT_BYTES} bytes"
            why_not = _explain_unused(rule, levels[-1], said=said)
            state: State = "left out" if why_not else "used"
            yield SourceRow("rule", Path(rule.path).name, rule.path, state, why_not or note)


def _list_links_out(root: Path, folder: Path) -> Iterator[SourceRow]:
    names = [folder, *(folder / name for name in walk_files(root / folder, (".md", ".mdc")))]
    for name in names:
        if os.path.lexists(root / name) and not is_inside(root / name, root):
            why = "it is a link that leads out of the repository"
            yield SourceRow("rule", name.name, str(name), "left out", why)


def _explain_unused(rule: RuleFile, root: Path, *, said: Sequence[str]) -> str:
    """Return why a rule is not sent; empty if it is, or will be."""
    if rule.applies == "by mention":
        return "it holds only where a user mentions it"
    try:
        read_text(root / rule.path)
    except InvalidFile as why:
        return str(why)
    if rule.applies == "always" and not any(f"from {rule.path};" in line for line in said):
        return f"it is empty, says what another file says, or is beyond {ALL_LIMIT_BYTES} bytes"
    return ""


def _list_skills(settings: Settings, plugins: Sequence[PluginFiles]) -> Iterator[SourceRow]:
    folders = build_source_folders(
        find_skill_folders(settings, plugins), settings=settings, plugins=plugins
    )
    files = [(folder, path) for folder in folders for path in list_skill_files(folder)]

    def read_one(folder: SourceFolder, path: Path) -> NamedFile:
        return read_skill(path)

    yield from _list_named("skill", files, read_one=read_one, workspace=settings.workspace)


def _list_roles(settings: Settings, plugins: Sequence[PluginFiles]) -> Iterator[SourceRow]:
    folders = build_source_folders(
        find_role_folders(settings, plugins), settings=settings, plugins=plugins
    )
    files = [(folder, path) for folder in folders for path in list_role_files(folder)]

    def read_one(folder: SourceFolder, path: Path) -> NamedFile:
        return read_role(path, tools=BUILT_IN, inherits=inherits_tools(folder))

    yield from _list_named("agent", files, read_one=read_one, workspace=settings.workspace)


def _list_named(
    kind: str,
    files: Iterable[tuple[SourceFolder, Path]],
    *,
    read_one: Callable[[SourceFolder, Path], NamedFile],
    workspace: Path,
) -> Iterator[SourceRow]:
    """Yield the files of one kind. The first of a name wins, and the others say which."""
    first: dict[str, str] = {}
    for folder, path in files:
        where = _show_path(path, workspace)
        try:
            folder.check(path)
            one = read_one(folder, path)
        except InvalidFile as why:
            yield SourceRow(kind, path.stem, where, "left out", str(why))
            continue
        name = folder.build_name(one.name)
        winner = first.setdefault(name, where)
        if winner != where:
            yield SourceRow(kind, name, where, "left out", f"{winner} wins")
        else:
            yield SourceRow(kind, name, where, "used", _describe_left_out(one.left_out))


def _describe_left_out(left_out: Sequence[str]) -> str:
    return f"without effect: {', '.join(left_out)}" if left_out else ""


def _list_own_commands() -> Iterator[SourceRow]:
    folders = (get_user_directory() / "commands", *list_user_folders("commands"))
    yield from _list_command_files(
        {
            shorten_home(folder): [
                (name, folder / name) for name in walk_files(folder, PROMPT_SUFFIXES)
            ]
            for folder in folders
        }
    )


def _list_command_files(
    folders: Mapping[str, Iterable[tuple[str, Path]]],
) -> Iterator[SourceRow]:
    texts: dict[str, dict[str, str]] = {}
    for folder, files in folders.items():
        for name, path in files:
            try:
                texts.setdefault(folder, {})[name] = read_text(path)
            except InvalidFile as why:
                yield SourceRow("command", name, folder, "left out", str(why))
    yield from _list_commands(texts, is_used=True)


def _list_commands(
    folders: Mapping[str, Mapping[str, str]], *, is_used: bool
) -> Iterator[SourceRow]:
    """Yield the prompts by folder and name. The first of a name wins."""
    first: dict[str, str] = {}
    for folder, texts in folders.items():
        for name, text in texts.items():
            where = f"{folder}/{name}"
            commands, bad = read_commands({name: text}, reserved=())
            for one in commands:
                winner = first.setdefault(one.name, where)
                if winner != where:
                    yield SourceRow("command", one.name, where, "left out", f"{winner} wins")
                    continue
                state: State = "used" if is_used else "waits for trust"
                note = _describe_left_out(one.left_out)
                yield SourceRow("command", f"/{one.name}", where, state, note)
            for problem in bad:
                yield SourceRow("command", name, where, "left out", problem.partition(": ")[2])


def _list_plugins(used: UsedPlugins) -> Iterator[SourceRow]:
    """Yield what plugins bring besides skills and agents, and the plugins that are not used."""
    for plugin in used.plugins:
        where = shorten_home(plugin.root)
        yield from _list_command_files({where: iter_commands(plugin)})
        for path, text in plugin.hooks:
            for line in describe_hooks(text, path):
                event, _, command = line.partition(": ")
                yield SourceRow("hook", event, shorten_home(path), "used", command)
        for name in plugin.servers:
            yield SourceRow("server", name, where, "used", f"of plugin {plugin.name}")
        for what, why in plugin.left_out:
            yield SourceRow("plugin", plugin.name, where, "left out", f"{what}: {why}")
    for problem in used.problems:
        name, _, why = problem.removeprefix("plugin ").partition(" is not used: ")
        yield SourceRow("plugin", name, "-", "left out", why)


def _list_project(project: Project, workspace: Path) -> Iterator[SourceRow]:
    state: State = "used" if project.is_trusted else "waits for trust"
    directory = _show_path(project.files.directory, workspace)
    for problem in project.files.problems:
        yield SourceRow("project", "-", directory, "left out", problem)
    for name in project.files.files:
        yield SourceRow("project", name, directory, state)
    if project.files.rules is not None:
        yield SourceRow("rules", "rules.toml", directory, "used")
    foreign = project.files.foreign
    folders: dict[str, dict[str, str]] = {}
    for name, file, data in foreign.select_commands():
        text = data.decode("utf-8-sig", "replace")
        folders.setdefault(file.removesuffix(f"/{name}"), {})[name] = text
    yield from _list_commands(folders, is_used=project.is_trusted)
    for claude in project.read_claude_settings(workspace):
        yield from _list_claude_settings(claude, _show_path(claude.path, workspace), state=state)
    yield from _list_servers(project, state)
    for name, why in foreign.left_out:
        yield SourceRow("file", Path(name).name, name, "left out", why)


def _list_unread(workspace: Path) -> Iterator[SourceRow]:
    levels = list_levels(workspace)
    for level in levels:
        found = [(name, why) for name, why in NOT_READ.items() if os.path.lexists(level / name)]
        found += [
            (name, "it is a link that leads out of the repository")
            for name in (*SKILLS, *ROLES)
            if os.path.lexists(level / name) and not is_inside(level / name, levels[-1])
        ]
        for name, why in found:
            where = _show_path(level / name, workspace)
            yield SourceRow("file", Path(name).name, where, "left out", why)


def _list_nested(workspace: Path) -> Iterator[SourceRow]:
    """Yield what directories below the workspace bring, a bounded number of them looked at."""
    looked_at = 0
    for directory, folders, _ in os.walk(workspace):
        place = Path(directory)
        kept = (one for one in folders if one not in FOREIGN_FOLDERS and not one.startswith("."))
        folders[:] = sorted(one for one in kept if not os.path.lexists(place / one / ".git"))
        looked_at += 1
        if looked_at > FOLDERS_LIMIT:
            return
        if place == workspace:
            continue
        shown = _show_path(place, workspace)
        for name in (*NAMES, *RULES):
            if os.path.lexists(place / name):
                note = f"when a file in {shown} is worked on"
                yield SourceRow("instructions", Path(name).name, f"{shown}/{name}", "used", note)
        for name in (*SKILLS, *ROLES, *COMMANDS, *SERVERS, *PERMISSIONS):
            if os.path.lexists(place / name):
                why = f"it holds for a session in {shown}"
                yield SourceRow("file", Path(name).name, f"{shown}/{name}", "left out", why)


def _list_claude_settings(
    claude: ClaudeSettings, where: str, *, state: State
) -> Iterator[SourceRow]:
    for rule in claude.rules:
        yield SourceRow("permission", str(rule), where, "used")
    for rule in claude.allows:
        yield SourceRow("permission", str(rule), where, state)
    if claude.hooks_text:
        yield SourceRow("hooks", "hooks", where, state)
    for what in claude.left_out:
        name, _, why = what.partition(": ")
        yield SourceRow("setting", name, where, "left out", why or "it has no effect here")


def _list_servers(project: Project, state: State) -> Iterator[SourceRow]:
    first: dict[str, str] = {}
    for file, data in project.files.foreign.select(*SERVERS):
        document = read_object(data)
        if not document:
            yield SourceRow("server", "-", file, "left out", "it is not a JSON object")
        for name, entry in get_servers(document).items():
            winner = first.setdefault(name, file)
            if winner != file:
                yield SourceRow("server", name, file, "left out", f"{winner} wins")
            elif needed := re.findall(r"\$\{input:\w+\}", json.dumps(entry)):
                why = f"only an editor can ask for {needed[0]}"
                yield SourceRow("server", name, file, "left out", why)
            elif isinstance(entry, dict) and (entry.get("command") or _get_address(entry)):
                shown = _get_address(entry) or str(entry["command"])
                yield SourceRow("server", name, file, state, shown)
            else:
                yield SourceRow("server", name, file, "left out", "no command and no url")


def _get_address(entry: dict[str, object]) -> str:
    keys = ("url", "serverUrl", "httpUrl")
    return next((str(entry[key]) for key in keys if entry.get(key)), "")
