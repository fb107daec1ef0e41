"""Output changed on its way to where it is kept, so that what was taken out is kept nowhere."""

from typing import Protocol

from agentcli.machine.process import Sink


class OutputFilter(Protocol):
    """May hold back the end of what it was given, and gives the rest when it is closed."""

    def feed(self, chunk: bytes) -> bytes: ...

    def close(self) -> bytes: ...


class FilteredSink:
    """A sink before another one."""

    def __init__(self, sink: Sink, by: OutputFilter) -> None:
        self._sink = sink
        self._filter = by

    def feed(self, chunk: bytes) -> None:
        if kept := self._filter.feed(chunk):
            self._sink.feed(kept)

    def close(self) -> None:
        if rest := self._filter.close():
            self._sink.feed(rest)
        self._sink.close()
