"""Serves for as long as a block lasts: the one way in which tests run a socket server."""

from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer
from threading import Thread
from typing import TypeVar

Server = TypeVar("Server", bound=BaseServer)

_LOOK_EVERY_S = 0.02


@contextmanager
def serve(server: Server) -> Iterator[Server]:
    """Serve in a thread, which ends with the block even if the test is skipped in it.

    The thread of a server that was only closed would go on for ever, and use a whole core."""
    thread = Thread(target=server.serve_forever, args=(_LOOK_EVERY_S,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
