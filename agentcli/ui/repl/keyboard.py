"""The keyboard as prompt-toolkit's input: pastes, early keys, and a terminal that was closed."""

import errno
import fcntl
import os
import re
import select
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input

READ_BYTES = 65536
PASTE_NEWLINES = 3
"""The number of line ends in one read that make a paste, if the terminal does not mark pastes."""

_PASTE_BEGIN, _PASTE_END = "\x1b[200~", "\x1b[201~"
_LATE_REPLY = re.compile(r"\x1b\]1[01];[^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*c")


class Keyboard(PosixStdinReader):
    """The keyboard. A terminal that was closed is an end of input, not an endless read."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._paste: list[str] = []
        self._early_bytes: int | None = None
        """The bytes that were typed before the terminal was ours, or None if not counted yet."""

    def read(self, count: int = READ_BYTES) -> str:
        return self._mark_paste(self._hold_paste(self._read_available()))

    def count_early_bytes(self) -> None:
        """Count the bytes typed early. Must be called as soon as the terminal is ours."""
        if self._early_bytes is None:
            waiting = fcntl.ioctl(self.stdin_fd, termios.FIONREAD, bytes(4))
            self._early_bytes = int.from_bytes(waiting, sys.byteorder)

    def _hold_paste(self, data: str) -> str:
        """Hold a paste until its end has come, since the parser reads it again with each piece."""
        if not self._paste and (data.rfind(_PASTE_BEGIN) <= data.rfind(_PASTE_END)):
            return _LATE_REPLY.sub("", data)
        self._paste.append(data)
        # The end marker may have come in two pieces.
        if _PASTE_END not in "".join(self._paste[-2:]):
            return ""
        data, self._paste = "".join(self._paste), []
        return data

    def _read_available(self) -> str:
        if self.closed:
            return ""
        try:
            if not select.select([self.stdin_fd], [], [], 0)[0]:
                return ""
            data = os.read(self.stdin_fd, READ_BYTES)
        except OSError as error:
            self.closed = error.errno not in (errno.EINTR, errno.EAGAIN)
            return ""
        self.closed = not data
        early = self._early_bytes or 0
        if early:
            self._early_bytes = max(0, early - len(data))
            data = restore_enter_keys(data[:early]) + data[early:]
        return self._stdin_decoder.decode(data)

    def _mark_paste(self, data: str) -> str:
        """Mark several lines that come at once as a paste, if the terminal has not done so."""
        if "\x1b" in data or data.count("\r") < PASTE_NEWLINES:
            return data
        return f"{_PASTE_BEGIN}{data}{_PASTE_END}"


class TerminalInput(Vt100Input):
    """The typed input, including what was typed before there was a prompt."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.stdin_reader = self._keyboard = Keyboard(stdin.fileno())

    @contextmanager
    def raw_mode(self) -> Iterator[None]:
        with super().raw_mode():
            self._keyboard.count_early_bytes()
            yield


def restore_enter_keys(data: bytes) -> bytes:
    """Return the data with Enter keys. Until the terminal is ours, it makes a newline of Enter."""
    return data.replace(b"\n", b"\r")
