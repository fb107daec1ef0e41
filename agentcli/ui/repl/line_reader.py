"""Lines from a terminal in its own line mode, read without stopping the event loop."""

import asyncio
import os
import select
import sys
from contextlib import suppress

READ_BYTES = 65536


class LineReader:
    """One reader at a time. What was typed ahead is kept for the next."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._is_closed = False

    async def read_line(self) -> str | None:
        """Without its newline; None: there will be no more."""
        while b"\n" not in self._buffer and not self._is_closed:
            await self._read_more()
        if not self._buffer:
            return None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")

    def take_waiting(self) -> list[str]:
        """Return the whole lines that were typed before now, without waiting for any."""
        while sys.platform != "win32" and not self._is_closed:
            if not select.select([self._descriptor], [], [], 0)[0]:
                break
            self._append_data(self._read())
        *lines, self._buffer = self._buffer.split(b"\n")
        return [line.decode("utf-8", "replace").rstrip("\r") for line in lines]

    async def _read_more(self) -> None:
        if sys.platform == "win32":
            self._append_data(await asyncio.to_thread(self._read))
            return
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._descriptor, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._descriptor)
        self._append_data(self._read())

    def _read(self) -> bytes:
        with suppress(OSError):
            return os.read(self._descriptor, READ_BYTES)
        return b""

    def _append_data(self, data: bytes) -> None:
        self._buffer += data
        self._is_closed = not data
