"""A page in headless Chromium, driven over its debugging protocol: keys, screens and roles."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import urlopen

from websockets.sync.client import ClientConnection, connect

from tests.support.processes import until

T = TypeVar("T")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


class BrowserPage:
    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._sent = 0

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        self._sent += 1
        self._connection.send(json.dumps({"id": self._sent, "method": method, "params": params}))
        while True:
            message = json.loads(self._connection.recv())
            if message.get("id") == self._sent:
                result: dict[str, Any] = message.get("result", {})
                return result

    def evaluate(self, expression: str) -> Any:
        return self.send("Runtime.evaluate", expression=expression)["result"].get("value")

    def wait_for(self, expression: str, value: object) -> None:
        """Wait until an expression has this value."""
        asyncio.run(until(lambda: self.evaluate(expression) == value))

    def resize(self, width: int) -> None:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)

    def press(self, key: str) -> None:
        codes = {"Tab": 9, "Enter": 13}
        for kind in ("keyDown", "keyUp"):
            given = {"type": kind, "key": key, "windowsVirtualKeyCode": codes[key]}
            self.send("Input.dispatchKeyEvent", **given)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def list_roles(self) -> list[tuple[str, str]]:
        """The roles and names that a screen reader is told."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node.get("ignored")
        ]


@contextmanager
def open_page(file: Path, *, profile: Path) -> Iterator[BrowserPage]:
    assert BROWSER is not None
    process = subprocess.Popen(
        [
            *(BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0"),
            *("--remote-allow-origins=*", f"--user-data-dir={profile}", file.as_uri()),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = _wait_for(lambda: _read_port(profile))
        address = _wait_for(lambda: _find_page(port, file))
        with connect(address, max_size=None) as connection:
            page = BrowserPage(connection)
            page.send("Emulation.setFocusEmulationEnabled", enabled=True)
            _wait_for(lambda: page.evaluate("document.readyState") == "complete")
            yield page
    finally:
        process.terminate()
        process.wait()


def _wait_for(find: Callable[[], T]) -> T:
    """Return what is found, as soon as it is something."""
    found: list[T] = []

    def is_found() -> bool:
        found.append(find())
        return bool(found[-1])

    asyncio.run(until(is_found))
    return found[-1]


def _read_port(profile: Path) -> int:
    try:
        return int((profile / "DevToolsActivePort").read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _find_page(port: int, file: Path) -> str:
    with urlopen(f"http://127.0.0.1:{port}/json") as answer:
        targets = json.load(answer)
    found = (one for one in targets if one["url"] == file.as_uri())
    return next((str(one["webSocketDebuggerUrl"]) for one in found), "")
