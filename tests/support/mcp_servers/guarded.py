"""A server that wants a login, and the authorization server that gives it, each on its own port.

The authorization server is as strict as the RFCs: PKCE with S256, the exact redirect address, the
resource, codes and refresh tokens that are good once. `mode` names the one thing that is wrong.
"""

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.support.mcp_servers.web import Web, web_server
from tests.support.serving import serve


@dataclass
class Authority:
    mode: str = ""
    url: str = ""
    resource: str = ""
    clients: dict[str, list[str]] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    access: set[str] = field(default_factory=set)
    refresh: set[str] = field(default_factory=set)
    given: list[str] = field(default_factory=list)
    """Every secret that was ever given out."""
    grants: list[str] = field(default_factory=list)
    expires_in: int = 3600

    def metadata(self) -> dict[str, Any]:
        return {
            "issuer": "https://elsewhere.example" if self.mode == "other_issuer" else self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": (
                "http://elsewhere.example/token"
                if self.mode == "open_line"
                else f"{self.url}/token"
            ),
            "registration_endpoint": f"{self.url}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["plain" if self.mode == "no_pkce" else "S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def register(self, wanted: dict[str, Any]) -> dict[str, Any]:
        client = secrets.token_hex(8)
        self.clients[client] = wanted["redirect_uris"]
        return {**wanted, "client_id": client}

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser is sent."""
        assert asked["redirect_uri"] in self.clients[asked["client_id"]]
        assert asked["code_challenge_method"] == "S256"
        assert asked["resource"] == self.resource
        code = secrets.token_hex(16)
        self.codes[code] = asked
        self.given.append(code)
        answer = {
            "code": code,
            "state": "forged" if self.mode == "other_state" else asked["state"],
            "iss": "https://elsewhere.example" if self.mode == "other_iss" else self.url,
        }
        if self.mode == "no_iss":
            del answer["iss"]
        if self.mode == "says_no":
            answer = {"error": "access_denied", "state": asked["state"], "iss": self.url}
        place = "http://elsewhere.example/" if self.mode == "leads_away" else asked["redirect_uri"]
        return f"{place}?{urlencode(answer)}"

    def token(self, form: dict[str, str]) -> dict[str, Any] | None:
        """None: it is refused."""
        self.grants.append(form["grant_type"])
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self.refresh or form["client_id"] not in self.clients:
                return None
            self.refresh.remove(form["refresh_token"])
            return self._tokens()
        asked = self.codes.pop(form["code"], None)
        if asked is None or asked["redirect_uri"] != form["redirect_uri"]:
            return None
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        is_right = challenge == asked["code_challenge"] and form["resource"] == self.resource
        return self._tokens() if is_right else None

    def _tokens(self) -> dict[str, Any]:
        access, refresh = f"at-{secrets.token_hex(16)}", f"rt-{secrets.token_hex(16)}"
        self.access, self.refresh = {access}, {refresh}
        self.given += [access, refresh]
        return {
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": self.expires_in,
        }


class _Server(ThreadingHTTPServer):
    def __init__(self, state: Authority) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.state = state
        state.url = f"http://localhost:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        state, parts = self.server.state, urlsplit(self.path)
        if parts.path == "/.well-known/oauth-authorization-server":
            self._reply(200, state.metadata())
        elif parts.path == "/authorize":
            place = state.authorize({key: one[0] for key, one in parse_qs(parts.query).items()})
            self._reply(302, {}, Location=place)
        else:
            self._reply(404, {})

    def do_POST(self) -> None:
        state = self.server.state
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/register":
            self._reply(201, state.register(json.loads(body)))
            return
        granted = state.token({key: one[0] for key, one in parse_qs(body).items()})
        self._reply(200, granted) if granted else self._reply(400, {"error": "invalid_grant"})

    def _reply(self, status: int, value: dict[str, Any], **headers: str) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def guarded(mode: str = "") -> Iterator[tuple[Web, Authority]]:
    """The server, and whoever says who may use it."""
    authority, resource = Authority(mode), Web("guarded")
    resource.authority = authority
    with serve(_Server(authority)), web_server(resource):
        authority.resource = resource.url
        yield resource, authority
