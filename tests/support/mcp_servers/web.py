"""MCP over HTTP on loopback: a server of the older protocol, well-behaved or not."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from tests.support.serving import serve


class Authorities(Protocol):
    """Who says which tokens are good, and where they can be had."""

    url: str
    access: set[str]


class Web:
    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.authority: Authorities | None = None
        self.sessions = 0
        self.expired: set[str] = set()
        self.headers: list[str] = []
        self.calls: list[str] = []
        self.url = ""

    def expire(self) -> None:
        """From now on nobody knows the sessions that there are."""
        self.expired = {str(number) for number in range(1, self.sessions + 1)}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.calls.append(request["method"])
        match request["method"]:
            case "initialize":
                self.sessions += 1
                return {
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "web", "version": "1"},
                }
            case "tools/list":
                tool = {"name": "echo", "description": "", "inputSchema": {"type": "object"}}
                return {"tools": [tool]}
            case _:
                size = 5_000_000 if self.mode == "large" else 5
                said = self.headers[-1] if self.mode == "guarded" else "x" * size
                return {"content": [{"type": "text", "text": said}]}


class _Server(ThreadingHTTPServer):
    def __init__(self, state: Web) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = state
        state.url = f"http://127.0.0.1:{self.server_port}/mcp"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        state = self.server.state
        body = self.rfile.read(int(self.headers["Content-Length"]))
        state.headers.append(self.headers.get("Authorization", ""))
        if state.mode == "locked" or not self._may_enter():
            self._reply(401, b"who are you", "text/plain")
        elif state.mode == "page":
            self._reply(200, b"<html>hello</html>", "text/html")
        elif self.headers.get("Mcp-Session-Id") in state.expired:
            self._reply(404, b"", "text/plain")
        else:
            self._answer(json.loads(body))

    def do_GET(self) -> None:
        state = self.server.state
        if state.authority and self.path == "/.well-known/oauth-protected-resource/mcp":
            about = {"resource": state.url, "authorization_servers": [state.authority.url]}
            self._reply(200, json.dumps(about).encode(), "application/json")
        else:
            self._reply(405, b"", "text/plain")

    def _may_enter(self) -> bool:
        authority = self.server.state.authority
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        return authority is None or token in authority.access

    def do_DELETE(self) -> None:
        self._reply(200, b"", "text/plain")

    def _answer(self, request: dict[str, Any]) -> None:
        if "id" not in request:
            self._reply(202, b"", "application/json")
            return
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] == "server/discover":
            message["error"] = {"code": -32601, "message": "Method not found"}
        else:
            message["result"] = self.server.state.answer(request)
        event = b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
        self._reply(200, event, "text/event-stream")

    def _reply(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Mcp-Session-Id", str(self.server.state.sessions))
        if status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def web(mode: str = "plain") -> Iterator[Web]:
    with web_server(Web(mode)) as state:
        yield state


@contextmanager
def web_server(state: Web) -> Iterator[Web]:
    with serve(_Server(state)):
        yield state
