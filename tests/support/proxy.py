"""An HTTP proxy on loopback that leads every request to one server, whatever host it names."""

import socket
import socketserver
import threading
from types import TracebackType
from typing import Any

from tests.support.serving import serve


class Proxy:
    """Use as a context manager. `heads` are the requests as they came."""

    def __init__(self, port: int, *, refuses_with: int | None = None) -> None:
        self.heads: list[str] = []
        self._upstream = ("127.0.0.1", port)
        self._refuses_with = refuses_with
        self._server = _Server(self)
        self._serving = serve(self._server)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "Proxy":
        self._serving.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._serving.__exit__(kind, error, trace)

    def serve(self, client: socket.socket) -> None:
        received = b""
        while b"\r\n\r\n" not in received:
            data = client.recv(65536)
            if not data:
                return
            received += data
        head = received.partition(b"\r\n\r\n")[0].decode("latin-1")
        self.heads.append(head)
        if self._refuses_with is not None:
            client.sendall(f"HTTP/1.1 {self._refuses_with} Refused\r\n\r\n".encode())
            return
        with socket.create_connection(self._upstream) as upstream:
            if head.startswith("CONNECT "):
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                upstream.sendall(received)
            pump = threading.Thread(target=_pump, args=(client, upstream), daemon=True)
            pump.start()
            _pump(upstream, client)


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return  # either side has left


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, proxy: Proxy) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self._proxy = proxy

    def finish_request(self, request: Any, client_address: Any) -> None:
        self._proxy.serve(request)
