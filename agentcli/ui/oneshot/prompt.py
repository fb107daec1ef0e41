"""The task of a run: a prompt from the command line, a file or a pipe, and piped input.

Nothing here waits for the user, and nothing that cannot be a prompt reaches a model.
"""

import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

from agentcli.system.output import cap
from agentcli.system.strict_json import parse_json
from agentcli.types.errors import UsageError
from agentcli.types.messages import Attachment, Json
from agentcli.ui.images import NOT_ATTACHED, attach_mentioned_images, load_named_images

PROMPT_LIMIT_BYTES = 1024 * 1024
STDIN_LIMIT_BYTES = 256 * 1024
READ_LIMIT_BYTES = 64 * 1024 * 1024
"""The most that is read from a pipe.

Its end is shown to the model, so as much as fits in memory.
"""
FIRST_BYTE_S = 3.0
"""The time a pipe has to deliver its first byte: one that was only inherited never does."""

_EXAMPLE = "agentcli run 'fix the failing test'"


def read_prompt(prompt: str | None, file: Path | None) -> str:
    """Return the prompt. Raise UsageError if there is none, or none that could be meant."""
    if prompt is not None and file is not None:
        raise UsageError("the prompt was given twice", hint=f"{_EXAMPLE}   or: -f FILE")
    if file is not None:
        return _decode_prompt(_read_file(file), f"the prompt file {file}")
    if prompt == "-":
        return _decode_prompt(_read_piped_prompt(), "the prompt on stdin")
    if prompt is None:
        raise UsageError("there is no prompt", hint=f"{_EXAMPLE}   or: -f FILE   or: -")
    return _decode_prompt(prompt.encode("utf-8", "replace"), "the prompt")


def read_attachments(
    prompt: str, images: Sequence[Path], workspace: Path, *, takes_stdin: bool
) -> tuple[Attachment, ...]:
    """Return what goes to the model besides the prompt. Raise UsageError if it is unusable."""
    piped = _read_stdin_attachment() if takes_stdin else ()
    mentioned = read_mentioned_images(prompt, workspace) if "@" in prompt else ()
    return (*piped, *mentioned, *(load_named_images(images) if images else ()))


def _read_stdin_attachment() -> tuple[str, ...]:
    """Return what is piped in besides the prompt, within limits.

    Raise UsageError if it is unusable.
    """
    if not _is_piped() or not _wait_for_input():
        return ()
    data = _read_all(sys.stdin.buffer.fileno())
    if not data:
        return ()
    if b"\0" in data:
        raise UsageError(
            "stdin is not text: it contains NUL bytes",
            hint="save it to a file in the project, and name the file in the prompt",
        )
    text, was_cut = cap(data.decode("utf-8", "replace"), STDIN_LIMIT_BYTES)
    if was_cut:
        sys.stderr.write(
            f"warning: of {len(data):,} bytes on stdin the model gets the first and the last, "
            f"{STDIN_LIMIT_BYTES // 1024} KB in all\n"
        )
    return (f"<stdin>\n{text}\n</stdin>",)


def read_mentioned_images(prompt: str, workspace: Path) -> tuple[Attachment, ...]:
    """Load the images that the prompt mentions, as far as that is possible."""
    mentioned = attach_mentioned_images(prompt, workspace)
    for note in mentioned.notes:
        if note.startswith(NOT_ATTACHED):
            sys.stderr.write(f"warning: {note}\n")
    return mentioned.parts


def read_schema(file: Path) -> Json:
    """Read a JSON document. Whether it is a valid JSON Schema is not checked here."""
    data = _read_file(file)
    try:
        schema: Json = parse_json(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the schema {file} is not JSON: {error}", hint=f"edit {file}") from None
    return schema


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(PROMPT_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read {path}: {reason}", hint="name a file you can read") from None


def _read_piped_prompt() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "- reads the prompt from stdin, but nothing is piped in",
            hint="echo 'fix the failing test' | agentcli run -",
        )
    try:
        return sys.stdin.buffer.read(PROMPT_LIMIT_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read stdin: {error.strerror}", hint="pipe the prompt in"
        ) from error


def _decode_prompt(data: bytes, what: str) -> str:
    if len(data) > PROMPT_LIMIT_BYTES:
        limit = f"{PROMPT_LIMIT_BYTES // 1024} KB"
        raise UsageError(
            f"{what} is larger than {limit}", hint="name files in the prompt; the agent reads them"
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{what} is not UTF-8 text", hint="use plain text") from None
    if "\0" in text:
        raise UsageError(f"{what} is not text: it contains NUL bytes", hint="use plain text")
    if not text.strip():
        raise UsageError(f"{what} is empty", hint=_EXAMPLE)
    return text


def _is_piped() -> bool:
    """Return whether stdin is a pipe, a socket or a file: not a terminal, /dev/null or closed."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode if sys.stdin is not None else 0
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _wait_for_input() -> bool:
    if sys.platform == "win32":
        return True  # there is no way to wait for a pipe there
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], FIRST_BYTE_S)
    if not readable:
        sys.stderr.write(
            f"warning: nothing came from stdin within {FIRST_BYTE_S:g} s, so it is not attached; "
            "without this wait: < /dev/null\n"
        )
    return bool(readable)


def _read_all(descriptor: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while piece := _read_some(descriptor):
        size += len(piece)
        if size > READ_LIMIT_BYTES:
            raise UsageError(
                f"more than {READ_LIMIT_BYTES // 1024 // 1024} MB were piped in",
                hint="save it to a file in the project, and name the file in the prompt",
            )
        pieces.append(piece)
    return b"".join(pieces)


def _read_some(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1024 * 1024)
    except OSError as error:
        raise UsageError(
            f"cannot read stdin: {error.strerror}", hint="agentcli run PROMPT < /dev/null"
        ) from error
