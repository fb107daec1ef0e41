"""The clipboard of X11, Wayland, macOS or Windows, by the programs of each: images and text."""

import base64
import binascii
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from agentcli.system import own_process
from agentcli.system.images import detect_image_type
from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

TIME_LIMIT_S = 10.0
NO_IMAGE = "the clipboard has no image"

_POWERSHELL = (
    "Add-Type -AssemblyName System.Windows.Forms, System.Drawing; "
    "$image = [System.Windows.Forms.Clipboard]::GetImage(); "
    "if ($image) { $stream = New-Object System.IO.MemoryStream; "
    "$image.Save($stream, [System.Drawing.Imaging.ImageFormat]::Png); "
    "[Convert]::ToBase64String($stream.ToArray()) }"
)
_APPLE_DATA = compile_later(rb"data PNGf((?:[0-9A-F]{2})+)")


class ClipboardRefused(Exception):
    """The reason why there is no image to be had, as a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """A program that writes the image in the clipboard to stdout."""

    command: Sequence[str]
    decode: Callable[[bytes], bytes] = bytes


def read_clipboard_image(
    workspace: Path, *, environ: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> bytes:
    """Return the bytes of the image. Raise ClipboardRefused. Takes a moment."""
    readers = _list_readers(environ, platform)
    if not readers:
        raise ClipboardRefused("no clipboard can be reached: this is not a graphical session")
    was_there = False
    for reader in readers:
        try:
            ran = own_process.run(
                reader.command,
                workspace=workspace,
                env=own_process.build_user_environment(workspace),
                timeout_s=TIME_LIMIT_S,
            )
        except FileNotFoundError:
            continue
        except (OSError, subprocess.TimeoutExpired):
            was_there = True
            continue
        was_there = True
        data = reader.decode(ran.stdout)
        if detect_image_type(data[:16]):
            return data
    if was_there:
        raise ClipboardRefused(NO_IMAGE)
    wanted = " or ".join(dict.fromkeys(reader.command[0] for reader in readers))
    raise ClipboardRefused(f"the clipboard can be read with {wanted}, which is not installed")


def _list_readers(environ: Mapping[str, str], platform: str) -> list[_Reader]:
    if platform == "darwin":
        script = "the clipboard as «class PNGf»"
        return [
            _Reader(command=("pngpaste", "-")),
            _Reader(command=("osascript", "-e", script), decode=_decode_apple),
        ]
    readers = []
    if "WSL_DISTRO_NAME" in environ:
        shell = ("powershell.exe", "-NoProfile", "-STA", "-Command", _POWERSHELL)
        readers.append(_Reader(command=shell, decode=_decode_base64))
    if "WAYLAND_DISPLAY" in environ:
        readers.append(_Reader(command=("wl-paste", "--no-newline", "--type", "image/png")))
    if "DISPLAY" in environ:
        words = ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")
        readers.append(_Reader(command=words))
    return readers


def _decode_apple(output: bytes) -> bytes:
    """Return the bytes that AppleScript prints as hexadecimal digits."""
    found = _APPLE_DATA.search(output)
    return bytes.fromhex(found[1].decode("ascii")) if found else b""


def _decode_base64(output: bytes) -> bytes:
    try:
        return base64.b64decode(output.strip(), validate=True)
    except binascii.Error:
        return b""


# Text is put into it by the first program that is there.

_WRITERS = (
    ("pbcopy",),
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
    ("clip.exe",),
)
_COPY_LIMIT_S = 3


def copy_text(text: str, workspace: Path) -> str:
    """Put text into the clipboard. Return the program that did it, or "" if none could."""
    data = text.encode("utf-8", "replace")
    done = (one[0] for one in _WRITERS if _feed_program(one, data, workspace=workspace))
    return next(done, "")


def _feed_program(command: Sequence[str], data: bytes, *, workspace: Path) -> bool:
    try:
        # Not `run`: a program that holds the clipboard stays, and keeps its streams open.
        child = own_process.start(
            command,
            workspace=workspace,
            env=own_process.build_user_environment(workspace),
            stdin=subprocess.PIPE,
        )
        child.communicate(data, timeout=_COPY_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return child.returncode == 0
