"""The session's end of the browser: started in a sandbox of its own, one order at a time.

The browser sees neither the workspace nor the user's files. It reaches hosts by the proxy of its
sandbox alone, and each host is judged before it is reached. A host that a page reaches for between
two calls waits for the next call: nobody is asked out of the blue.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from subprocess import Popen

from agentcli.sandbox.contents import remove_directory
from agentcli.session.sandbox_host import SandboxHost
from agentcli.system import process, process_tree
from agentcli.system.environment import build_child_environment
from agentcli.system.extras import build_extra_command, is_installed
from agentcli.system.hosts import join_port
from agentcli.system.lazy import Lazy
from agentcli.system.process import AFTER_TIMEOUT
from agentcli.types.computer import SCREEN_HEIGHT, SCREEN_WIDTH
from agentcli.types.errors import SettingsError, ToolError
from agentcli.types.events import Emit, Event, HostJudged
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.messages import Json
from agentcli.types.sandbox import HostLeases, Sandbox
from agentcli.types.verdicts import Verdict

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LINE_BYTES = 8_000_000
ANSWER_S = 120.0
"""The longest wait for the browser, to start or to answer: a loaded machine is slow."""

NEEDS_BUBBLEWRAP = (
    "The browser needs bubblewrap: in this sandbox it cannot run, or not be held to single hosts."
)
_CHILD = Path(__file__).with_name("child.py")

JudgePageHost = Callable[[str, str, int], Awaitable[Verdict]]
"""Judges a host that a page reaches for: takes the id of the call, the host and the port."""


def find_program() -> str | None:
    return next(filter(None, map(which, PROGRAMS)), None)


def explain_missing() -> str:
    """Return what is missing for a browser on this machine, or "" if nothing is."""
    if not is_installed("playwright"):
        return f"computer = true needs Playwright: {build_extra_command('computer')}"
    if find_program() is None:
        return "computer = true needs a browser: install Chromium, e.g. apt install chromium"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageState:
    """Where the page is after some actions, and how it looks."""

    url: str
    title: str
    image: str
    """A picture in base64; empty if none could be taken."""
    media: str
    error: str = ""
    """Why an action failed; the ones after it were not done."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBrowser:
    """A browser process, and the pipes by which it gets orders and answers them."""

    child: "Popen[bytes]"
    tag: str
    token: str
    """The token of its lease, by which it reaches hosts."""
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, order: Mapping[str, Json], within_s: float) -> Mapping[str, Json]:
        """Return the answer to an order, or an empty one if the browser has ended.

        Raise TimeoutError if there is none in time."""
        line = b""
        with suppress(ConnectionError, ValueError):
            async with asyncio.timeout(within_s):
                self.writer.write(json.dumps(order).encode() + b"\n")
                await self.writer.drain()
                line = await self.reader.readline()
        answer: Json = json.loads(line or b"{}")
        return answer if isinstance(answer, dict) else {}


class SandboxedBrowser:
    def __init__(self, host: SandboxHost, *, judge: JudgePageHost, emit: Emit) -> None:
        self._host = host
        self._judge = judge
        self._emit = emit
        self._private = Lazy(host.create_private_directory)
        self._sandbox = Lazy(self._build_sandbox)
        self._leases = Lazy(self._open_leases)
        self._running: RunningBrowser | None = None
        self._call_id = ""
        self._in_call = asyncio.Event()
        self._opened: set[str] = set()
        """The hosts that calls were allowed to open, as `docs.example.org:443`."""
        self._refused: dict[str, str] = {}
        """The reasons for the hosts that were refused, by host and port."""
        self.url = ""
        """The address of the page; empty before the first one."""

    async def run(self, actions: Sequence[Json], *, call_id: str, opens: str = "") -> PageState:
        """Do the actions. `opens` is the host that they were allowed to open, if any.

        Raise ToolError if there can be no browser, or if it ends. The next call starts another."""
        self._call_id = call_id
        if self._running is None:
            self._running = await self._start()
        self._allow(opens, self._running)
        before = set(self._refused)
        self._in_call.set()
        try:
            answer = await self._order(self._running, {"actions": list(actions)}, within_s=ANSWER_S)
        finally:
            self._in_call.clear()
        state = _read_state(answer)
        self.url = state.url
        refused = [why for host, why in self._refused.items() if host not in before]
        return replace(state, notes=(*state.notes, *refused))

    async def close(self) -> None:
        await self._stop(self._running)
        if self._leases.made is not None:
            self._leases.made.close()
        if self._sandbox.made is not None:
            self._sandbox.made.close()
        if self._private.made is not None:
            with suppress(OSError):
                remove_directory(self._private.made)

    def _allow(self, opens: str, running: RunningBrowser) -> None:
        """Let the browser reach a host. If it was refused before, it is judged anew."""
        if opens and opens not in self._opened:
            self._opened.add(opens)
            if self._refused.pop(opens, ""):
                self._leases.get().end(running.token)
                self._leases.get().begin(running.token, call_id=self._call_id, grants=NO_GRANTS)

    async def _start(self) -> RunningBrowser:
        """Start the browser. Raise ToolError with one line if there can be none."""
        try:
            await asyncio.to_thread(self._sandbox.get)
        except SettingsError as error:
            raise ToolError(f"The browser needs a sandbox, and none works here: {error}") from None
        leases = self._leases.get()
        leases.prepare()
        token = leases.create_token()
        variables = leases.open(token, NO_GRANTS).variables
        if "HTTPS_PROXY" not in variables:
            raise ToolError(NEEDS_BUBBLEWRAP)
        leases.begin(token, call_id=self._call_id, grants=NO_GRANTS)
        try:
            running = await self._launch(token, variables)
        except BaseException:
            leases.end(token)
            raise
        size: dict[str, Json] = {"width": SCREEN_WIDTH, "height": SCREEN_HEIGHT}
        answer = await self._order(running, {"program": find_program(), **size}, within_s=ANSWER_S)
        if fault := answer.get("error"):
            await self._stop(running)
            raise ToolError(f"The browser did not start: {fault}")
        return running

    def _build_sandbox(self) -> Sandbox:
        empty = self._private.get() / "page"
        empty.mkdir()
        sandbox = self._host.build_sandbox(
            self._private.get(), readable=_find_installation(), workspace=empty
        )
        if sandbox is None:
            raise ToolError("The browser runs in the sandbox only, and it is turned off.")
        if not sandbox.has_process_namespace:
            sandbox.close()
            raise ToolError(NEEDS_BUBBLEWRAP)
        return sandbox

    def _open_leases(self) -> HostLeases:
        return self._host.open_proxy(
            self._sandbox.get(), emit=self._record, judge_host=self._judge_host
        )

    def _record(self, event: Event) -> None:
        if isinstance(event, HostJudged):
            event = replace(event, call_id=self._call_id)
        self._emit(event)

    async def _judge_host(self, call_id: str, host: str, port: int, grants: Grants) -> Verdict:
        where = join_port(host, port)
        if where in self._opened:
            return Verdict(decision="allow", by="rule", reason="a call was allowed to open it")
        await self._in_call.wait()
        verdict = await self._judge(self._call_id, host, port)
        if verdict.decision != "allow":
            self._refused[where] = f"{where} was refused: {verdict.reason}"
        return verdict

    async def _launch(self, token: str, variables: Mapping[str, str]) -> RunningBrowser:
        private = self._private.get()
        tag = process_tree.make_tag(confined=True)
        env = build_child_environment(self._host.build_environ(), tag=tag)
        stdin, to_child = os.pipe()
        from_child, stdout = os.pipe()
        errors = os.open(private / "errors", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            child = await asyncio.to_thread(
                self._sandbox.get().start,
                [sys.executable, "-P", "-s", "-c", _CHILD.read_text(encoding="utf-8")],
                cwd=private / "page",
                env={**env, **variables},
                stdin=stdin,
                stdout=stdout,
                stderr=errors,
                grants=NO_GRANTS,
            )
        except OSError as error:
            os.close(to_child)
            os.close(from_child)
            raise ToolError(f"The browser was not started: {error.strerror or error}.") from error
        finally:
            for handle in (stdin, stdout, errors):
                os.close(handle)
        reader, writer = await _connect(from_child, to_child)
        return RunningBrowser(child=child, tag=tag, token=token, reader=reader, writer=writer)

    async def _order(
        self, running: RunningBrowser, order: Mapping[str, Json], *, within_s: float
    ) -> Mapping[str, Json]:
        """Return the answer to an order. Without one, end the browser and raise ToolError."""
        try:
            answer = await running.ask(order, within_s)
        except TimeoutError:
            await self._stop(running)
            raise ToolError(f"The browser did not answer within {within_s:.0f} s.") from None
        except BaseException:
            await self._stop(running)
            raise
        if not answer:
            said = self._read_last_words()
            await self._stop(running)
            raise ToolError(f"The browser ended: {said or 'it said nothing'}")
        return answer

    def _read_last_words(self) -> str:
        errors = self._private.get() / "errors"
        lines = errors.read_text(encoding="utf-8", errors="replace").splitlines()
        return next((line[:300] for line in reversed(lines) if line.strip()), "")

    async def _stop(self, running: RunningBrowser | None) -> None:
        self._running, self.url = None, ""
        if running is None:
            return
        running.writer.close()
        await process.run_to_completion(
            process.end(running.child, tag=running.tag, steps=AFTER_TIMEOUT)
        )
        await asyncio.to_thread(self._sandbox.get().finish, running.child)
        self._leases.get().end(running.token)


def _find_installation() -> tuple[Path, ...]:
    """Return the directories of Python and Playwright, which the sandbox would hide."""
    spec = find_spec("playwright")
    places = [sys.prefix, sys.base_prefix, *(spec.submodule_search_locations or () if spec else ())]
    return tuple(dict.fromkeys(Path(os.path.realpath(place)) for place in places))


async def _connect(
    from_child: int, to_child: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_child, "rb", 0)
    )
    writing, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(to_child, "wb", 0)
    )
    return reader, asyncio.StreamWriter(writing, protocol, None, loop)


def _read_state(answer: Mapping[str, Json]) -> PageState:
    notes = answer.get("notes")
    return PageState(
        **{key: str(answer.get(key, "")) for key in ("url", "title", "image", "media", "error")},
        notes=tuple(map(str, notes)) if isinstance(notes, list) else (),
    )
