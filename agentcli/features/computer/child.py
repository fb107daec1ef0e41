"""The inside of the computer tool: a browser in the sandbox, driven by lines of JSON.

The session sends one line for each call, with the actions in it, and gets one line back: where the
page is, and a picture of it. It runs in the sandbox with all that it starts, and reaches hosts by
the proxy of the sandbox alone. It imports nothing of agentcli, which the sandbox may hide.
"""

import base64
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Error, Page, Playwright, sync_playwright

IMAGE_BYTES = 1_000_000
"""A larger picture is taken again as JPEG."""
OPEN_MS = 60_000
"""The longest wait for the answer of a host, about which a user may be asked first."""
LOAD_MS = 5_000
"""The longest wait for the rest of a page, which is then shown as it is."""
SETTLE_MS = 250
"""The time that a page gets to react to an action before it is looked at."""
QUALITIES = (80, 50, 20)

SWITCHES = [
    "--no-sandbox",  # the sandbox around us takes the place of Chromium's own
    "--disable-gpu",
    # Nothing but the page reaches for hosts. This list replaces Playwright's own.
    "--disable-features=AutofillServerCommunication,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,"
    "OptimizationHints,NetworkTimeServiceQuerying,AimEnabled,PreconnectToSearch,MediaRouter,"
    "PaintHolding,AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose",
]

Action = Mapping[str, Any]


class Browser:
    def __init__(self, playwright: Playwright, order: Mapping[str, Any]) -> None:
        size: Any = {"width": order["width"], "height": order["height"]}
        self._notes: list[str] = []
        self._browser = playwright.chromium.launch(
            executable_path=order["program"],
            args=SWITCHES,
            proxy=read_proxy(os.environ["HTTPS_PROXY"]),
            timeout=0,  # the session has a limit for the start
        )
        self._context = self._browser.new_context(
            viewport=size,
            screen=size,
            accept_downloads=False,
        )
        self._context.set_default_timeout(OPEN_MS)
        self._context.on("page", self._watch)
        self._page = self._context.new_page()

    def _watch(self, page: Page) -> None:
        """Follow a page that opens in a new tab, and note what the page asks of a user."""
        self._page = page
        page.on("dialog", self._dismiss)
        page.on("download", lambda download: self._notes.append("a download was refused"))
        page.on("close", lambda closed: self._return())

    def _dismiss(self, dialog: Any) -> None:
        self._notes.append(f"a dialog was dismissed: {dialog.message[:300]}")
        dialog.dismiss()

    def _return(self) -> None:
        if self._context.pages:
            self._page = self._context.pages[-1]

    def answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Do the actions in order, up to the first that fails. Return how the page looks then."""
        self._notes.clear()
        error, region = "", None
        for number, action in enumerate(order["actions"]):
            try:
                region = self._do(action)
            except Error as failure:
                name = f"action {number + 1} ({action['action']})"
                error = f"{name} failed: {failure.message.splitlines()[0][:300]}"
                break
        self._settle()
        return {**self._show(region), "error": error, "notes": self._notes[:5]}

    def _do(self, action: Action) -> "dict[str, float] | None":
        """Do one action. Return the part of the page to show instead of all, if it names one."""
        if action["action"] == "zoom":
            return read_region(action)
        steps: Mapping[str, Callable[[Action], object]] = {
            "screenshot": lambda given: None,
            "move": self._move,
            "scroll": self._scroll,
            "wait": lambda given: self._page.wait_for_timeout(given["seconds"] * 1000),
            "click": self._click,
            "drag": self._drag,
            "press": self._press,
            "release": self._release,
            "type": lambda given: self._page.keyboard.type(given["text"]),
            "key": self._press_keys,
            "hold_key": self._hold_key,
            "navigate": self._navigate,
            "back": lambda given: self._page.go_back(wait_until="commit"),
            "forward": lambda given: self._page.go_forward(wait_until="commit"),
            "reload": lambda given: self._page.reload(wait_until="commit"),
        }
        steps[action["action"]](action)
        return None

    def _navigate(self, action: Action) -> None:
        try:
            self._page.goto(action["url"], wait_until="commit")
        except Error as failure:
            # The error page of an earlier address may come late, in the place of the new page.
            if "interrupted by another navigation" not in failure.message:
                raise
            self._page.goto(action["url"], wait_until="commit")

    def _move(self, action: Action) -> None:
        if action.get("x") is not None and action.get("y") is not None:
            self._page.mouse.move(action["x"], action["y"])

    def _click(self, action: Action) -> None:
        mouse, count = self._page.mouse, action["count"]
        with self._hold(action["keys"]):
            mouse.click(action["x"], action["y"], button=action["button"], click_count=count)

    def _drag(self, action: Action) -> None:
        with self._hold(action["keys"]):
            self._move(action)
            self._page.mouse.down()
            self._page.mouse.move(action["to_x"], action["to_y"], steps=10)
            self._page.mouse.up()

    def _press(self, action: Action) -> None:
        self._move(action)
        self._page.mouse.down()

    def _release(self, action: Action) -> None:
        self._move(action)
        self._page.mouse.up()

    def _scroll(self, action: Action) -> None:
        self._move(action)
        with self._hold(action["keys"]):
            self._page.mouse.wheel(action["by_x"], action["by_y"])

    def _press_keys(self, action: Action) -> None:
        for _ in range(action["count"]):
            for chord in action["keys"]:
                self._page.keyboard.press(chord)

    def _hold_key(self, action: Action) -> None:
        with self._hold(action["keys"]):
            self._page.wait_for_timeout(action["seconds"] * 1000)

    @contextmanager
    def _hold(self, chords: "list[str]") -> Iterator[None]:
        keys = [key for chord in chords for key in chord.split("+")]
        for key in keys:
            self._page.keyboard.down(key)
        try:
            yield
        finally:
            for key in reversed(keys):
                self._page.keyboard.up(key)

    def _settle(self) -> None:
        """Wait until the page has reacted, for a while. What loads for longer is shown as it is."""
        with suppress(Error):
            self._page.wait_for_timeout(SETTLE_MS)
            self._page.wait_for_load_state("load", timeout=LOAD_MS)

    def _show(self, region: "dict[str, float] | None") -> dict[str, Any]:
        try:
            media, data = self._take_picture(region)
            title = self._page.title()[:300]
        except Error as failure:
            return {"url": self._page.url, "title": "", "image": "", "media": failure.message[:300]}
        image = base64.b64encode(data).decode("ascii")
        return {"url": self._page.url, "title": title, "image": image, "media": media}

    def _take_picture(self, region: "dict[str, float] | None") -> tuple[str, bytes]:
        clip: dict[str, Any] = {"clip": region} if region else {}
        data = self._page.screenshot(**clip)
        media = "image/png"
        for quality in QUALITIES:
            if len(data) <= IMAGE_BYTES:
                break
            data = self._page.screenshot(type="jpeg", quality=quality, **clip)
            media = "image/jpeg"
        return media, data


def read_region(action: Action) -> "dict[str, float]":
    return {
        "x": min(action["x"], action["to_x"]),
        "y": min(action["y"], action["to_y"]),
        "width": max(1, abs(action["to_x"] - action["x"])),
        "height": max(1, abs(action["to_y"] - action["y"])),
    }


def read_proxy(address: str) -> Any:
    """Return the proxy for every host: names of this machine lead to it, too."""
    parts = urlsplit(address)
    return {
        "server": f"http://{parts.hostname}:{parts.port}",
        "username": parts.username or "",
        "password": parts.password or "",
        "bypass": "<-loopback>",
    }


def main() -> None:
    # What else prints must not get between the lines.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    order = json.loads(sys.stdin.readline())
    with sync_playwright() as playwright:
        try:
            browser = Browser(playwright, order)
        except Error as failure:
            send({"error": failure.message.splitlines()[0][:500]})
            return
        send({"error": ""})
        while line := sys.stdin.readline():
            send(browser.answer(json.loads(line)))


if __name__ == "__main__":
    main()
