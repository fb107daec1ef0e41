"""Serves for as long as a block lasts: the one way in which tests run a socket server."""

import selectors
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import TCPServer
from threading import Thread
from typing import TypeVar

Server = TypeVar("Server", bound=TCPServer)


@contextmanager
def serve(server: Server) -> Iterator[Server]:
    """Serve in a thread, which ends with the block even if the test is skipped in it.

    The thread of a server that was only closed would go on for ever, and use a whole core."""
    stop, stopped = socket.socketpair()
    with stop, stopped:
        thread = Thread(target=_answer, args=(server, stopped))
        thread.start()
        try:
            yield server
        finally:
            stop.close()
            thread.join()
            server.server_close()


def _answer(server: TCPServer, stopped: socket.socket) -> None:
    """Answer requests until the other end of a connection is closed. It wakes for nothing else."""
    with selectors.DefaultSelector() as events:
        events.register(server, selectors.EVENT_READ)
        events.register(stopped, selectors.EVENT_READ)
        while all(key.fileobj is not stopped for key, _ in events.select()):
            server.handle_request()
