"""Registries and a git server on loopback, behind a proxy that knows their names.

Programs under test reach them as they reach the internet: by name, through the user's own proxy.
"""

import base64
import hashlib
import io
import json
import os
import ssl
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from tests.support.serving import serve

PACKAGES, NPM, CODE, API, GO, CRATES = (
    f"{name}.example.org" for name in ("packages", "npm", "code", "api", "go", "crates")
)
GH_API = "api.github.com"
WHEEL = "hello_agent-1.0-py3-none-any.whl"
USER, PASSWORD = "dev", "correct-horse-battery"


@dataclass(frozen=True, slots=True)
class Asked:
    host: str
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Site = Callable[[Asked], Answered]
NOT_FOUND = Answered(404, b"not found")


@dataclass(slots=True)
class Registries:
    port: int
    asked: list[Asked]
    tls: ssl.SSLContext | None = None
    """The certificate for tunnels; without one there are none."""

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables of a user whose network has this proxy."""
        address = f"http://127.0.0.1:{self.port}"
        return {name: address for name in ("http_proxy", "https_proxy", "HTTPS_PROXY")}

    def was_asked(self, host: str) -> bool:
        return any(one.host == host for one in self.asked)


@contextmanager
def serve_registries(repositories: Path) -> Iterator[Registries]:
    """Serve until the end. Bare repositories are in `repositories`."""
    sites: dict[str, Site] = {
        PACKAGES: _answer_pip,
        NPM: _answer_npm,
        CODE: lambda asked: _answer_git(asked, repositories),
        API: _answer_user,
        GH_API: _answer_user,
        GO: _answer_go,
        CRATES: _answer_cargo,
    }
    served: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            url = urlsplit(urljoin(f"https://{self.headers['host']}", self.path))
            size = int(self.headers.get("content-length") or 0)
            body = self._read_chunks() if self._is_chunked else self.rfile.read(size)
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(url.hostname or "", self.command, url.path, url.query, headers, body)
            served.append(asked)
            site = sites.get(asked.host)
            answer = site(asked) if site else NOT_FOUND
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def do_CONNECT(self) -> None:
            _open_tunnel(self, made.tls)

        do_GET = do_POST = do_PUT = do_HEAD = _answer

        @property
        def _is_chunked(self) -> bool:
            return self.headers.get("transfer-encoding", "") == "chunked"

        def _read_chunks(self) -> bytes:
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    with serve(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        made = Registries(server.server_address[1], served)
        yield made


def _open_tunnel(handler: BaseHTTPRequestHandler, tls: ssl.SSLContext | None) -> None:
    """Make a handler the server at the end of the tunnel that its client asks for."""
    if tls is None:
        handler.send_error(502)
        return
    handler.send_response(200)
    handler.end_headers()
    handler.connection = tls.wrap_socket(handler.connection, server_side=True)
    handler.rfile = handler.connection.makefile("rb")
    handler.wfile = handler.connection.makefile("wb", buffering=0)


_JSON = {"content-type": "application/json"}


def build_wheel() -> bytes:
    """Return a wheel with one module, `hello_agent`."""
    info = "hello_agent-1.0.dist-info"
    files = {
        "hello_agent.py": 'WORD = "installed"\nprint(WORD, "and run")\n',
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: hello-agent\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return written.getvalue()


def _answer_pip(asked: Asked) -> Answered:
    if asked.path.endswith(WHEEL):
        return Answered(200, build_wheel())
    if asked.path.strip("/") == "simple/hello-agent":
        page = f'<!DOCTYPE html><html><body><a href="/files/{WHEEL}">{WHEEL}</a></body></html>'
        return Answered(200, page.encode(), {"content-type": "text/html"})
    return NOT_FOUND


def _pack(directory: str, files: Mapping[str, str]) -> bytes:
    """Return a compressed archive with the files in one directory."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"{directory}/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return written.getvalue()


def _build_npm_package() -> bytes:
    package = json.dumps({"name": "hello-agent", "version": "1.0.0", "main": "index.js"})
    return _pack(
        "package", {"package.json": package, "index.js": 'module.exports = "installed";\n'}
    )


_NPM_PACKAGE = _build_npm_package()


def _answer_npm(asked: Asked) -> Answered:
    if asked.path.endswith(".tgz"):
        return Answered(200, _NPM_PACKAGE)
    if asked.path.strip("/") != "hello-agent":
        return NOT_FOUND
    digest = base64.b64encode(hashlib.sha512(_NPM_PACKAGE).digest()).decode()
    dist = {
        "tarball": f"http://{NPM}/hello-agent/-/hello-agent-1.0.0.tgz",
        "integrity": f"sha512-{digest}",
    }
    version = {"name": "hello-agent", "version": "1.0.0", "dist": dist}
    listing = {
        "name": "hello-agent",
        "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": version},
    }
    return Answered(200, json.dumps(listing).encode(), _JSON)


_GO_MODULE = "example.org/hello"
_GO_FILES = {"go.mod": f"module {_GO_MODULE}\n", "hello.go": 'package hello\n\nconst Word = "go"\n'}


def _answer_go(asked: Asked) -> Answered:
    """Serve one module by the protocol of GOPROXY."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, text in _GO_FILES.items():
            archive.writestr(f"{_GO_MODULE}@v1.0.0/{name}", text)
    info = {"Version": "v1.0.0", "Time": "2026-01-01T00:00:00Z"}
    files = {
        "list": b"v1.0.0\n",
        "v1.0.0.info": json.dumps(info).encode(),
        "v1.0.0.mod": _GO_FILES["go.mod"].encode(),
        "v1.0.0.zip": written.getvalue(),
    }
    found = files.get(asked.path.removeprefix(f"/{_GO_MODULE}/@v/"))
    return Answered(200, found) if found else NOT_FOUND


_CRATE = _pack(
    "hello-agent-1.0.0",
    {
        "Cargo.toml": '[package]\nname = "hello-agent"\nversion = "1.0.0"\nedition = "2021"\n',
        "src/lib.rs": 'pub const WORD: &str = "rust";\n',
    },
)


def _answer_cargo(asked: Asked) -> Answered:
    """Serve one crate by the protocol of sparse registries."""
    entry = {
        "name": "hello-agent",
        "vers": "1.0.0",
        "deps": [],
        "cksum": hashlib.sha256(_CRATE).hexdigest(),
        "features": {},
        "yanked": False,
    }
    files = {
        "/index/config.json": json.dumps({"dl": f"http://{CRATES}/dl"}).encode(),
        "/index/he/ll/hello-agent": json.dumps(entry).encode(),
        "/dl/hello-agent/1.0.0/download": _CRATE,
    }
    found = files.get(asked.path)
    return Answered(200, found) if found else NOT_FOUND


def _answer_user(asked: Asked) -> Answered:
    return Answered(200, json.dumps({"login": USER}).encode(), _JSON)


def _answer_git(asked: Asked, repositories: Path) -> Answered:
    """Serve by git's own program. Pushing needs a password."""
    sends = "receive-pack" in f"{asked.path}{asked.query}"
    expected = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    if sends and asked.headers.get("authorization") != f"Basic {expected}":
        return Answered(401, b"", {"www-authenticate": 'Basic realm="code"'})
    environ = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(repositories),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": asked.path,
        "QUERY_STRING": asked.query,
        "REQUEST_METHOD": asked.method,
        "CONTENT_TYPE": asked.headers.get("content-type", ""),
        "HTTP_CONTENT_ENCODING": asked.headers.get("content-encoding", ""),
        "REMOTE_USER": USER if sends else "",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    ran = subprocess.run(
        ["git", "http-backend"], env=environ, input=asked.body, capture_output=True, check=True
    )
    head, _, body = ran.stdout.partition(b"\r\n\r\n")
    fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    status = int(fields.pop("Status", "200").split()[0])
    return Answered(status, body, fields)
