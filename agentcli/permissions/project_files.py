"""The files a repository brings: `.agentcli`, those of other agents, and the scripts they name.

They are read once, through handles that follow no link, and all code uses these bytes: the hash
that the user trusted is of exactly what runs. Rules are kept apart, since they can only
refuse and need no trust.
"""

import hashlib
import json
import os
import shlex
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from agentcli.permissions.foreign_files import (
    NO_FOREIGN_FILES,
    ForeignFiles,
    get_permissions,
    get_servers,
    read_foreign_files,
    read_object,
)
from agentcli.permissions.hooks_file import BETWEEN_WORDS, ROOT_NAME, parse_hooks
from agentcli.system.agent_files import PERMISSIONS, list_levels
from agentcli.system.agent_files import SERVERS as SERVER_FILES
from agentcli.system.files import open_regular, read_regular, remove_private, write_private
from agentcli.system.folder import Folder, descend
from agentcli.system.lazy import compile_later
from agentcli.system.text import escape_unprintable, to_printable
from agentcli.types import events
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.words import pluralize

DIRECTORY = ".agentcli"
RULES = "rules.toml"
SETTINGS = "settings.toml"
HOOKS = "hooks.json"
SERVERS = "mcp.json"
COMMANDS = "commands"
SCRIPTS = "hooks"

FILE_LIMIT_BYTES = 1_000_000
SCRIPT_LIMIT_BYTES = 64_000_000
COUNT_LIMIT = 500
DEPTH_LIMIT = 8

_RUNNER = compile_later(
    r"(?:.*/)?(?:\.|source|(?:ba|da|z|k)?sh|python[\d.]*|node|deno|bun|ruby|perl|php|lua)"
)
_SCRIPT_SUFFIXES = frozenset(
    [".sh", ".bash", ".zsh", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFiles:
    root: Path
    """The real path of the nearest directory with any of the files. Trust is bound to it."""
    directory: Path
    """The nearest `.agentcli`, in the root or above it. It may not exist."""
    files: Mapping[str, bytes]
    """Files that execute or redirect, by name below `.agentcli`."""
    rules: bytes | None
    scripts: Mapping[str, str]
    """Files of the repository that commands name, from the root, with the hash of each."""
    foreign: ForeignFiles = NO_FOREIGN_FILES
    """Files of other agents, at every level up to the root of the repository."""
    problems: tuple[str, ...] = ()
    """Reasons why the project cannot be trusted in its current state."""

    @property
    def fingerprint(self) -> str:
        """A hash of everything that trust is about."""
        parts = [_hash_files(self.files), dict(self.scripts)]
        if executing := self.foreign.executing:
            parts.append(_hash_files(executing))
        text = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def needs_trust(self) -> bool:
        return bool(self.files or self.problems or self.foreign.executing)


def _hash_files(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def read_project(root: Path) -> ProjectFiles | None:
    """Return the project's files; None if it has none.

    Raise OSError if the directory cannot be examined.
    """
    levels = list_levels(root)
    home = next((one for one in levels if os.path.lexists(one / DIRECTORY)), root)
    reading = _ProjectReader()
    try:
        with descend(home, [DIRECTORY]) as folder:
            reading.directory(folder, "")
        is_there = True
    except FileNotFoundError:
        is_there = False
    except NotADirectoryError:
        is_there = True
        reading.problems.append(f"{DIRECTORY} is a link or not a directory")
    foreign = read_foreign_files(root)
    if not (is_there or foreign.files or foreign.left_out):
        return None
    rules = reading.files.pop(RULES, None)
    named = (*_iter_own_words(reading.files, home), *_iter_foreign_words(foreign))
    scripts = {} if reading.problems else reading.scripts(named, root=root, top=levels[-1])
    return ProjectFiles(
        root=root,
        directory=home / DIRECTORY,
        files=dict(sorted(reading.files.items())),
        rules=rules,
        scripts=scripts,
        foreign=foreign,
        problems=tuple(reading.problems),
    )


class _ProjectReader:
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.problems: list[str] = []
        self._count = 0

    def directory(self, folder: Folder, prefix: str) -> None:
        with folder.scan() as entries:
            names = [entry.name for entry in islice(entries, COUNT_LIMIT + 1)]
        if len(names) > COUNT_LIMIT or prefix.count("/") > DEPTH_LIMIT:
            self._note_problem(prefix, "has too many files or is nested too deeply")
            return
        for name in sorted(names):
            self._read_name(folder, name, path=f"{prefix}{name}")

    def _read_name(self, folder: Folder, name: str, *, path: str) -> None:
        if not _is_ours(path):
            return
        self._count += 1
        found = folder.stat(name)
        if self._count > COUNT_LIMIT or found is None:
            self._note_problem(path, "is over the limit of files" if found else "disappeared")
        elif stat.S_ISDIR(found.st_mode):
            with folder.enter(name) as inner:
                self.directory(inner, f"{path}/")
        elif stat.S_ISREG(found.st_mode):
            self._read_file(folder, name, path=path)
        else:
            self._note_problem(path, "is a link or not a regular file")

    def _read_file(self, folder: Folder, name: str, *, path: str) -> None:
        with os.fdopen(folder.open_file(name, os.O_RDONLY), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                self._note_problem(path, "is not a regular file")
                return
            data = file.read(FILE_LIMIT_BYTES + 1)
        if len(data) > FILE_LIMIT_BYTES:
            self._note_problem(path, f"is larger than {FILE_LIMIT_BYTES} bytes")
        else:
            self.files[path] = data

    def _note_problem(self, path: str, what: str) -> None:
        if len(self.problems) < 10:
            self.problems.append(f"{DIRECTORY}/{to_printable(path)} {what}")

    def scripts(
        self, named: Iterable[tuple[Path, str, bool]], *, root: Path, top: Path
    ) -> dict[str, str]:
        """Return the repository's own scripts that hooks and servers would run: name and hash."""
        found: dict[str, str] = {}
        for base, word, is_run in sorted(set(named)):
            path = Path(os.path.realpath(base / ROOT_NAME.sub(str(base), word)))
            # `Path.is_file` raises for a word that is too long for a name.
            is_file = os.path.isfile(path)  # noqa: PTH113
            if not path.is_relative_to(top) or not is_file:
                continue
            name = Path(os.path.relpath(path, root)).as_posix()
            if path.stat().st_size > SCRIPT_LIMIT_BYTES:
                self.problems.append(f"{to_printable(name)} is too large to watch")
            elif is_run or _looks_like_script(path):
                with open_regular(path) as file:
                    found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        return dict(sorted(found.items()))


def _is_ours(path: str) -> bool:
    """Return whether the file executes, redirects or has rules. Other texts are only read."""
    first, *rest = path.split("/")
    if first == COMMANDS:
        return not rest or path.endswith(".md")
    return first == SCRIPTS if rest else first in (SETTINGS, HOOKS, SERVERS, RULES, SCRIPTS)


def _iter_own_words(files: Mapping[str, bytes], base: Path) -> Iterator[tuple[Path, str, bool]]:
    for name in (HOOKS, SERVERS):
        with suppress(ValueError, RecursionError):  # the code that uses the file reports the error
            yield from _iter_command_words(json.loads(files.get(name, b"null")), base)


def _iter_foreign_words(foreign: ForeignFiles) -> Iterator[tuple[Path, str, bool]]:
    for name, data in foreign.select(*PERMISSIONS, *SERVER_FILES):
        document = read_object(data)
        base = foreign.top / Path(name).parent
        if Path(name).name != SERVER_FILES[0]:
            base = base.parent
        yield from _iter_command_words([document.get("hooks"), get_servers(document)], base)


def _iter_command_words(document: Any, base: Path) -> Iterator[tuple[Path, str, bool]]:
    """Yield every word that may be a path, and whether a program that would run it precedes it."""
    texts = _list_texts(document)
    yield from ((base, *word) for word in _with_runner(texts))
    for text in texts:
        words = filter(None, BETWEEN_WORDS.split(text))
        yield from ((base, *word) for word in _with_runner(words))
        with suppress(ValueError):  # a quote that is never closed
            yield from ((base, *word) for word in _with_runner(filter(None, shlex.split(text))))


def _with_runner(words: Iterable[str]) -> Iterator[tuple[str, bool]]:
    is_run = False
    for word in words:
        if not word.startswith("-"):
            yield word, is_run
            is_run = _RUNNER.fullmatch(word) is not None


def _looks_like_script(path: Path) -> bool:
    """Return whether the file is a script. Data files may be named in commands, too."""
    begins = read_regular(path, 2)
    return begins == b"#!" or os.access(path, os.X_OK) or path.suffix in _SCRIPT_SUFFIXES


def _list_texts(value: Any) -> Sequence[str]:
    match value:
        case str():
            return [value] if 0 < len(value) < 4096 and "\0" not in value else []
        case dict():
            return [text for inner in value.values() for text in _list_texts(inner)]
        case list():
            return [text for inner in value for text in _list_texts(inner)]
        case _:
            return []


# Descriptions of a project's files, for the user who is asked to trust them


def summarize_files(files: ProjectFiles) -> str:
    """Return a one-line summary: `settings.toml, 2 hooks, 1 server and 3 commands`."""
    counted = (
        (HOOKS, _list_hooks(files), "hook"),
        (SERVERS, _list_servers(files), "server"),
        (COMMANDS, list(_iter_commands(files)), "command"),
        ("", list(_allow_rules(files)), "allow rule"),
    )
    parts = [SETTINGS] if SETTINGS in files.files else []
    for name, found, noun in counted:
        if found:
            parts.append(pluralize(len(found), noun))
        elif name in files.files:
            parts.append(name)
    if not parts:
        parts = [pluralize(len(files.files), "file")]
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)


def describe_files(files: ProjectFiles) -> Iterator[str]:
    """Yield one line for everything that would be used or run, whole: an end may be the point."""
    yield from (f"problem   {problem}" for problem in files.problems)
    yield from (
        f"setting   {describe_value(key)} = {describe_value(value)}"
        for key, value in _iter_settings(files)
    )
    yield from (f"hook      {line}" for line in _list_hooks(files))
    yield from (f"server    {line}" for line in _list_servers(files))
    yield from (f"allow     {line}" for line in _allow_rules(files))
    yield from (f"command   {line}" for line in _iter_commands(files))
    yield from (f"script    {to_printable(name)}" for name in files.scripts)
    yield from (f"left out  {name}: {why}" for name, why in files.foreign.left_out)


def _iter_commands(files: ProjectFiles) -> Iterator[str]:
    yield from (to_printable(name) for name in files.files if name.startswith(f"{COMMANDS}/"))
    yield from (to_printable(name) for _, name, _ in files.foreign.select_commands())


def _allow_rules(files: ProjectFiles) -> Iterator[str]:
    for name, data in files.foreign.select(*PERMISSIONS):
        for rule in get_permissions(read_object(data), "allow"):
            yield f"{describe_value(rule)} ({to_printable(name)})"


def _iter_settings(files: ProjectFiles) -> Iterator[tuple[str, Any]]:
    try:
        yield from tomllib.loads(files.files.get(SETTINGS, b"").decode("utf-8")).items()
    except (ValueError, RecursionError) as error:
        yield SETTINGS, f"cannot be read: {error}"


def _list_hooks(files: ProjectFiles) -> list[str]:
    text = files.files.get(HOOKS, b"{}").decode("utf-8", "replace")
    found = describe_hooks(text, files.directory / HOOKS)
    for name, data in files.foreign.select(*PERMISSIONS):
        if read_object(data).get("hooks"):
            path = files.foreign.top / name
            found += describe_hooks(data.decode("utf-8-sig", "replace"), path, is_settings=True)
    return found


def describe_hooks(text: str, path: Path, *, is_settings: bool = False) -> list[str]:
    """Return one line for each hook of a file: its event, its matcher and what it runs."""
    try:
        found = parse_hooks(text, path, is_settings=is_settings)
    except SettingsError as error:
        return [f"cannot be read: {describe_value(str(error))}"]
    return [
        f"{hook.event}{f' {hook.matcher}' if hook.matcher else ''}: "
        f"{describe_value(hook.command or hook.url or hook.problem)}"
        for hook in found.hooks
    ]


def _list_servers(files: ProjectFiles) -> list[str]:
    found = []
    if SERVERS in files.files:
        found += _describe_servers(files.files[SERVERS])
    for _, data in files.foreign.select(*SERVER_FILES):
        table = get_servers(read_object(data))
        found += [
            f"{describe_value(name)}: {describe_value(entry)}" for name, entry in table.items()
        ]
    return found


def _describe_servers(data: bytes) -> list[str]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        return [f"cannot be read: {error}"]
    servers = document.get("mcpServers", document) if isinstance(document, Mapping) else document
    if not isinstance(servers, Mapping):
        return [f"cannot be read: {describe_value(servers)}"]
    return [f"{describe_value(name)}: {describe_value(entry)}" for name, entry in servers.items()]


def describe_value(value: Any) -> str:
    """Return a value for the user who is asked: printable, and cut if it is long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return escape_unprintable(text)


# The projects that the user trusts: one small file for each, named by the project's path.
#
# An answer is bound to the real path and to a hash of the files it was given for. A moved project,
# a nested repository or a changed file is a new question. Since no two projects share a file,
# sessions that store an answer at the same time cannot lose each other's.


VERSION = 1

Standing = Literal["trusted", "unknown", "changed", "unusable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedProject:
    root: Path
    fingerprint: str
    at: str


class TrustStore:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find_standing(self, files: ProjectFiles) -> Standing:
        if files.problems:
            return "unusable"
        known = self._read(self._locate_file(files.root))
        if known is None or known.root != files.root:
            return "unknown"
        return "trusted" if known.fingerprint == files.fingerprint else "changed"

    def trust(self, files: ProjectFiles) -> None:
        """Trust the files as they were read, whatever is on disk by now. Raise SettingsError."""
        if files.problems:
            raise SettingsError(
                f"{files.root} cannot be trusted: {'; '.join(files.problems)}",
                hint="replace it with regular files",
            )
        record = {
            "v": VERSION,
            "root": str(files.root),
            "sha256": files.fingerprint,
            "at": events.read_clock(),
        }
        write_private(self._locate_file(files.root), json.dumps(record, ensure_ascii=False))

    def revoke(self, root: Path) -> None:
        """Remove the trust in a project. Raise SettingsError."""
        remove_private(self._locate_file(root))

    def list_trusted(self) -> list[TrustedProject]:
        found = (self._read(path) for path in self._directory.glob("*.json"))
        return sorted((one for one in found if one), key=lambda one: one.root)

    def _locate_file(self, root: Path) -> Path:
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        return self._directory / f"{name}.json"

    def _read(self, path: Path) -> TrustedProject | None:
        """Return the stored answer; None if we have not written it ourselves. Never guess one."""
        try:
            record = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
            if record["v"] != VERSION:
                return None
            return TrustedProject(
                root=Path(record["root"]), fingerprint=str(record["sha256"]), at=str(record["at"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
