"""The program in a real terminal: tmux, which re-wraps and scrolls, or pyte, which is quick.

Nothing here sleeps for luck: everything is waited for on the screen, the files or the processes.
"""

import itertools
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import termios
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pyte
import pytest

from tests.support.accounts import Account
from tests.support.program import PROGRAM, environment, start_on_terminal

PATIENCE_S = 60.0  # an upper bound that is never waited for, unless something is wrong
LOOK_EVERY_S = 0.02
LAST_WORDS_S = 10.0  # waited for only if another process has the terminal, too

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

_KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "s-tab": "\x1b[Z",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "backspace": "\x7f",
    **{f"c-{letter}": chr(ord(letter) - 96) for letter in "abcdefghijklmnopqrstuvwxyz"},
}
_TMUX_KEYS = {"enter": "Enter", "escape": "Escape", "tab": "Tab", "s-tab": "BTab", "up": "Up"} | {
    "down": "Down",
    "backspace": "BSpace",
}


def until(
    condition: Callable[[], object],
    what: str,
    *,
    within_s: float = PATIENCE_S,
    every_s: float = LOOK_EVERY_S,
) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(every_s)


class Term:
    """What both kinds have in common."""

    look_every_s = LOOK_EVERY_S

    def screen(self) -> list[str]:
        raise NotImplementedError

    def history(self) -> list[str]:
        raise NotImplementedError

    def type(self, text: str) -> None:
        raise NotImplementedError

    def key(self, *names: str) -> None:
        raise NotImplementedError

    def paste(self, text: str) -> None:
        raise NotImplementedError

    def raw(self) -> bytes:
        raise NotImplementedError

    @property
    def pid(self) -> int:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def shows(self, text: str) -> bool:
        return any(text in row for row in self.screen())

    def wait(self, text: str, *, within_s: float = PATIENCE_S) -> None:
        self.wait_for(lambda: self.shows(text), f"{text!r} on the screen", within_s=within_s)

    def wait_gone(self, text: str) -> None:
        self.wait_for(lambda: not self.shows(text), f"{text!r} gone from the screen")

    def wait_for(
        self, condition: Callable[[], object], what: str, *, within_s: float = PATIENCE_S
    ) -> None:
        try:
            until(condition, what, within_s=within_s, every_s=self.look_every_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n" + "\n".join(self.screen())) from None

    def ready(self) -> "Term":
        """The first prompt is there, and all that is loaded behind it."""
        self.wait("ask · claude-")
        return self

    def send(self, text: str) -> None:
        self.type(text)
        self.key("enter")

    def kill(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def gone(self, *, within_s: float = PATIENCE_S) -> None:
        until(lambda: not alive(self.pid), "the program has ended", within_s=within_s)


def alive(pid: int) -> bool:
    """A zombie is dead: whoever should bury it does not matter here."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class _Screen(pyte.HistoryScreen):
    """Answers what a program asks a terminal."""

    def __init__(self, cols: int, rows: int, answer: Callable[[str], None]) -> None:
        super().__init__(cols, rows, history=10_000, ratio=0.5)
        self._answer = answer

    def write_process_input(self, data: str) -> None:
        self._answer(data)


class PyteTerm(Term):
    """In this process: the screen is never more than a few milliseconds old."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        home: Path,
        cwd: Path,
        cols: int = 80,
        rows: int = 24,
        env: dict[str, str] | None = None,
        is_warm: bool = True,
        account: Account | None = None,
    ) -> None:
        self._screen = _Screen(cols, rows, self._reply)
        self._stream = pyte.ByteStream(self._screen)
        self._raw = bytearray()
        self._rows: list[str] | None = None
        """The screen as text, until something is written to it: to make it takes milliseconds."""
        self._lock = threading.RLock()
        self._written = threading.Condition(self._lock)
        self.fd, terminal = os.openpty()
        termios.tcsetwinsize(terminal, (rows, cols))
        environ = environment(home, **{"TERM": "xterm-256color", **(env or {})})
        self._process = start_on_terminal(
            arguments,
            environ=environ,
            cwd=cwd,
            terminal=terminal,
            is_warm=is_warm,
            account=account,
        )
        os.close(terminal)
        self._stopped, self._stop = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(self.fd,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def screen(self) -> list[str]:
        with self._lock:
            if self._rows is None:
                self._rows = [row.rstrip() for row in self._screen.display]
            return list(self._rows)

    def history(self) -> list[str]:
        with self._lock:
            above = [
                "".join(line[x].data for x in range(self._screen.columns)).rstrip()
                for line in self._screen.history.top
            ]
        return [*above, *self.screen()]

    def shown_after(self, condition: Callable[[], object], what: str) -> float:
        """The seconds until the screen meets a condition; looked at with every write to it."""
        began = time.monotonic()
        with self._written:
            if not self._written.wait_for(condition, timeout=PATIENCE_S):
                raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        return time.monotonic() - began

    def cursor(self) -> tuple[int, int]:
        with self._lock:
            return self._screen.cursor.x, self._screen.cursor.y

    def raw(self) -> bytes:
        with self._lock:
            return bytes(self._raw)

    def type(self, text: str) -> None:
        self.write(text.encode())

    def key(self, *names: str) -> None:
        for name in names:
            self.write(_KEYS[name].encode())

    def paste(self, text: str) -> None:
        self.write(b"\x1b[200~" + text.encode() + b"\x1b[201~")

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.fd, data) :]

    def resize(self, cols: int, rows: int) -> None:
        with self._lock:
            self._screen.resize(rows, cols)
            self._rows = None
        termios.tcsetwinsize(self.fd, (rows, cols))

    def hang_up(self) -> None:
        """The window is closed: the terminal is gone from one moment to the next."""
        handle, self.fd = self.fd, -1
        if handle < 0:
            return  # it was before
        os.close(self._stop)
        self._reader.join()  # a handle that is being read stays open
        os.close(self._stopped)
        os.close(handle)

    def code(self) -> int:
        """The exit code, once it has ended and all that it wrote is on the screen."""
        self.gone()
        self._reader.join(LAST_WORDS_S)
        return self._process.wait()

    def close(self) -> None:
        if alive(self.pid):
            self.kill(signal.SIGKILL)
        self._process.wait()
        self.hang_up()

    def _read(self, handle: int) -> None:
        while self._stopped not in select.select([handle, self._stopped], [], [])[0]:
            try:
                data = os.read(handle, 65536)
            except OSError:
                return
            if not data:
                return
            with self._lock:
                self._raw += data
                # pyte prints what it does not know of these.
                self._stream.feed(re.sub(rb"\x1b\[[>=<][0-9;]*[a-zA-Z]", b"", data))
                self._rows = None
                self._written.notify_all()

    def _reply(self, data: str) -> None:
        threading.Thread(target=self.write, args=(data.encode(),), daemon=True).start()


class TmuxTerm(Term):
    """A terminal that re-wraps, scrolls and outlives the program in it."""

    look_every_s = 0.1  # each look is a process

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        home: Path,
        cwd: Path,
        cols: int = 80,
        rows: int = 24,
        env: dict[str, str] | None = None,
        program: Sequence[str] = (str(PROGRAM),),
    ) -> None:
        self._socket = f"agentcli-{uuid.uuid4().hex[:12]}"
        self._files = home / f"tmux-{self._socket}"
        self._files.mkdir(parents=True)
        given = environment(home, **{"TERM": "tmux-256color", **(env or {})})
        command = shlex.join([*program, *arguments]).replace("'", "'\\''")
        pid, gate, begun = (self._files / name for name in ("pid", "gate", "begun"))
        script = (
            f": > {begun}; until [ -e {gate} ]; do sleep 0.02; done; "
            f"sh -c 'echo $$ > {pid}; exec {command}'; "
            f"echo $? > {self._files / 'code'}; echo the shell is back; exec cat"
        )
        variables = [word for name, value in given.items() for word in ("-e", f"{name}={value}")]
        self._tmux("new-session", "-d", "-s", "t", "-x", str(cols), "-y", str(rows), *variables,
                   "-c", str(cwd), "sh", "-c", script)  # fmt: skip
        self._tmux("set-option", "-g", "history-limit", "20000")
        self._tmux("pipe-pane", "-t", "t", f"cat >> {self._files / 'raw'}")
        self.tty = self._tmux("display-message", "-p", "-t", "t", "#{pane_tty}").strip()
        until(begun.exists, "tmux has set up the terminal")
        self.settings_before = self.settings()
        gate.touch()
        until(lambda: pid.exists() and pid.read_text().strip(), "the program has started")

    @property
    def pid(self) -> int:
        return int((self._files / "pid").read_text())

    def screen(self) -> list[str]:
        return self._tmux("capture-pane", "-p", "-t", "t").split("\n")

    def history(self) -> list[str]:
        return self._tmux("capture-pane", "-p", "-t", "t", "-S", "-", "-J").split("\n")

    def raw(self) -> bytes:
        path = self._files / "raw"
        return path.read_bytes() if path.exists() else b""

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-t", "t", "-l", "--", text)

    def key(self, *names: str) -> None:
        translated = [_TMUX_KEYS.get(name, name.replace("c-", "C-")) for name in names]
        self._tmux("send-keys", "-t", "t", *translated)

    def paste(self, text: str) -> None:
        subprocess.run(
            ["tmux", "-L", self._socket, "load-buffer", "-"], input=text.encode(), check=True
        )
        self._tmux("paste-buffer", "-p", "-t", "t")

    def resize(self, cols: int, rows: int) -> None:
        self.resize_at_once((cols, rows))

    def resize_at_once(self, *sizes: tuple[int, int]) -> None:
        """Give the window one size after the other, before tmux reports any but the first."""
        commands = (
            ("resize-window", "-t", "t", "-x", str(cols), "-y", str(rows), ";")
            for cols, rows in sizes
        )
        self._tmux(*itertools.chain.from_iterable(commands))

    def settings(self) -> str:
        """Of the terminal, in one line."""
        return subprocess.run(
            ["stty", "-g", "-F", self.tty], capture_output=True, text=True, check=True
        ).stdout

    def flag(self, name: str) -> bool:
        """Of tmux itself: cursor_flag, bracket_paste_flag …"""
        return self._tmux("display-message", "-p", "-t", "t", f"#{{{name}}}").strip() == "1"

    def code(self) -> int:
        path = self._files / "code"
        until(lambda: path.exists() and path.read_text().strip(), "the program has ended")
        return int(path.read_text())

    def close(self) -> None:
        pid = self._files / "pid"
        if pid.exists() and alive(self.pid):
            self.kill(signal.SIGKILL)
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], capture_output=True)

    def _tmux(self, *arguments: str) -> str:
        ran = subprocess.run(
            ["tmux", "-L", self._socket, "-f", os.devnull, *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            raise AssertionError(f"tmux {arguments[0]}: {ran.stderr}")
        return ran.stdout
