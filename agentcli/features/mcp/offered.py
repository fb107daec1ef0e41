"""A tool as its server describes it, made safe to show to a model: bounded, nothing hidden.

What a server says about its tools is foreign text. Invisible characters are removed and long texts
are cut. A change after the user has accepted it shows in the fingerprint.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from agentcli.system.plain_text import show_controls
from agentcli.types.messages import Json
from agentcli.types.tools import ToolSpec

# Names of servers' tools that every provider takes: `SERVER__TOOL`, at most 64 characters


LIMIT_CHARS = 64
_HASH_CHARS = 6
_NOT_TAKEN = re.compile(r"[^A-Za-z0-9_-]")


def public_name(server: str, tool: str) -> str:
    """Return the name of a tool for models. It does not depend on which other tools exist."""
    name = f"{server}__{_NOT_TAKEN.sub('_', tool)}"
    if len(name) <= LIMIT_CHARS and name.endswith(f"__{tool}"):
        return name
    # The changed name may equal another tool's name, so a hash of the original is added.
    told_apart = hashlib.sha256(tool.encode("utf-8", "replace")).hexdigest()[:_HASH_CHARS]
    return f"{name[: LIMIT_CHARS - _HASH_CHARS - 1]}_{told_apart}"


DESCRIPTION_CHARS = 2_000
FIELD_CHARS = 500
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

    @property
    def fingerprint(self) -> str:
        told = [self.name, self.description, self.schema, self.says_read_only]
        text = json.dumps(told, ensure_ascii=False, sort_keys=True)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def spec(self, server: str) -> ToolSpec:
        described = f"{self.description} " if self.description else ""
        return ToolSpec(
            name=public_name(server, self.name),
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


def _fit(schema: Json) -> Json:
    if not isinstance(schema, dict) or _depth(schema) > DEPTH:
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
        case list():
            return [_clean_value(one) for one in value]
        case dict():
            return {_clean(key, FIELD_CHARS): _clean_value(one) for key, one in value.items()}
        case _:
            return value


def _clean(text: str, limit_chars: int) -> str:
    shown = show_controls(text.encode("utf-8", "replace").decode()).replace("\ufffd", "")
    return shown if len(shown) <= limit_chars else shown[: limit_chars - 1] + "…"


def _depth(value: Json) -> int:
    """Count the depth without recursion: a hostile schema may be deeper than the stack."""
    depth, level = 0, [value]
    while level and depth <= DEPTH:
        depth += 1
        level = [inner for one in level for inner in _inner(one)]
    return depth


def _inner(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()
