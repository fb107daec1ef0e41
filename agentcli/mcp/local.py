"""A server that is a process of ours: where its complaints are kept, and how it ended."""

import os
from collections.abc import Callable
from pathlib import Path

from agentcli.machine.bound import BoundedOutput
from agentcli.machine.filtered import FilteredSink, OutputFilter
from agentcli.machine.process import signal_of_death
from agentcli.mcp.faults import SAID, FaultContext
from agentcli.mcp.link import Transport
from agentcli.mcp.stdio import Launch, ServerEnd, stdio_transport

LAST_LINES = 8
LAST_WORDS_CHARS = 200


class LocalMcpServer:
    def __init__(
        self, launch: Launch, *, log_path: Path, clean: Callable[[], OutputFilter]
    ) -> None:
        """`clean`: takes out of what it says what may be kept nowhere."""
        self._launch = launch
        self._log_path = log_path
        self._clean = clean
        self._demise = ServerEnd()
        self._said: BoundedOutput | None = None

    def transport(self) -> Transport:
        self._demise = ServerEnd()
        self._log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._said = BoundedOutput(self._log_path, handle)
        log = FilteredSink(self._said, self._clean())
        return stdio_transport(self._launch, log=log, demise=self._demise)

    @property
    def witness(self) -> FaultContext:
        return FaultContext(last_words=self.last_words, is_lost=self.is_lost)

    def is_lost(self) -> bool:
        return self._demise.is_silent

    def last_words(self) -> str:
        """To be put behind a sentence: how it ended, and where its stderr is."""
        code = self._demise.returncode
        if code is None:
            how = ""
        elif signal := signal_of_death(code):
            how = f" (killed by {signal})"
        else:
            how = f" (exit code {code})"
        remarks = "".join(f"; {remark.rstrip('.')}" for remark in self._demise.remarks)
        return f"{how}{remarks}{self._on_stderr()}"

    def _on_stderr(self) -> str:
        if not self._has_spoken:
            return ""
        last = self.said.rstrip().rpartition("\n")[2].strip()[:LAST_WORDS_CHARS]
        return f"; {SAID}{last!r}, all of it is in {self._log_path}"

    @property
    def said(self) -> str:
        """The last lines of its stderr, for people."""
        return self._said.last_lines(LAST_LINES) if self._said else ""

    @property
    def _has_spoken(self) -> bool:
        return self._said is not None and self._said.size_bytes > 0
