import asyncio
import errno
import os
import pty
import re

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.renderer import Renderer

from agentcli.types.errors import Exit
from agentcli.ui.repl.terminal import InlineApplication, Keyboard, SynchronizedOutput, Terminal


def test_private_names_of_prompt_toolkit_are_where_they_were() -> None:
    app: Application[None] = Application()
    assert callable(app._redraw)
    assert callable(app._on_resize)
    assert app._running_in_terminal is False
    renderer: Renderer = app.renderer
    assert renderer._cursor_pos == Point(x=0, y=0)
    assert renderer._last_screen is None
    assert renderer._last_size is None
    assert renderer._style_string_has_style is None
    assert "_buffer" in Vt100_Output.__init__.__code__.co_names
    assert "stdin_reader" in Vt100Input.__init__.__code__.co_names
    assert "_stdin_decoder" in PosixStdinReader.__init__.__code__.co_names


class Written:
    def __init__(self) -> None:
        self.data = b""
        self.encoding = "utf-8"
        self.buffer = self

    def write(self, data: bytes) -> None:
        self.data += data

    def flush(self) -> None:
        """Nothing is held back."""

    def fileno(self) -> int:
        raise OSError("no terminal")

    def isatty(self) -> bool:
        return True


def test_held_output_is_one_frame() -> None:
    written = Written()
    output = SynchronizedOutput(written)  # type: ignore[arg-type]
    with output.hold():
        output.write_raw("one")
        output.flush()
        output.write_raw("two")
        output.flush()
        assert written.data == b""
    assert written.data == b"\x1b[?2026honetwo\x1b[?2026l"


def test_empty_flush_writes_nothing() -> None:
    written = Written()
    output = SynchronizedOutput(written)  # type: ignore[arg-type]
    output.flush()
    assert written.data == b""


def test_terminal_with_ascii_alone_gets_one_sign_for_one() -> None:
    written = Written()
    output = SynchronizedOutput(written, is_ascii=True)  # type: ignore[arg-type]
    output.write_raw("ask · … 3 files +4 −1")
    output.flush()
    assert written.data == b"\x1b[?2026hask - . 3 files +4 -1\x1b[?2026l"


def test_many_commits_are_few_frames_and_none_is_lost() -> None:
    written = Written()
    output = SynchronizedOutput(written)  # type: ignore[arg-type]

    async def go() -> None:
        with create_pipe_input() as keys:
            terminal = Terminal(input=keys, output=output)
            app = InlineApplication(terminal, layout=Layout(Window()), erase_when_done=True)
            terminal.commit("before it runs")
            running = asyncio.ensure_future(terminal.run(app, pre_run=lambda: None))
            await asyncio.sleep(0)
            for number in range(100):
                terminal.commit(f"line {number}")
            terminal.leave()
            await running

    asyncio.run(go())
    text = re.sub(rb"\x1b(?:\[[0-9;?]*[a-zA-Z]|[78])", b"", written.data).decode()
    lines = ["before it runs", *(f"line {number}" for number in range(100))]
    assert [row for row in text.split("\r\n") if row.strip()] == lines
    assert written.data.count(b"\x1b[?2026h") < 10


def test_many_redraws_are_one_frame() -> None:
    output = SynchronizedOutput(Written())  # type: ignore[arg-type]

    async def frames_of_redraws() -> int:
        frames: asyncio.Queue[int] = asyncio.Queue()
        with create_pipe_input() as keys:
            terminal = Terminal(input=keys, output=output)
            app = InlineApplication(terminal, layout=Layout(Window()))
            app.after_render += lambda app: frames.put_nowait(app.render_counter)
            running = asyncio.ensure_future(terminal.run(app, pre_run=lambda: None))
            first = await frames.get()
            for _ in range(1000):
                terminal.redraw()
            last = await frames.get()
            await asyncio.sleep(0)
            assert frames.empty()
            terminal.leave()
            await running
            return last - first

    assert asyncio.run(frames_of_redraws()) == 1


def test_frame_like_the_one_before_it_is_not_sent() -> None:
    written = Written()
    output = SynchronizedOutput(written)  # type: ignore[arg-type]

    async def go() -> tuple[bytes, bytes]:
        frames: asyncio.Queue[int] = asyncio.Queue()
        shown = ["one"]
        window = Window(FormattedTextControl(lambda: shown[0]))
        with create_pipe_input() as keys:
            terminal = Terminal(input=keys, output=output)
            app = InlineApplication(terminal, layout=Layout(window))
            app.after_render += lambda app: frames.put_nowait(app.render_counter)
            running = asyncio.ensure_future(terminal.run(app, pre_run=lambda: None))
            await frames.get()
            written.data = b""
            terminal.redraw()
            await frames.get()
            await asyncio.sleep(0)
            same = written.data
            shown[0] = "two"
            terminal.redraw()
            await frames.get()
            await asyncio.sleep(0)
            other = written.data
            terminal.leave()
            await running
        return same, other

    same, other = asyncio.run(go())
    assert (same, b"two" in other) == (b"", True)


class Gone(Written):
    def write(self, data: bytes) -> None:
        raise OSError(errno.EIO, "Input/output error")


def test_terminal_that_cannot_be_written_to_ends_the_session() -> None:
    async def go() -> Exit:
        with create_pipe_input() as keys:
            terminal = Terminal(input=keys, output=SynchronizedOutput(Gone()))  # type: ignore[arg-type]
            app = InlineApplication(terminal, layout=Layout(Window()))
            return await terminal.run(app, pre_run=lambda: None)

    assert asyncio.run(go()) is Exit.HANGUP


def read(*pieces: bytes) -> list[str]:
    reading, writing = os.pipe()
    try:
        keyboard = Keyboard(reading)
        found = []
        for piece in pieces:
            os.write(writing, piece)
            found.append(keyboard.read())
        return found
    finally:
        os.close(reading)
        os.close(writing)


def test_keyboard_holds_a_paste_until_it_is_whole() -> None:
    assert read(b"\x1b[200~one\r", b"two\x1b[20", b"1~x", b"y") == [
        "",
        "",
        "\x1b[200~one\rtwo\x1b[201~x",
        "y",
    ]


def test_keyboard_marks_several_lines_at_once_as_a_paste() -> None:
    assert read(b"a\rb\rc\r") == ["\x1b[200~a\rb\rc\r\x1b[201~"]
    assert read(b"a\r") == ["a\r"]


def test_keyboard_swallows_late_replies_of_the_terminal() -> None:
    assert read(b"a\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\b\x1b[?62;c") == ["ab"]


def test_keyboard_is_closed_by_a_terminal_that_hung_up() -> None:
    parent, child = pty.openpty()
    keyboard = Keyboard(child)
    os.close(parent)
    assert keyboard.read() == ""
    assert keyboard.closed
    os.close(child)
