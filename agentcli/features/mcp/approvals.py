"""The lists of tools that the user has accepted, one file for each server.

A server is asked for its tools once. After that, models see the list stored here, so a session
starts no server before its first call. If the server later offers something else, the user must
accept the change.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from agentcli.features.mcp.entries import ServerEntry
from agentcli.features.mcp.offered import OfferedTool
from agentcli.system import clock
from agentcli.system.private_file import remove_private, write_private

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolListChange:
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def __str__(self) -> str:
        parts = (("new", self.added), ("changed", self.changed), ("gone", self.removed))
        return "; ".join(f"{word}: {_few(names)}" for word, names in parts if names)


def compare_tools(before: Iterable[OfferedTool], now: Iterable[OfferedTool]) -> ToolListChange:
    old = {tool.name: tool.fingerprint for tool in before}
    new = {tool.name: tool.fingerprint for tool in now}
    return ToolListChange(
        added=tuple(name for name in new if name not in old),
        changed=tuple(name for name in new if name in old and new[name] != old[name]),
        removed=tuple(name for name in old if name not in new),
    )


def describe_tools(tools: Iterable[OfferedTool]) -> str:
    """Return everything a model sees of these tools, as text for the user to compare."""
    return "".join(
        f"{tool.name}{' (says it is read-only)' if tool.says_read_only else ''}\n"
        f"  {tool.description}\n{_schema(tool)}\n"
        for tool in sorted(tools, key=lambda tool: tool.name)
    )


def _schema(tool: OfferedTool) -> str:
    text = json.dumps(tool.schema, ensure_ascii=False, indent=1, sort_keys=True)
    return "".join(f"  {line}\n" for line in text.splitlines())


class ToolListApprovals:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, entry: ServerEntry) -> tuple[OfferedTool, ...] | None:
        """Return the accepted tools. None if nothing was accepted or the file is not ours."""
        try:
            record = json.loads(self._file(entry).read_text(encoding="utf-8"))
            if record["v"] != VERSION or record["identity"] != entry.identity:
                return None
            return tuple(OfferedTool(**tool) for tool in record["tools"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def store(self, entry: ServerEntry, tools: Sequence[OfferedTool]) -> None:
        """Store the accepted tools of a server. Raise SettingsError if that fails."""
        record = {
            "v": VERSION,
            "identity": entry.identity,
            "at": clock.now(),
            "tools": [asdict(tool) for tool in tools],
        }
        write_private(self._file(entry), json.dumps(record))

    def forget(self, entry: ServerEntry) -> None:
        """Delete the accepted tools of a server. Raise SettingsError if that fails."""
        remove_private(self._file(entry))

    def _file(self, entry: ServerEntry) -> Path:
        return self._directory / entry.file_name


def _few(names: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


# The last trial of each server outside a session, and its result


TRIAL_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrial:
    at: str
    tools: int | None
    """The number of tools; None if the server could not be used."""


class ServerTrials:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, entry: ServerEntry) -> ServerTrial | None:
        """Return the last trial. None if the server was not tried with its current entry."""
        try:
            record = json.loads((self._directory / entry.file_name).read_text(encoding="utf-8"))
            if record.pop("v") != TRIAL_VERSION or record.pop("identity") != entry.identity:
                return None
            return ServerTrial(**record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def store(self, entry: ServerEntry, tools: int | None) -> None:
        """Store the result of a trial. Raise SettingsError if that fails."""
        trial = ServerTrial(at=clock.now(), tools=tools)
        record = {"v": TRIAL_VERSION, "identity": entry.identity, **asdict(trial)}
        write_private(self._directory / entry.file_name, json.dumps(record))
