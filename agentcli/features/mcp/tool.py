"""A server's tool as a tool of ours: the same dispatch, permissions and log as any other.

It runs only in the form that was accepted. If its description or arguments have changed, it does
not run until the user has reviewed it.
"""

import asyncio
import base64
import binascii
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from agentcli.features.mcp.approvals import OfferedTool
from agentcli.features.mcp.connection import ServerConnection
from agentcli.features.mcp.faults import ServerFault
from agentcli.system.files import store_private
from agentcli.system.images import READ_BYTES, ImageRefused, decode_picture
from agentcli.system.output import group_digits, store_output
from agentcli.system.strict_json import replace_nonfinite
from agentcli.tools.arguments import read_object
from agentcli.types.errors import ToolError
from agentcli.types.messages import Image, Json, Text
from agentcli.types.tools import Effect, ErrorKind, Output, Structured, ToolContext, ToolSpec

# A server's answer as a tool output: text and images within limits, the rest in files.
# Nothing in it is trusted: sizes are checked before decoding, and an image must decode to be one.


TEXT_BYTES = 32_000
HEAD_BYTES = 12_000
IMAGES_LIMIT = 8
KEPT_BYTES = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentStore:
    """The directory for content that a model cannot take, and the kinds that the model takes."""

    directory: Path
    takes_images: Callable[[], bool]
    clean: Callable[[str], str] = str
    """Returns a text without what may not be stored."""


def convert_result(result: CallToolResult, keeping: ContentStore) -> Output:
    """Convert an answer to an output. Takes a moment if it contains images."""
    parts = _list_parts(result, keeping)
    shown = "\n".join(part for part in parts if isinstance(part, str))
    data = replace_nonfinite(result.structured_content)
    if data is not None and _says_more(data, shown):
        parts.append(json.dumps(data, ensure_ascii=False, indent=1))
    joined = "\n".join(part for part in parts if isinstance(part, str))
    text, is_cut = _limit_text(joined, keeping)
    if is_cut:  # the note is about the whole text, wherever the images were
        parts = [text, *(part for part in parts if isinstance(part, Image))]
    content = (Text(text=part) if isinstance(part, str) else part for part in parts)
    return Output(
        content=tuple(content) or (Text(text=""),),
        details=None if data is None else _store_data(data, keeping),
        error=ErrorKind.FAILED if result.is_error else None,
        truncated=is_cut,
    )


def _list_parts(result: CallToolResult, keeping: ContentStore) -> list[str | Image]:
    """Return the parts of an answer in the server's order."""
    parts: list[str | Image] = []
    images = 0
    for part in (one for block in result.content for one in _iter_block_parts(block, keeping)):
        is_image = isinstance(part, Image)
        images += is_image
        is_shown = not is_image or images <= IMAGES_LIMIT
        parts.append(part if is_shown else "[one more image is not shown]")
    return parts


def _says_more(data: Json, text: str) -> bool:
    """Return whether the data holds a value that the text does not name.

    Servers are asked to repeat the data as text, and some put a sentence there instead."""
    if data in ({}, []):
        return not text
    with suppress(ValueError, RecursionError):
        if json.loads(text) == data:
            return False
    return not all(value in text for value in _list_values(data))


def _list_values(data: Json) -> Iterator[str]:
    """Yield the values of the data as a text would name them, without keys and nulls."""
    match data:
        case dict():
            yield from (value for one in data.values() for value in _list_values(one))
        case list():
            yield from (value for one in data for value in _list_values(one))
        case str():
            yield data
        case None:
            return
        case _:
            yield json.dumps(data)


def _store_data(data: Json, keeping: ContentStore) -> Structured:
    """Return the data for the log, or the file with it if it is long."""
    text = json.dumps(data, ensure_ascii=False)
    if len(text.encode("utf-8", "replace")) <= TEXT_BYTES:
        return Structured(data=data)
    written = keeping.clean(text).encode("utf-8", "replace")
    path = _build_path(keeping.directory, written, suffix="json")
    return Structured(data=None, path=_write_file(path, written))


def _iter_block_parts(block: ContentBlock, keeping: ContentStore) -> Iterator[str | Image]:
    match block:
        case TextContent(text=text):
            yield text
        case ImageContent(data=data, mime_type=media_type):
            yield _read_image(data, media_type, keeping=keeping)
        case AudioContent(data=data, mime_type=media_type):
            yield _store_block("audio", data, media_type=media_type, keeping=keeping)
        case ResourceLink():
            about = [str(block.mime_type or ""), block.description or ""]
            yield f"[resource {block.name}: {block.uri} {' '.join(filter(None, about))}]".strip()
        case EmbeddedResource(resource=TextResourceContents() as resource):
            yield f"[resource {resource.uri}]\n{resource.text}"
        case EmbeddedResource(resource=BlobResourceContents() as resource):
            media_type = resource.mime_type or "application/octet-stream"
            is_image = media_type.startswith("image/")
            yield f"[resource {resource.uri}]"
            yield (
                _read_image(resource.blob, media_type, keeping=keeping)
                if is_image
                else _store_block("file", resource.blob, media_type=media_type, keeping=keeping)
            )


def _read_image(data: str, media_type: str, *, keeping: ContentStore) -> str | Image:
    if not keeping.takes_images() or len(data) > READ_BYTES * 4 // 3:
        return _store_block("image", data, media_type=media_type, keeping=keeping)
    raw = _decode(data)
    if raw is None:
        return "[an image that is not valid base64]"
    try:
        return decode_picture(raw).image
    except ImageRefused:
        return _store_block("image", data, media_type=media_type, keeping=keeping)


def _store_block(what: str, data: str, *, media_type: str, keeping: ContentStore) -> str:
    """Store what a model cannot be shown, and return a note that says where it is."""
    named = f"{what} of type {media_type[:80]}"
    if len(data) > KEPT_BYTES * 4 // 3:
        return f"[{named}, more than {group_digits(KEPT_BYTES)} bytes: not saved]"
    raw = _decode(data)
    if raw is None:
        return f"[{named} that is not base64]"
    path = _build_path(keeping.directory, raw, suffix="bin")
    return f"[{named}, {group_digits(len(raw))} bytes: {_write_file(path, raw)}]"


def _decode(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _limit_text(text: str, keeping: ContentStore) -> tuple[str, bool]:
    data = text.encode("utf-8", "replace")
    if len(data) <= TEXT_BYTES:
        return text, False
    data = keeping.clean(text).encode("utf-8", "replace")
    whole = store_output(_build_path(keeping.directory, data, suffix="txt"), data)
    excerpt = whole.build_excerpt(limit_bytes=TEXT_BYTES, head_bytes=HEAD_BYTES)
    return excerpt.text, excerpt.is_cut


def _write_file(path: Path, raw: bytes) -> str:
    try:
        store_private(path, raw)
    except OSError as error:
        return f"not saved, {error.strerror}"
    return str(path)


def _build_path(directory: Path, data: bytes, *, suffix: str) -> Path:
    return directory / f"mcp-{hashlib.sha256(data).hexdigest()[:12]}.{suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignCall:
    server_tool: str
    """The server's own name for it, whatever name models use."""
    arguments: dict[str, Any]


Review: TypeAlias = Callable[[Mapping[str, OfferedTool]], Awaitable[Mapping[str, OfferedTool]]]
"""Takes the tools a server offers now, and returns the accepted ones. It may ask the user."""


class ServerTool:
    def __init__(
        self, offered: OfferedTool, link: ServerConnection, *, keeping: ContentStore, review: Review
    ) -> None:
        self._review = review
        self._offered = offered
        self.link = link
        self.keeping = keeping
        self._spec = offered.spec(link.entry.name)

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    def parse(self, raw: Json) -> ForeignCall:
        """Check the names only. The server checks the values: its schema is its own."""
        given = read_object(raw)
        missing = [name for name in _list_required(self._offered.schema) if name not in given]
        if missing:
            raise _build_invalid_error(f"{', '.join(missing)} missing")
        return ForeignCall(server_tool=self._offered.name, arguments=given)

    def effect(self, args: ForeignCall) -> Effect:
        """Return the effect. A server's claim that it only reads counts only if the user agrees."""
        entry = self.link.entry
        if self._offered.says_read_only and entry.only_reads(self._offered.name):
            return Effect.READ
        return Effect.NETWORK

    async def preview(self, args: ForeignCall, context: ToolContext) -> None:
        return None

    async def run(self, args: ForeignCall, context: ToolContext) -> Output:
        try:
            return await self.answer(args, context)
        except ServerFault as fault:
            return _make_failure(fault)

    async def answer(self, args: ForeignCall, context: ToolContext) -> Output:
        """Return the server's answer. Raise ServerFault if it fails."""
        now = await self.link.list_tools()
        self._check(now, await self._review(now))
        result = await self.link.call(
            self._offered.name,
            args.arguments,
            show=context.progress,
            call_id=context.call_id,
        )
        return await asyncio.to_thread(convert_result, result, self.keeping)

    def _check(self, now: Mapping[str, OfferedTool], accepted: Mapping[str, OfferedTool]) -> None:
        """Raise ToolError unless the tool is the one that the model saw: no other may run
        instead."""
        name, server = self._offered.name, self.link.entry.name
        if name not in now:
            raise ToolError(f"The MCP server {server} has no tool {name} any more.")
        if now[name].fingerprint == self._offered.fingerprint:
            return
        if name not in accepted or accepted[name].fingerprint != now[name].fingerprint:
            raise ToolError(
                f"The MCP server {server} has changed its tool {name} since it was approved, so it "
                "was not run. It can be used again after the user runs: "
                f"agentcli mcp approve {server}",
                kind=ErrorKind.NOT_RUN,
            )
        self._offered = now[name]
        raise ToolError(
            f"Not run: the MCP server {server} has changed its tool {name}, and the user has "
            f"approved that. Call it again if it still does what is needed. It is now: "
            f"{self._offered.description}\nArguments: {json.dumps(self._offered.schema)}",
            kind=ErrorKind.NOT_RUN,
        )


def _list_required(schema: Json) -> Sequence[str]:
    """Return the required names, without those that have a default.

    Some servers list these, too, and fill them in themselves."""
    match schema:
        case {"required": list(required), "properties": dict(properties)}:
            names = (name for name in required if isinstance(name, str))
            return [name for name in names if not _has_default(properties.get(name))]
        case _:
            return []


def _has_default(field: Json) -> bool:
    return isinstance(field, dict) and "default" in field


def _make_failure(fault: ServerFault) -> Output:
    """Return a fault as the server's text if it quotes the server, or else raise it as our own."""
    kind = ErrorKind.TIMEOUT if fault.timed_out else ErrorKind.FAILED
    if fault.quotes_server:
        return Output.of(str(fault), error=kind)
    raise ToolError(str(fault), kind=kind) from fault


def _build_invalid_error(message: str) -> ToolError:
    return ToolError(f"Invalid input: {message}.", kind=ErrorKind.INVALID_INPUT)
