"""From the start of a process to its first request on the wire, as a ratio to a bare client.

Run by hand: `python -m tests.bench.first_request`. The server is on loopback and answers at once.
"""

import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.support import anthropic_streams as anthropic
from tests.support.program import PROGRAM, environment

RUNS = 15

BARE = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
body = json.dumps({"model": "m", "max_tokens": 1, "messages": []})
connection.request("POST", "/v1/messages", body, {"content-type": "application/json"})
connection.getresponse().read()
"""


class Server:
    """Notes when a request is complete, and answers."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.arrived = 0.0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        reply = anthropic.says("Hi.").body
        head = (
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            f"content-length: {len(reply)}\r\nconnection: close\r\n\r\n"
        )
        while True:
            connection, _ = self._socket.accept()
            with connection:
                self._read(connection)
                self.arrived = time.perf_counter()
                connection.sendall(head.encode() + reply)

    def _read(self, connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        header, _, body = data.partition(b"\r\n\r\n")
        size = next(
            int(line.split(b":")[1])
            for line in header.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        while len(body) < size:
            body += connection.recv(65536)


def measured(
    argv: Sequence[str | Path], server: Server, env: dict[str, str], cwd: str
) -> tuple[float, float]:
    """Milliseconds to the first request, and to the end of the process."""
    began = time.perf_counter()
    subprocess.run(argv, env=env, cwd=cwd, check=True, capture_output=True)
    ended = time.perf_counter()
    return (server.arrived - began) * 1000, (ended - began) * 1000


def main() -> None:
    server = Server()
    with tempfile.TemporaryDirectory() as home:
        env = environment(Path(home)) | {
            "ANTHROPIC_API_KEY": "sk-test-0123456789",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.port}",
        }
        rows: dict[str, list[str | Path]] = {
            "bare http.client": [sys.executable, "-c", BARE, str(server.port)],
            "agentcli run": [PROGRAM, "run", "--model", "opus", "hi"],
        }
        figures: dict[str, list[tuple[float, float]]] = {name: [] for name in rows}
        for turn in range(RUNS + 1):
            for name, argv in rows.items():
                figure = measured(argv, server, env, home)
                if turn:  # the first one compiles
                    figures[name].append(figure)
    floor = statistics.median(first for first, _ in figures["bare http.client"])
    for name, pairs in figures.items():
        first = statistics.median(first for first, _ in pairs)
        total = statistics.median(total for _, total in pairs)
        print(
            f"{name:<18} first request {first:6.1f} ms ({first / floor:.2f}x)  "
            f"total {total:6.1f} ms"
        )


if __name__ == "__main__":
    main()
