"""One inline prompt-toolkit application for a whole session, and its keyboard.

Only this module knows its internals.

Committed text is never touched again. A frame erases the live region, writes what has been
committed since the last frame, and draws the region again below, in one flush. So nothing
flickers, and nothing that scrolled away is lost. A hundred commits cost no more frames than one.
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
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO, TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import Input
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input, raw_mode
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.patch_stdout import patch_stdout

from agentcli.types.errors import AgentError, Exit
from agentcli.types.settings import Notify
from agentcli.ui.render.wording import is_ascii

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


T = TypeVar("T")

BEGIN_FRAME, END_FRAME = "\x1b[?2026h", "\x1b[?2026l"
"""Terminals that know these show everything in between at once. The others ignore them."""

_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?12l\x1b[?25h"
_AROUND_CHANGES = frozenset((_HIDE_CURSOR, _SHOW_CURSOR, "\x1b[?7h", "\x1b[0m"))
"""What prompt-toolkit writes for each frame, also for one that is like the frame before it."""

FRAME_S = 0.06
"""The time between two frames of what changes by itself. Typed text is shown at once."""

GAP_ROWS_MAX = 8
STEADY_SIZE_S = 0.4
"""tmux wraps its rows at once, but tells a program about a second change of the size only after
0.25 s. What is drawn in between is laid out for the wrong width."""

IN_ASCII = str.maketrans("…·−─│•↑↓✓✗⊘■", ".---|*^v+x!#")
"""One character for one character, so that the layout is the same on an ASCII terminal."""


class SynchronizedOutput(Vt100_Output):
    """An output that sends each flush as one frame.

    It never asks for the cursor's position: the region is as high as its contents.
    """

    def __init__(self, stdout: TextIO, *, is_ascii: bool = False) -> None:
        super().__init__(stdout, self._measure_size, term=os.environ.get("TERM"), enable_cpr=False)
        self._is_ascii = is_ascii
        self._hold_depth = 0
        self.is_gone = False
        """True once the terminal could not be written to."""

    def _measure_size(self) -> Size:
        with suppress(OSError):  # the terminal is gone, or was never one
            columns, rows = os.get_terminal_size(self.stdout.fileno())
            return Size(rows=rows or 24, columns=columns or 80)
        return Size(rows=24, columns=80)

    def flush(self) -> None:
        if self._hold_depth or not self._buffer:
            return
        if self._is_as_before():
            self._buffer = []
            return
        self._buffer = [BEGIN_FRAME, *self._buffer, END_FRAME]
        try:
            super().flush()
        except OSError:
            self._buffer = []
            self.is_gone = True

    def _is_as_before(self) -> bool:
        """Return whether the terminal would be as before: such a frame is not sent."""
        codes = self._buffer
        is_cursor_same = codes.count(_HIDE_CURSOR) == codes.count(_SHOW_CURSOR)
        return is_cursor_same and _AROUND_CHANGES.issuperset(codes)

    def write(self, data: str) -> None:
        super().write(data.translate(IN_ASCII) if self._is_ascii else data)

    def write_raw(self, data: str) -> None:
        super().write_raw(data.translate(IN_ASCII) if self._is_ascii else data)

    def erase_down(self) -> None:
        """Erase from the cursor, at the start of a row, to the end of the screen.

        The first row is erased by itself: terminals keep what is erased from the first row of the
        screen on in their history, as if it had been committed."""
        self.write_raw("\x1b[K\x1b7\x1b[B\x1b[J\x1b8")

    def disable_autowrap(self) -> None:
        """Do nothing: after a terminal gets narrower, a frame must wrap as the others did.

        No row of ours reaches the last column. A frame that is cut off and not wrapped would be
        lower than assumed. Then a committed row would be erased with it.
        """

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Send everything written inside as one flush."""
        self._hold_depth += 1
        try:
            yield
        finally:
            self._hold_depth -= 1
            self.flush()


class InlineApplication(Application[Exit]):
    """An application that knows how a change of the terminal's width re-wrapped its rows."""

    output: SynchronizedOutput

    def __init__(self, terminal: "Terminal", **more: Any) -> None:
        self._terminal = terminal
        self._committed = terminal.committed
        self._reports_sizes_late = _is_in_tmux(os.environ)
        self._steady_size: asyncio.TimerHandle | None = None
        """The moment at which the size counts as steady, if it has just changed."""
        super().__init__(input=terminal.input, output=terminal.output, **more)
        self.key_processor.after_key_press += lambda _: terminal.draw_soon()

    def _on_resize(self) -> None:
        with self.output.hold():
            self._climb_over_wrapped_rows()
            if self._reports_sizes_late:
                self.renderer.erase(leave_alternate_screen=False)
                self._draw_when_size_is_steady()
            else:
                super()._on_resize()

    def _draw_when_size_is_steady(self) -> None:
        """Draw nothing until the size has been the same for a moment."""
        if self._steady_size is not None:
            self._steady_size.cancel()
        loop = asyncio.get_running_loop()
        self._steady_size = loop.call_later(STEADY_SIZE_S, self._draw_at_steady_size)

    def _draw_at_steady_size(self) -> None:
        self._steady_size = None
        self._redraw()

    def _redraw(self, render_as_done: bool = False) -> None:
        if self._steady_size is not None and not render_as_done:
            return
        with self.output.hold():
            if self.is_running and not self.is_handed_over:
                self._update_committed()
            before = self.renderer._last_screen
            super()._redraw(render_as_done)
            if self._clear_shortened_rows(before):
                super()._redraw(render_as_done)
        if self.output.is_gone:
            self.fail(EOFError())

    def _update_committed(self) -> None:
        """Write the committed text above the live region, after erasing the region if necessary."""
        if self._was_resized() or self._committed:
            self.erase()
        self.write_committed()

    def write_committed(self) -> None:
        if self._committed:
            self.output.write_raw("".join(self._committed).replace("\n", "\r\n"))
            self._committed.clear()
            self._terminal.gap_rows = 0

    def leave(self, exit_code: Exit) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(exit_code)

    def fail(self, error: BaseException) -> None:
        """End the application, and raise the error where it is run."""
        if self.future is not None and not self.future.done():
            self.future.set_exception(error)

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
        """Move the cursor up: the terminal has re-wrapped our rows, so the first is higher now.

        The region stays where it ended, below a gap. Otherwise each change of the width would move
        it up, until its first row is in the terminal's history and cannot be erased.
        """
        screen, columns = self.renderer._last_screen, self.output.get_size().columns
        if screen is None:
            return
        position = self.renderer._cursor_pos
        extra = position.x // columns
        for y in range(position.y):
            extra += max(0, math.ceil(self._measure_row(screen, y) / columns) - 1)
        if extra:
            self.output.cursor_up(extra)
            gap_rows = self._terminal.gap_rows + extra
            self._terminal.gap_rows = min(GAP_ROWS_MAX, gap_rows)

    def _clear_shortened_rows(self, before: Screen | None) -> bool:
        """Clear the rows that got shorter with the last frame. Return whether there were any.

        tmux wraps a row as if the cells erased at its end were still there, unless the whole row
        was erased. The next frame writes these rows again.
        """
        screen = self.renderer._last_screen
        if before is None or screen is None or screen is before:
            return False
        rows = range(min(before.height, self.output.get_size().rows))
        shortened = [y for y in rows if self._measure_row(screen, y) < self._measure_row(before, y)]
        for y in shortened:
            self._clear_row(y)
            screen.data_buffer[y].clear()
        return bool(shortened)

    def _clear_row(self, y: int) -> None:
        """Erase one row of the live region, and leave the cursor where it is."""
        down = y - self.renderer._cursor_pos.y
        move, back = (
            (self.output.cursor_down, self.output.cursor_up)
            if down > 0
            else (self.output.cursor_up, self.output.cursor_down)
        )
        move(abs(down))
        self.output.write_raw("\x1b[2K")
        back(abs(down))

    def _measure_row(self, screen: Screen, y: int) -> int:
        """Return the columns that a row takes up in the terminal."""
        has_style: Mapping[str, bool] = self.renderer._style_string_has_style or {}
        cells = screen.data_buffer[y].items()
        ends = (
            x + max(1, cell.width)
            for x, cell in cells
            if cell.char != " " or has_style.get(cell.style)
        )
        return max(ends, default=0)


NOTICE_S = 1.5
SAVE_TITLE, RESTORE_TITLE = "\x1b[22;2t", "\x1b[23;2t"


def _is_in_tmux(environ: Mapping[str, str]) -> bool:
    return "TMUX" in environ or environ.get("TERM", "").startswith(("tmux", "screen"))


def _knows_osc_777(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM", "").startswith(("foot", "rxvt")) or "VTE_VERSION" in environ


class Terminal:
    """The terminal, with the committed text and the live region that an application draws."""

    def __init__(self, *, input: Input, output: SynchronizedOutput) -> None:
        self.input = input
        self.output = output
        self.committed: list[str] = []
        """The text that the next frame adds above the live region."""
        self.gap_rows = 0
        """The empty rows above the live region, until something is committed."""
        self.notice = ""
        """The text shown instead of the toolbar for a moment, or empty."""
        self.returned_at = -math.inf
        """When something else gave the terminal back, by the monotonic clock."""
        self._title = ""
        self._app: InlineApplication | None = None
        self._tasks: set[asyncio.Future[Any]] = set()
        self._is_suspended = False
        """True if we suspended the process ourselves. Then everything is restored on the way."""
        self._draws_soon = False
        self._next_frame: asyncio.TimerHandle | None = None
        self._last_frame_at = 0.0

    @property
    def size(self) -> Size:
        return self.output.get_size()

    async def run(self, app: InlineApplication, *, pre_run: Callable[[], None]) -> Exit:
        """Run the application until `leave`. Return HANGUP if the terminal has gone away."""
        self._app = app
        try:
            with patch_stdout(raw=True):  # catches what libraries print
                return await app.run_async(
                    pre_run=pre_run, set_exception_handler=False, handle_sigint=True
                )
        except EOFError:
            return Exit.HANGUP
        finally:
            app.write_committed()
            self._restore_title()
            self.output.flush()

    def leave(self, exit_code: Exit = Exit.DONE) -> None:
        if self._app is not None:
            self._app.leave(exit_code)

    def fail(self, error: BaseException) -> None:
        """End the session because of a bug. The error is raised by `run`."""
        if self._app is not None:
            self._app.fail(error)

    def run_task(self, work: Awaitable[Any]) -> None:
        """Run `work` as a task. An unexpected error in it ends the session and is not lost."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finish_task)

    def _finish_task(self, task: "asyncio.Future[Any]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        # An AgentError was reported where it was found.
        if error is not None and not isinstance(error, AgentError):
            self.fail(error)

    # Drawing

    def commit(self, ansi: str) -> None:
        """Add lines above the live region, permanently. Only on the event loop's thread."""
        if ansi:
            self.committed.append(ansi if ansi.endswith("\n") else f"{ansi}\n")
            self.redraw()

    def show_notice(self, text: str, *, seconds: float = NOTICE_S) -> None:
        """Show a notice instead of the toolbar, for a moment or until something is sent."""
        self.notice = text
        self.redraw()
        asyncio.get_running_loop().call_later(seconds, self._remove_notice, text)

    def _remove_notice(self, text: str) -> None:
        if self.notice == text:
            self.notice = ""
            self.redraw()

    async def redraw_regularly(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            self.redraw()

    def redraw(self) -> None:
        """Draw now, or as soon as the last frame was shown for long enough."""
        if self._next_frame is None and self._app is not None and self._app.is_running:
            loop = asyncio.get_running_loop()
            self._next_frame = loop.call_at(self._last_frame_at + FRAME_S, self._draw)

    def draw_soon(self) -> None:
        """Draw after the keys of one read, not with the next frame: they are seen at once."""
        if not self._draws_soon:
            self._draws_soon = True
            asyncio.get_running_loop().call_soon(self._draw)

    def _draw(self) -> None:
        self._draws_soon = False
        if self._next_frame is not None:
            self._next_frame.cancel()
            self._next_frame = None
        self._last_frame_at = asyncio.get_running_loop().time()
        if self._app is not None:
            self._app._redraw()

    def repaint(self) -> None:
        """Draw the live region again, whatever is there."""
        if self._app is not None:
            with self.output.hold():
                self._app.erase()
                self._app._redraw()

    def notify(self, how: Notify, text: str) -> None:
        """Draw the user's attention, as they want it: not at all, by the bell, or on the desktop.

        Terminals know one of three sequences for a notification of the desktop."""
        match how:
            case "bell":
                self.output.bell()
            case "desktop" if os.environ.get("TERM") == "xterm-kitty":
                self.write_raw(f"\x1b]99;;agentcli: {text}\x1b\\")
            case "desktop" if _knows_osc_777(os.environ):
                self.write_raw(f"\x1b]777;notify;agentcli;{text}\x1b\\")
            case "desktop":
                self.write_raw(f"\x1b]9;agentcli: {text}\x1b\\")
            case _:
                pass

    def set_title(self, title: str) -> None:
        """Set the title of the window. The terminal gets its own back at the end."""
        if title != self._title and os.environ.get("TERM") != "linux":
            save = "" if self._title else SAVE_TITLE
            self._title = title
            self.write_raw(f"{save}\x1b]2;{title}\x1b\\")

    def _restore_title(self) -> None:
        if self._title:
            self.write_raw(RESTORE_TITLE)

    def write_raw(self, sequence: str) -> None:
        """Write a sequence that does not move the cursor."""
        self.output.write_raw(sequence)
        self.output.flush()

    # Giving the terminal to something else

    async def hand_over(self, work: Callable[[], Awaitable[T]]) -> T:
        """Give the terminal, in its original state, to something else for a while."""
        async with in_terminal():
            try:
                result = await work()
            finally:
                self.returned_at = time.monotonic()  # before the first frame after it
        self.redraw()
        return result

    def suspend(self) -> None:
        if self._app is not None:
            self._is_suspended = True
            self._app.suspend_to_background()

    def resume(self) -> None:
        """Draw again after a stop of the process. A shell may have changed everything."""
        was_suspended, self._is_suspended = self._is_suspended, False
        app = self._app
        if was_suspended or app is None or app.is_handed_over or not app.is_running:
            return
        raw_mode(app.input.fileno()).__enter__()
        app.renderer.reset()
        app._redraw()


def open_terminal(stdin: TextIO, stdout: TextIO, *, typed_before: str = "") -> Terminal:
    """Open the terminal. `typed_before` was typed before there was a prompt, and comes first."""
    opened = TerminalInput(stdin)
    keys: list[KeyPress] = []
    Vt100Parser(keys.append).feed_and_flush(typed_before.replace("\n", "\r"))
    store_typeahead(opened, keys)
    return Terminal(input=opened, output=SynchronizedOutput(stdout, is_ascii=is_ascii()))
