"""A text file as a whole, within the size that tools take into memory."""

import os
from dataclasses import dataclass

from agentcli.machine.text import UTF8, Encoding, NotText, decode
from agentcli.machine.workspace import Workspace, WorkspacePath
from agentcli.types.errors import ToolError

LIMIT_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    data: bytes
    text: str
    encoding: Encoding


def load_text(workspace: Workspace, path: WorkspacePath) -> TextFile:
    """ToolError where there is no text file, or too large a one."""
    with os.fdopen(workspace.open_file(path), "rb") as file:
        data = file.read(LIMIT_BYTES + 1)
    if len(data) > LIMIT_BYTES:
        raise ToolError(f"{path.given} is larger than 10 MB, too large to change as text.")
    try:
        text, encoding = decode(data)
    except NotText as reason:
        raise ToolError(f"{path.given} is binary: {reason}.") from None
    return TextFile(data=data, text=text, encoding=encoding)


def encode_text(text: str, *, encoding: Encoding = UTF8, path: WorkspacePath) -> bytes:
    try:
        data = encoding.encode(text)
    except UnicodeEncodeError as error:
        char = error.object[error.start].encode("utf-8", "backslashreplace").decode()
        raise ToolError(
            f'{path.given} is {encoding.name}, and "{char}" cannot be written in it.'
        ) from None
    if len(data) > LIMIT_BYTES:
        raise ToolError(f"Not written: {path.given} would be larger than 10 MB.")
    return data
