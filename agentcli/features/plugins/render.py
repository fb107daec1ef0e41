"""What a plugin brings and would run, shown before the user agrees to it."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from agentcli.agent.front_matter import InvalidFile
from agentcli.agent.markdown_files import (
    SourceFolder,
    list_role_files,
    list_skill_files,
    read_role,
    read_skill,
)
from agentcli.features.plugins.engine import (
    FetchedPlugin,
    disable_plugin,
    enable_plugin,
    fetch_plugin,
    find_record,
    find_state,
    install_plugin,
    remove_plugin,
)
from agentcli.permissions.plugin_files import PluginFiles, read_plugin
from agentcli.permissions.project_files import describe_hooks, describe_value
from agentcli.session.plugins import PluginRecord, iter_commands, list_records
from agentcli.system.files import shorten_home
from agentcli.types.errors import Exit, SettingsError, UsageError
from agentcli.types.own_tools import BUILT_IN
from agentcli.ui.report import print_line

HASH_SHOWN = 16
_PASSWORD = re.compile(r"//([^/:@]*):[^/@]*@")


def install(source: str, *, path: str, ref: str, yes: bool) -> Exit:
    with fetch_plugin(source, path=path, ref=ref) as fetched:
        known = {record.name: record for record in list_records()}
        if (record := known.get(fetched.record.name)) and record.source != fetched.record.source:
            print_line(f"replaces   {record.name} from {_describe_source(record)}")
        _say_all(_describe_fetched(fetched))
        if not _agree(fetched.files, "Install this plugin?", yes=yes):
            return Exit.DONE
        install_plugin(fetched.files, fetched.record)
        print_line(f"installed {fetched.record.name}")
    return Exit.DONE


def update(name: str, *, yes: bool) -> Exit:
    """Fetch one plugin, or all, anew. A changed content needs the user's agreement again."""
    if name:
        _update_one(find_record(name), yes=yes)
        return Exit.DONE
    outcome = Exit.DONE
    for record in list_records():
        try:
            _update_one(record, yes=yes)
        except (SettingsError, UsageError) as error:
            print_line(f"{record.name} could not be updated: {error}")
            outcome = Exit.SETTINGS
    return outcome


def _update_one(record: PluginRecord, *, yes: bool) -> None:
    with fetch_plugin(record.source, path=record.path, ref=record.ref) as fetched:
        found = replace(fetched.record, name=record.name, is_enabled=record.is_enabled)
        if found.sha256 == record.sha256:
            install_plugin(fetched.files, found)  # brings back a copy that was changed
            print_line(f"{record.name} is up to date")
            return
        print_line(f"update     {record.name}, {_describe_hash(record.sha256)} before")
        _say_all(_describe_fetched(fetched))
        if _agree(fetched.files, "Use this version?", yes=yes):
            install_plugin(fetched.files, found)
            print_line(f"updated {record.name}")


def enable(name: str, *, yes: bool) -> Exit:
    record = find_record(name)
    files = read_plugin(record.root)
    if files.fingerprint != record.sha256:
        print_line(f"changed    {_describe_hash(record.sha256)} before")
    _say_all(_describe_plugin(files))
    if _agree(files, "Use this plugin?", yes=yes):
        enable_plugin(record, files)
        print_line(f"enabled {name}")
    return Exit.DONE


def disable(name: str) -> Exit:
    disable_plugin(find_record(name))
    print_line(f"disabled {name}")
    return Exit.DONE


def remove(name: str) -> Exit:
    remove_plugin(find_record(name))
    print_line(f"removed {name}")
    return Exit.DONE


def list_plugins() -> Exit:
    records = list_records()
    if not records:
        sys.stderr.write("no plugins; install one: agentcli plugins install PATH|GIT-URL\n")
    for record in records:
        state = find_state(record)
        print_line(
            f"{record.name}  {state}  {_describe_hash(record.sha256)}  {_describe_source(record)}"
        )
        if not state.startswith("not used"):
            _say_all(f"  {line}" for line in _describe_parts(read_plugin(record.root)))
    return Exit.DONE


def _describe_source(record: PluginRecord) -> str:
    url = _PASSWORD.sub(r"//\1:***@", record.source)
    place = url if record.commit else shorten_home(Path(record.source))
    commit = f" at {record.commit[:12]}" if record.commit else ""
    return " ".join(filter(None, (place, record.path))) + commit


def _describe_hash(sha256: str) -> str:
    return f"sha256:{sha256[:HASH_SHOWN]}"


def _describe_fetched(fetched: FetchedPlugin) -> Iterator[str]:
    yield f"source     {_describe_source(fetched.record)}"
    yield from _describe_plugin(fetched.files)
    yield from (f"left out   {name}: it leads out of the plugin" for name in fetched.links_out)


def _describe_plugin(files: PluginFiles) -> Iterator[str]:
    """Yield one line for everything that it brings, runs or leaves out."""
    version = f" {files.version}" if files.version else ""
    yield f"plugin     {files.name}{version} ({', '.join(files.formats)})"
    if files.description:
        yield f"about      {files.description}"
    yield f"content    sha256:{files.fingerprint}"
    yield from _describe_parts(files)


def _describe_parts(files: PluginFiles) -> Iterator[str]:
    yield from _describe_texts(files)
    for path, text in files.hooks:
        yield from (f"hook       {line}" for line in describe_hooks(text, path))
    for name, entry in files.servers.items():
        yield f"server     {describe_value(name)}: {describe_value(entry)}"
    yield from (f"left out   {what}: {why}" for what, why in files.left_out)


def _describe_texts(files: PluginFiles) -> Iterator[str]:
    for place in files.skills:
        for path in list_skill_files(SourceFolder(place, files.root, files.name)):
            try:
                yield f"skill      {files.name}:{read_skill(path).name}"
            except InvalidFile as why:
                yield f"left out   {path.relative_to(files.root)}: {why}"
    for place in files.agents:
        for path in list_role_files(SourceFolder(place, files.root, files.name)):
            try:
                role = read_role(path, tools=BUILT_IN, inherits=True)
                yield f"agent      {files.name}:{role.name}"
            except InvalidFile as why:
                yield f"left out   {path.relative_to(files.root)}: {why}"
    for name, _ in iter_commands(files):
        yield f"command    /{name.removesuffix('.md').replace('/', ':')}"


def _agree(files: PluginFiles, question: str, *, yes: bool) -> bool:
    """Return whether to go on. Only what executes something asks. Raise SettingsError."""
    _require_working_hooks(files)
    if yes or not files.executes:
        return True
    print_line(
        "It runs the hooks and servers above: hooks with your rights, servers in the sandbox."
    )
    if not sys.stdin.isatty():
        print_line("nothing was changed; to agree to it: --yes")
        return False
    try:
        is_agreed = input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")
        is_agreed = False
    if not is_agreed:
        print_line("nothing was changed")
    return is_agreed


def _require_working_hooks(files: PluginFiles) -> None:
    """Raise SettingsError if a hook cannot be read: its check would be lost."""
    from agentcli.session.plugins import parse_plugin_hooks

    for path, text in files.hooks:
        try:
            parse_plugin_hooks(files, path, text=text)
        except SettingsError as error:
            raise SettingsError(
                f"the plugin {files.name} cannot be used: {error}", hint="agentcli plugins list"
            ) from None


def _say_all(lines: Iterator[str]) -> None:
    for line in lines:
        print_line(line)
