"""A model on loopback that answers at once, and notes when its requests came."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

KEY = "sk-test-0123456789"
END_S = 5.0
PROVIDERS = ("ANTHROPIC", "OPENAI", "GEMINI")


class Model:
    """Use as a context manager. Moments are of `time.perf_counter`, one for every request."""

    def __init__(self, reply: Callable[[int], bytes]) -> None:
        """`reply`: the body of the answer to each request, which are counted from 0."""
        self._reply = reply
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self.port: int = self._socket.getsockname()[1]
        self.began: list[float] = []
        """The first byte of a request was there."""
        self.complete: list[float] = []
        """All of it was."""
        self.answered: list[float] = []
        """The last byte of the answer was given away."""
        self.sizes_bytes: list[int] = []

    @property
    def environment(self) -> dict[str, str]:
        """All that a program must know to ask it, whatever dialect it speaks."""
        return {
            name: value
            for provider in PROVIDERS
            for name, value in (
                (f"{provider}_API_KEY", KEY),
                (f"{provider}_BASE_URL", f"http://127.0.0.1:{self.port}"),
            )
        }

    def __enter__(self) -> "Model":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Ended before the descriptor is free: the thread must not accept what the next model gets.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(END_S)
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._socket.accept()
                with connection, suppress(ConnectionError):
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        while data := connection.recv(1 << 16):
            began = time.perf_counter()
            size = _read(connection, data)
            self.began.append(began)
            self.complete.append(time.perf_counter())
            self.sizes_bytes.append(size)
            body = self._reply(len(self.complete) - 1)
            head = (
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
                f"content-length: {len(body)}\r\n\r\n"
            )
            connection.sendall(head.encode() + body)
            self.answered.append(time.perf_counter())


def _read(connection: socket.socket, data: bytes) -> int:
    """The size of a request's body, once it has come."""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    size = int(fields[b"content-length"])
    missing = size - len(body)
    while missing > 0:
        missing -= len(connection.recv(1 << 16))
    return size
