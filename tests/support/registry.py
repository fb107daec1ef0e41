"""A package index for pip, uv and npm on the loopback: it serves one package, and counts."""

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.support.serving import serve

WHEEL = "tiny-1.0-py3-none-any.whl"
TARBALL = "tiny-1.0.0.tgz"


@dataclass(frozen=True, slots=True)
class Registry:
    url: str
    requests: list[str] = field(default_factory=list)

    @property
    def downloads(self) -> int:
        """How often the package itself was fetched, and not only the page that names it."""
        return sum(path.endswith((WHEEL, TARBALL)) for path in self.requests)


@contextmanager
def serve_registry() -> Iterator[Registry]:
    """Yield a registry with the Python package `tiny` below /simple and the npm package `tiny`."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer()

        def do_GET(self) -> None:
            requests.append(self.path)
            self.wfile.write(self.answer())

        def answer(self) -> bytes:
            kind, content = _find_content(self.path, f"http://{self.headers['Host']}")
            self.send_response(200 if content else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "max-age=3600")
            self.end_headers()
            return content

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with serve(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield Registry(f"http://127.0.0.1:{server.server_port}", requests)


def _find_content(path: str, url: str) -> tuple[str, bytes]:
    match path.partition("?")[0].rstrip("/"):
        case "/simple/tiny":
            return "text/html", f'<a href="{url}/{WHEEL}">{WHEEL}</a>'.encode()
        case "/tiny":
            return "application/json", json.dumps(_describe_npm(url)).encode()
        case found if found.endswith(WHEEL):
            return "application/octet-stream", _build_wheel()
        case found if found.endswith(TARBALL):
            return "application/octet-stream", _build_tarball()
        case _:
            return "text/plain", b""


def _build_wheel() -> bytes:
    data = io.BytesIO()
    meta = {
        "METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(data, "w") as wheel:
        wheel.writestr("tiny.py", "ANSWER = 42\n")
        for name, text in meta.items():
            wheel.writestr(f"tiny-1.0.dist-info/{name}", text)
    return data.getvalue()


def _build_tarball() -> bytes:
    data = io.BytesIO()
    files = {
        "package.json": json.dumps({"name": "tiny", "version": "1.0.0", "main": "index.js"}),
        "index.js": "module.exports = 42;\n",
    }
    with tarfile.open(fileobj=data, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


def _describe_npm(url: str) -> dict[str, object]:
    digest = base64.b64encode(hashlib.sha512(_build_tarball()).digest()).decode()
    dist = {"tarball": f"{url}/{TARBALL}", "integrity": f"sha512-{digest}"}
    version = {"name": "tiny", "version": "1.0.0", "dist": dist}
    return {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
