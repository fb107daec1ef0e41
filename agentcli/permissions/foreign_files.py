"""Files of other agents in a repository that execute, redirect or widen something.

They are read once, each through handles that follow no link, as `project_files` reads those of
agentcli. A link inside of the repository is resolved first. What cannot be read is left out with
the reason: a file for another program never keeps a project from being trusted.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from agentcli.system.agent_files import (
    COMMANDS,
    PERMISSIONS,
    PROMPT_SUFFIXES,
    SERVERS,
    is_inside,
    list_levels,
    walk_files,
)
from agentcli.system.folder import descend
from agentcli.system.lazy import compile_later
from agentcli.system.text import to_printable
from agentcli.types.fast_dataclass import dataclass

FILE_LIMIT_BYTES = 1_000_000
COUNT_LIMIT = 500

_COMMENT = compile_later(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = compile_later(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFiles:
    top: Path
    """The root of the repository."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The files that were read, by name below `top`."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Files that were not read, each with the reason."""

    def select(self, *names: str) -> Iterator[tuple[str, bytes]]:
        """Yield the files with one of these names at any level, the nearest first."""
        for file, data in self.files.items():
            if any(file == name or file.endswith(f"/{name}") for name in names):
                yield file, data

    def select_commands(self) -> Iterator[tuple[str, str, bytes]]:
        """Yield the name of each prompt below its folder, the file and its content."""
        for file, data in self.files.items():
            for folder in COMMANDS:
                before, found, name = f"/{file}".partition(f"/{folder}/")
                if found and "/." not in before:
                    yield name, file, data

    @property
    def executing(self) -> dict[str, bytes]:
        """The files that do something only after they are trusted."""
        return {name: data for name, data in self.files.items() if _needs_trust(name, data)}


NO_FOREIGN_FILES = ForeignFiles(top=Path("/"))


def read_foreign_files(root: Path) -> ForeignFiles:
    """Read the files at every level from a directory up to the root of its repository."""
    levels = list_levels(root)
    reader = _ForeignReader(top=levels[-1])
    for level in levels:
        for name in (*SERVERS, *PERMISSIONS):
            reader.read(level / name)
        for folder in COMMANDS:
            reader.read_folder(level / folder)
    return ForeignFiles(
        top=levels[-1], files=reader.files, left_out=tuple(dict.fromkeys(reader.left_out))
    )


class _ForeignReader:
    def __init__(self, *, top: Path) -> None:
        self._top = top
        self._real_top = Path(os.path.realpath(top))
        self.files: dict[str, bytes] = {}
        self.left_out: list[tuple[str, str]] = []

    def read_folder(self, folder: Path) -> None:
        if not os.path.lexists(folder):
            return
        if not is_inside(folder, self._top):
            self._leave_out(folder, "it is a link that leads out of the repository")
            return
        for name in walk_files(folder, PROMPT_SUFFIXES):
            self.read(folder / name)

    def read(self, path: Path) -> None:
        if not os.path.lexists(path):
            return
        if not is_inside(path, self._top):
            self._leave_out(path, "it is a link that leads out of the repository")
        elif len(self.files) >= COUNT_LIMIT:
            self._leave_out(path, f"there are more than {COUNT_LIMIT} files")
        else:
            try:
                self._read(path)
            except OSError as error:
                self._leave_out(path, error.strerror or str(error))

    def _read(self, path: Path) -> None:
        parts = Path(os.path.realpath(path)).relative_to(self._real_top).parts
        with descend(self._real_top, parts[:-1]) as folder:
            handle = folder.open_file(parts[-1], os.O_RDONLY)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                self._leave_out(path, "it is not a regular file")
                return
            data = file.read(FILE_LIMIT_BYTES + 1)
        if len(data) > FILE_LIMIT_BYTES:
            self._leave_out(path, f"it is larger than {FILE_LIMIT_BYTES} bytes")
        else:
            self.files[path.relative_to(self._top).as_posix()] = data

    def _leave_out(self, path: Path, why: str) -> None:
        self.left_out.append((to_printable(path.relative_to(self._top).as_posix()), why))


def parse_json(data: bytes) -> Any:
    """Parse JSON as editors write it: with comments and last commas. Raise ValueError."""
    text = data.decode("utf-8-sig", "replace")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except json.JSONDecodeError:
        plain = _COMMENT.sub(lambda found: found[1] or " ", text)
        return json.loads(_LAST_COMMA.sub(lambda found: found[1] or "", plain))


def read_object(data: bytes) -> dict[str, Any]:
    """Return a JSON object; empty if it is none."""
    try:
        document = parse_json(data)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def get_servers(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the table of servers of any of the common formats."""
    for key in ("mcpServers", "servers"):
        if isinstance(table := document.get(key), dict):
            return table
    return {}


def get_permissions(document: Mapping[str, Any], decision: str) -> Sequence[str]:
    """Return the rules of a settings file with this decision."""
    table = document.get("permissions")
    listed = table.get(decision) if isinstance(table, dict) else None
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []


def _needs_trust(name: str, data: bytes) -> bool:
    """Return whether a file executes or widens something. Rules that refuse need no trust."""
    if name.endswith(PERMISSIONS):
        document = read_object(data)
        return bool(document.get("hooks") or get_permissions(document, "allow"))
    return not name.endswith(SERVERS) or bool(get_servers(read_object(data)))
