"""The lists of tools that a person has accepted, one file for each server.

A server is asked for its tools once. From then on the list stored here is what models are told, so
that a session starts no server before its first call, and whatever the server says otherwise later
is a change that the person has to accept again.
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
    """All that a model is told of them, for people to compare."""
    return "".join(
        f"{tool.name}{' (says that it only reads)' if tool.says_read_only else ''}\n"
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
        """None: nothing was accepted yet, or nothing that we have written ourselves."""
        try:
            record = json.loads(self._file(entry).read_text(encoding="utf-8"))
            if record["v"] != VERSION or record["identity"] != entry.identity:
                return None
            return tuple(OfferedTool(**tool) for tool in record["tools"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def store(self, entry: ServerEntry, tools: Sequence[OfferedTool]) -> None:
        """Raises SettingsError."""
        record = {
            "v": VERSION,
            "identity": entry.identity,
            "at": clock.now(),
            "tools": [asdict(tool) for tool in tools],
        }
        write_private(self._file(entry), json.dumps(record))

    def forget(self, entry: ServerEntry) -> None:
        """Raises SettingsError."""
        remove_private(self._file(entry))

    def _file(self, entry: ServerEntry) -> Path:
        return self._directory / entry.file_name


def _few(names: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


# When each server was tried last outside of a session, and what it answered.


TRIAL_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTrial:
    at: str
    tools: int | None
    """How many; None: it could not be used."""


class ServerTrials:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, entry: ServerEntry) -> ServerTrial | None:
        """None: it was not tried as it stands there now."""
        try:
            record = json.loads((self._directory / entry.file_name).read_text(encoding="utf-8"))
            if record.pop("v") != TRIAL_VERSION or record.pop("identity") != entry.identity:
                return None
            return ServerTrial(**record)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def store(self, entry: ServerEntry, tools: int | None) -> None:
        """Raises SettingsError."""
        trial = ServerTrial(at=clock.now(), tools=tools)
        record = {"v": TRIAL_VERSION, "identity": entry.identity, **asdict(trial)}
        write_private(self._directory / entry.file_name, json.dumps(record))
