"""A server's answer as a tool output: text and images within limits, the rest in files.

Nothing in it is trusted. Sizes are checked before anything is decoded. An image counts as one only
if it can be decoded, and text is shown only as characters.
"""

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

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

from agentcli.system.images import READ_BYTES, ImageRefused, decode_picture
from agentcli.system.output import BoundedOutput, group_digits
from agentcli.types.messages import Image, Text
from agentcli.types.tools import ErrorKind, Output

TEXT_BYTES = 32_000
HEAD_BYTES = 12_000
IMAGES_LIMIT = 8
KEPT_BYTES = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentStore:
    """The directory for content that a model cannot take, and the kinds that the model takes."""

    directory: Path
    takes_images: Callable[[], bool]


def convert_result(result: CallToolResult, keeping: ContentStore) -> Output:
    """Convert an answer to an output. Takes a moment if it contains images."""
    parts = _parts(result, keeping)
    said = "\n".join(part for part in parts if isinstance(part, str))
    text, is_cut = _limit_text(said, keeping.directory)
    if is_cut:  # the note is about the whole text, wherever the images were
        parts = [text, *(part for part in parts if isinstance(part, Image))]
    content = (Text(text=part) if isinstance(part, str) else part for part in parts)
    return Output(
        content=tuple(content) or (Text(text=""),),
        error=ErrorKind.FAILED if result.is_error else None,
        truncated=is_cut,
    )


def _parts(result: CallToolResult, keeping: ContentStore) -> list[str | Image]:
    """Return the parts of an answer in the server's order."""
    if not result.content and result.structured_content is not None:
        return [json.dumps(result.structured_content, ensure_ascii=False, indent=1)]
    parts: list[str | Image] = []
    images = 0
    for part in (one for block in result.content for one in _block(block, keeping)):
        is_image = isinstance(part, Image)
        images += is_image
        is_shown = not is_image or images <= IMAGES_LIMIT
        parts.append(part if is_shown else "[one more image is not shown]")
    return parts


def _block(block: ContentBlock, keeping: ContentStore) -> Iterator[str | Image]:
    match block:
        case TextContent(text=text):
            yield text
        case ImageContent(data=data, mime_type=media_type):
            yield _image(data, media_type, keeping)
        case AudioContent(data=data, mime_type=media_type):
            yield _store_block("audio", data, media_type, keeping)
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
                _image(resource.blob, media_type, keeping)
                if is_image
                else _store_block("file", resource.blob, media_type, keeping)
            )


def _image(data: str, media_type: str, keeping: ContentStore) -> str | Image:
    if not keeping.takes_images() or len(data) > READ_BYTES * 4 // 3:
        return _store_block("image", data, media_type, keeping)
    raw = _decode(data)
    if raw is None:
        return "[an image that is not valid base64]"
    try:
        return decode_picture(raw).image
    except ImageRefused:
        return _store_block("image", data, media_type, keeping)


def _store_block(what: str, data: str, media_type: str, keeping: ContentStore) -> str:
    """Store what a model cannot be shown, and return a note that says where it is."""
    named = f"{what} of type {media_type[:80]}"
    if len(data) > KEPT_BYTES * 4 // 3:
        return f"[{named}, more than {group_digits(KEPT_BYTES)} bytes: not saved]"
    raw = _decode(data)
    if raw is None:
        return f"[{named} that is not base64]"
    path = _path(keeping.directory, raw, "bin")
    return f"[{named}, {group_digits(len(raw))} bytes: {_write_file(path, raw)}]"


def _decode(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def _limit_text(text: str, directory: Path) -> tuple[str, bool]:
    data = text.encode("utf-8", "replace")
    if len(data) <= TEXT_BYTES:
        return text, False
    path = _path(directory, data, "txt")
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    whole = BoundedOutput(path, handle)
    try:
        whole.feed(data)
    finally:
        whole.close()
    excerpt = whole.finish().excerpt(limit_bytes=TEXT_BYTES, head_bytes=HEAD_BYTES)
    return excerpt.text, excerpt.is_cut


def _write_file(path: Path, raw: bytes) -> str:
    try:
        path.write_bytes(raw)
    except OSError as error:
        return f"not saved, {error.strerror}"
    return str(path)


def _path(directory: Path, data: bytes, suffix: str) -> Path:
    return directory / f"mcp-{hashlib.sha256(data).hexdigest()[:12]}.{suffix}"
