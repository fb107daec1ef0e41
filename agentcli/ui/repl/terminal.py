"""One inline prompt-toolkit application for a whole session; only this module knows its insides.

What was committed is never touched again. A frame erases the live region, writes what has been
committed since the last one, and draws the region anew below, in one flush; so nothing flickers,
nothing is lost that scrolled away, and a hundred commits cost no more frames than one.
"""

import asyncio
import errno
import fcntl
import math
import os
import re
import select
import sys
import termios
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input, raw_mode
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout

from agentcli.ui.render.wording import is_ascii

BEGIN_FRAME, END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
"""Terminals that know these show all in between at once; the others ignore them."""

FRAME_S = 0.06
"""Between two frames of what changes by itself; what is typed is shown at once."""

READ_BYTES = 65536
PASTE_NEWLINES = 3
"""So many line ends in one read are a paste, where the terminal does not mark pastes."""

IN_ASCII = str.maketrans("…·−─│•↑↓✓✗⊘■", ".---|*^v+x!#")
"""One sign for one sign: what is laid out stays so where a terminal has ASCII alone."""

_PASTE_BEGIN, _PASTE_END = "\x1b[200~", "\x1b[201~"
_LATE_REPLY = re.compile(r"\x1b\]1[01];[^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[\?[0-9;]*c")


class SynchronisedOutput(Vt100_Output):
    """Sends each flush as one frame. A terminal that has gone away is told of once."""

    hold_depth = 0
    is_ascii = False
    on_gone: Callable[[], None] = staticmethod(lambda: None)

    def flush(self) -> None:
        if self.hold_depth or not self._buffer:
            return
        self._buffer = [BEGIN_FRAME, *self._buffer, END_FRAME]
        try:
            super().flush()
        except OSError:
            self._buffer = []
            self.on_gone()

    def write(self, data: str) -> None:
        super().write(data.translate(IN_ASCII) if self.is_ascii else data)

    def write_raw(self, data: str) -> None:
        super().write_raw(data.translate(IN_ASCII) if self.is_ascii else data)

    def disable_autowrap(self) -> None:
        """Never: a frame that meets a terminal just made narrower must wrap as the others did.

        No row of ours reaches the last column. Cut off instead of wrapped, such a frame would be
        lower than it is taken to be, and with it a row would be erased that was committed.
        """

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Everything within is one flush."""
        self.hold_depth += 1
        try:
            yield
        finally:
            self.hold_depth -= 1
            self.flush()


class Keyboard(PosixStdinReader):
    """Reads what is typed. A terminal that was closed is an end of input, not an endless read."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        self._paste: list[str] = []
        self._early_bytes: int | None = None
        """How much of what comes was typed before the terminal was ours; None: not looked yet."""

    def read(self, count: int = READ_BYTES) -> str:
        return self._mark_paste(self._hold_paste(self._read_available()))

    def count_early_bytes(self) -> None:
        """To be called as soon as the terminal is ours."""
        if self._early_bytes is None:
            waiting = fcntl.ioctl(self.stdin_fd, termios.FIONREAD, bytes(4))
            self._early_bytes = int.from_bytes(waiting, sys.byteorder)

    def _hold_paste(self, data: str) -> str:
        """A paste is held until its end has come: the parser looks at it anew with each piece."""
        if not self._paste and (data.rfind(_PASTE_BEGIN) <= data.rfind(_PASTE_END)):
            return _LATE_REPLY.sub("", data)
        self._paste.append(data)
        # The mark of the end may have come in two pieces.
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
        """Several lines at once that no terminal marked as a paste are one all the same."""
        if "\x1b" in data or data.count("\r") < PASTE_NEWLINES:
            return data
        return f"{_PASTE_BEGIN}{data}{_PASTE_END}"


class InlineApplication(Application[None]):
    """Knows how its rows were re-wrapped when the terminal changed its width."""

    output: SynchronisedOutput

    def __init__(self, **more: Any) -> None:
        self.committed: list[str] = []
        """What the next frame adds above the live region."""
        super().__init__(**more)

    def _on_resize(self) -> None:
        with self.output.hold():
            self._climb_over_wrapped_rows()
            super()._on_resize()

    def _redraw(self, render_as_done: bool = False) -> None:
        with self.output.hold():
            if self.is_running and not self.is_handed_over:
                self._update_committed()
            super()._redraw(render_as_done)

    def _update_committed(self) -> None:
        """What stands above the live region is as it has to be."""
        if self._was_resized() or self.committed:
            self.erase()
        self.write_committed()

    def write_committed(self) -> None:
        if self.committed:
            self.output.write_raw("".join(self.committed).replace("\n", "\r\n"))
            self.committed.clear()

    def erase(self) -> None:
        if self._was_resized():
            self._climb_over_wrapped_rows()
        self.renderer.erase(leave_alternate_screen=False)

    @property
    def is_handed_over(self) -> bool:
        return self._running_in_terminal

    def _was_resized(self) -> bool:
        last = self.renderer._last_size
        return last is not None and last.columns != self.output.get_size().columns

    def _climb_over_wrapped_rows(self) -> None:
        """The terminal has re-wrapped our rows already: the first of them stands higher now."""
        screen, columns = self.renderer._last_screen, self.output.get_size().columns
        if screen is None:
            return
        position = self.renderer._cursor_pos
        extra = position.x // columns
        for y in range(position.y):
            cells = screen.data_buffer[y].items()
            ends = (x + max(1, cell.width) for x, cell in cells if cell.char.strip())
            extra += max(0, math.ceil(max(ends, default=0) / columns) - 1)
        if extra:
            self.output.cursor_up(extra)


class Terminal:
    """Where committed text and the live region go."""

    def __init__(self, app: InlineApplication) -> None:
        self._app = app
        self._is_suspended = False
        """By ourselves: then all is put back on the way."""
        self._draws_soon = False
        self._next_frame: asyncio.TimerHandle | None = None
        self._last_frame_at = 0.0
        app.output.on_gone = self._stop_on_hangup

    @property
    def size(self) -> Size:
        return self._app.output.get_size()

    def commit(self, ansi: str) -> None:
        """Adds lines above the live region, for good. Only on the event loop's thread."""
        if ansi:
            self._app.committed.append(ansi if ansi.endswith("\n") else f"{ansi}\n")
            self.redraw()

    def redraw(self) -> None:
        """Now, or as soon as the last frame has stood for long enough."""
        if self._next_frame is None and self._app.is_running:
            loop = asyncio.get_running_loop()
            self._next_frame = loop.call_at(self._last_frame_at + FRAME_S, self._draw)

    def draw_soon(self) -> None:
        """After the keys of one read, without waiting for the next frame: they are seen at once."""
        if not self._draws_soon:
            self._draws_soon = True
            asyncio.get_running_loop().call_soon(self._draw)

    def _draw(self) -> None:
        self._draws_soon = False
        if self._next_frame is not None:
            self._next_frame.cancel()
            self._next_frame = None
        self._last_frame_at = asyncio.get_running_loop().time()
        self._app._redraw()

    def repaint(self) -> None:
        """Draws the live region anew, whatever stands there."""
        with self._app.output.hold():
            self._app.erase()
            self._app._redraw()

    def ring_bell(self) -> None:
        self._app.output.bell()

    def write_raw(self, sequence: str) -> None:
        """For what a terminal obeys without moving its cursor."""
        self._app.output.write_raw(sequence)
        self._app.output.flush()

    async def hand_over(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Gives the terminal, as it was found, to something else for a while."""
        async with in_terminal():
            result = await work()
        self.redraw()
        return result

    def suspend(self) -> None:
        self._is_suspended = True
        self._app.suspend_to_background()

    def resume(self) -> None:
        """After the process was stopped and goes on: a shell may have changed everything."""
        was_suspended, self._is_suspended = self._is_suspended, False
        if was_suspended or self._app.is_handed_over or not self._app.is_running:
            return
        raw_mode(self._app.input.fileno()).__enter__()
        self._app.renderer.reset()
        self._app._redraw()

    def leave(self, error: BaseException | None = None) -> None:
        future = self._app.future
        if future is None or future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    async def run(self, *, pre_run: Callable[[], None]) -> None:
        """Until `leave`. Raises EOFError when the terminal has gone away."""
        try:
            with patch_stdout(raw=True):  # a net for what libraries print
                await self._app.run_async(
                    pre_run=pre_run, set_exception_handler=False, handle_sigint=True
                )
        finally:
            self._app.write_committed()
            self._app.output.flush()

    def _stop_on_hangup(self) -> None:
        self.leave(EOFError())


class TerminalInput(Vt100Input):
    """What is typed, also before there was a prompt."""

    def __init__(self, stdin: TextIO) -> None:
        super().__init__(stdin)
        self.stdin_reader = self._keyboard = Keyboard(stdin.fileno())

    @contextmanager
    def raw_mode(self) -> Iterator[None]:
        with super().raw_mode():
            self._keyboard.count_early_bytes()
            yield


def restore_enter_keys(data: bytes) -> bytes:
    """Until it is ours, a terminal makes a newline of Enter."""
    return data.replace(b"\n", b"\r")


def open_output(stdout: TextIO) -> SynchronisedOutput:
    """Never asks for the cursor's position: the region is as high as what is in it."""
    output = SynchronisedOutput.from_pty(stdout, term=os.environ.get("TERM"))
    assert isinstance(output, SynchronisedOutput)
    output.enable_cpr = False
    output.is_ascii = is_ascii()
    return output


def open_input(stdin: TextIO, *, typed_before: str = "") -> Vt100Input:
    """`typed_before`: what was typed before there was a prompt; it comes first."""
    opened = TerminalInput(stdin)
    keys: list[KeyPress] = []
    Vt100Parser(keys.append).feed_and_flush(typed_before.replace("\n", "\r"))
    store_typeahead(opened, keys)
    return opened
