"""The lists of tools that the user has accepted, one file for each server.

A server is asked for its tools once. After that, models see the list stored here, so a session
starts no server before its first call. If the server later offers something else, the user must
accept the change.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentcli.features.mcp.entries import ServerEntry
from agentcli.system.files import remove_private, write_private
from agentcli.system.plain_text import show_controls
from agentcli.system.strict_json import name_nonfinite
from agentcli.types import events
from agentcli.types.messages import Json
from agentcli.types.tools import ToolSpec

# A tool as its server describes it, made safe to show to a model. Its text is foreign: invisible
# characters are removed, long texts are cut, and a change after the user has accepted it shows in
# the fingerprint. Names are `SERVER__TOOL`, which every provider takes.


LIMIT_CHARS = 64
_HASH_CHARS = 6
_NOT_TAKEN = re.compile(r"[^A-Za-z0-9_-]")


def build_public_name(server: str, tool: str) -> str:
    """Return the name of a tool for models. It does not depend on which other tools exist."""
    name = f"{server}__{_NOT_TAKEN.sub('_', tool)}"
    if len(name) <= LIMIT_CHARS and name.endswith(f"__{tool}"):
        return name
    # The changed name may equal another tool's name, so a hash of the original is added.
    told_apart = hashlib.sha256(tool.encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]
    return f"{name[: LIMIT_CHARS - _HASH_CHARS - 1]}_{told_apart}"


DESCRIPTION_CHARS = 2_000
FIELD_CHARS = 500
INSTRUCTIONS_CHARS = 4_000
SCHEMA_CHARS = 20_000
DEPTH = 24
_ANY_OBJECT: dict[str, Json] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    name: str
    """The server's own name for it."""
    description: str
    schema: Json
    says_read_only: bool = False
    """The server's hint, which proves nothing."""
    is_ours: bool = False
    """True for the tool that we add to a server with resources, to list and read them."""

    @property
    def fingerprint(self) -> str:
        declared = [self.name, self.description, self.schema, self.says_read_only]
        text = json.dumps(declared, ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def spec(self, server: str) -> ToolSpec:
        described = f"{self.description} " if self.description else ""
        return ToolSpec(
            name=build_public_name(server, self.name),
            description=f"{described}(tool of the MCP server {server})",
            schema=self.schema,
            source=f"mcp {server}",
        )


def clean_offer(*, name: str, description: str, schema: Json, says_read_only: bool) -> OfferedTool:
    """Return a tool in the form that a model may see."""
    return OfferedTool(
        name=name,
        description=_clean(description, DESCRIPTION_CHARS).strip(),
        schema=_fit(schema),
        says_read_only=says_read_only,
    )


def clean_instructions(text: str) -> str:
    """Return what a server says about the use of its tools, in the form that a model may see."""
    return _clean(text, INSTRUCTIONS_CHARS).strip()


READ_RESOURCE = OfferedTool(
    name="read_resource",
    description="Reads a resource of this server by its URI. Without a URI it lists the resources.",
    schema={
        "type": "object",
        "properties": {"uri": {"type": "string", "description": "as listed; fill in {templates}"}},
    },
    says_read_only=True,
    is_ours=True,
)


def _fit(schema: Json) -> Json:
    if not isinstance(schema, dict) or _measure_depth(schema) > DEPTH:
        return dict(_ANY_OBJECT)
    cleaned = _clean_value(schema)
    assert isinstance(cleaned, dict)
    if len(json.dumps(cleaned)) > SCHEMA_CHARS:
        return dict(_ANY_OBJECT)
    return {**_ANY_OBJECT, **{key: value for key, value in cleaned.items() if key != "$schema"}}


def _clean_value(value: Json) -> Json:
    match value:
        case str():
            return _clean(value, FIELD_CHARS)
        case float():
            return name_nonfinite(value)
        case list():
            return [_clean_value(one) for one in value]
        case dict():
            return {_clean(key, FIELD_CHARS): _clean_value(one) for key, one in value.items()}
        case _:
            return value


def _clean(text: str, limit_chars: int) -> str:
    shown = show_controls(text.encode("utf-8", "replace").decode()).replace("\ufffd", "")
    return shown if len(shown) <= limit_chars else shown[: limit_chars - 1] + "…"


def _measure_depth(value: Json) -> int:
    """Count the depth without recursion: a hostile schema may be deeper than the stack."""
    depth, level = 0, [value]
    while level and depth <= DEPTH:
        depth += 1
        level = [inner for one in level for inner in _list_inner(one)]
    return depth


def _list_inner(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


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
        return "; ".join(f"{word}: {_join_few(names)}" for word, names in parts if names)


def compare_tools(before: Iterable[OfferedTool], now: Iterable[OfferedTool]) -> ToolListChange:
    old = {tool.name: tool.fingerprint for tool in before if not tool.is_ours}
    new = {tool.name: tool.fingerprint for tool in now if not tool.is_ours}
    return ToolListChange(
        added=tuple(name for name in new if name not in old),
        changed=tuple(name for name in new if name in old and new[name] != old[name]),
        removed=tuple(name for name in old if name not in new),
    )


def describe_tools(tools: Iterable[OfferedTool]) -> str:
    """Return everything a model sees of these tools, as text for the user to compare."""
    return "".join(
        f"{tool.name}{' (says it is read-only)' if tool.says_read_only else ''}\n"
        f"  {tool.description}\n{_format_schema(tool)}\n"
        for tool in sorted(tools, key=lambda tool: tool.name)
    )


def _format_schema(tool: OfferedTool) -> str:
    text = json.dumps(tool.schema, ensure_ascii=False, indent=1, sort_keys=True)
    return "".join(f"  {line}\n" for line in text.splitlines())


class ToolListApprovals:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, entry: ServerEntry) -> tuple[OfferedTool, ...] | None:
        """Return the accepted tools. None if nothing was accepted or the file is not ours."""
        try:
            return tuple(OfferedTool(**tool) for tool in self._read(entry)["tools"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def find_instructions(self, entry: ServerEntry) -> str:
        """Return the instructions that were accepted with the tools."""
        try:
            return str(self._read(entry).get("instructions", ""))
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def _read(self, entry: ServerEntry) -> dict[str, Any]:
        """Return the record of this server. Raise OSError, or ValueError if it is another's."""
        record = json.loads(self._locate_file(entry).read_text(encoding="utf-8"))
        if record["v"] != VERSION or record["identity"] != entry.identity:
            raise ValueError(entry.name)
        return dict(record)

    def store(
        self, entry: ServerEntry, tools: Sequence[OfferedTool], *, instructions: str = ""
    ) -> None:
        """Store what was accepted of a server. Raise SettingsError if that fails."""
        record = {
            "v": VERSION,
            "identity": entry.identity,
            "at": events.read_clock(),
            "tools": [asdict(tool) for tool in tools],
            "instructions": instructions,
        }
        write_private(self._locate_file(entry), json.dumps(record))

    def forget(self, entry: ServerEntry) -> None:
        """Delete the accepted tools of a server. Raise SettingsError if that fails."""
        remove_private(self._locate_file(entry))

    def _locate_file(self, entry: ServerEntry) -> Path:
        return self._directory / entry.file_name


def _join_few(names: Sequence[str], most: int = 5) -> str:
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


# The last trial of each server whose tools are not accepted yet, and its result


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

    def has_failed(self, entry: ServerEntry) -> bool:
        trial = self.find(entry)
        return trial is not None and trial.tools is None

    def store(self, entry: ServerEntry, tools: int | None) -> None:
        """Store the result of a trial. Raise SettingsError if that fails."""
        trial = ServerTrial(at=events.read_clock(), tools=tools)
        record = {"v": TRIAL_VERSION, "identity": entry.identity, **asdict(trial)}
        write_private(self._directory / entry.file_name, json.dumps(record))

    def forget(self, entry: ServerEntry) -> None:
        """Delete the result of the last trial. Raise SettingsError if that fails."""
        remove_private(self._directory / entry.file_name)
