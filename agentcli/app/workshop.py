"""The built-in tools and what they share, made when the first of them is called."""

import asyncio
import base64
import hashlib
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from agentcli.agent.toolset import Load
from agentcli.app.boundary import Boundary, own_places
from agentcli.app.briefing import skill_folders
from agentcli.app.model import ModelInUse
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.tools.contracts import BUILT_IN, contract
from agentcli.tools.patching.contract import patch_contract
from agentcli.types.deltas import CommandEnded
from agentcli.types.events import Emit, Fact, Told, Why
from agentcli.types.messages import Image, Text
from agentcli.types.tools import Command, Tool, ToolResult, ToolSpec

if TYPE_CHECKING:
    from agentcli.machine.ledger import Ledger, Started
    from agentcli.machine.workspace import Workspace
    from agentcli.tools.bash import Bash
    from agentcli.tools.hidden import HiddenValues
    from agentcli.tools.searching.ripgrep import Engine
    from agentcli.tools.seen import FileLocks, Seen
    from agentcli.tools.shells import Shells


class Workshop:
    def __init__(
        self,
        settings: Settings,
        place: SessionPlace,
        *,
        boundary: Boundary,
        model: ModelInUse,
        tell: Emit = lambda event: None,
        keeps_tokens: bool = False,
    ) -> None:
        """`tell`: hears of commands that end in the background. `keeps_tokens`: a hidden value that
        is nowhere is written as its token."""
        self._settings = settings
        self._place = place
        self._boundary = boundary
        self.model = model
        self._tell = tell
        self._keeps_tokens = keeps_tokens

    def offers(self, facts: Callable[[], Sequence[Fact]]) -> Iterator[tuple[ToolSpec, Load]]:
        """Return the tools of one conversation. `facts`: of it, which say what was shown in it."""
        seen = cache(partial(self._new_seen, facts))
        for name in BUILT_IN:
            yield contract(name), partial(self._tool, name, seen)
        if self.model.patches:
            yield patch_contract(), partial(self._tool, "apply_patch", seen)

    def notices(self) -> Sequence[Told]:
        """Background commands that have ended since the model last heard of them."""
        if not self._has_ledger():
            return ()
        return [
            Told(text=finished.note, why=Why.BACKGROUND) for finished in self._ledger.ended_since()
        ]

    def kill_awaited(self) -> None:
        """The commands that calls are waiting for, without giving them time."""
        if self._has_ledger():
            self._ledger.kill_awaited()

    def stop(self, pid: int) -> bool:
        """Tells a process of this session to end; whether it is one that runs."""
        return self._has_ledger() and self._ledger.tell({pid}, signal.SIGTERM)

    def release(self) -> int:
        """Leaves the commands that are waited for to run by themselves; how many they are."""
        return self._ledger.release() if self._has_ledger() else 0

    def in_background(self) -> "Sequence[Started]":
        return self._ledger.in_background() if self._has_ledger() else ()

    def window(self) -> int | None:
        """Of the model in use, as far as it may be filled; None: nobody knows it."""
        sizes = (self._settings.window, self.model.window_tokens)
        return min((size for size in sizes if size), default=None)

    def keep(self, result: ToolResult) -> str:
        """Puts all of a result where read_file finds it, and says where."""
        if isinstance(result.details, Command) and result.details.log_path:
            return result.details.log_path
        if kept := self._kept_image(result):
            return kept
        text = "".join(block.text for block in result.content if isinstance(block, Text))
        name = hashlib.sha256(f"{result.call_id}\n{text}".encode()).hexdigest()[:12]
        path = self._place.out / f"result-{name}.txt"
        path.write_text(text, encoding="utf-8", errors="replace")
        return str(path)

    def _kept_image(self, result: ToolResult) -> str:
        """Where the first image of a result is now; empty: it has none."""
        image = next((block for block in result.content if isinstance(block, Image)), None)
        if image is None:
            return ""
        data = base64.b64decode(image.data)
        name = f"image-{hashlib.sha256(data).hexdigest()[:12]}"
        path = self._place.out / f"{name}.{image.media_type.removeprefix('image/')}"
        path.write_bytes(data)
        return str(path)

    def rest(self) -> None:
        """Keeps nothing running for commands that may come."""
        if "_shells" in self.__dict__:
            self._shells.rest()

    async def close(self) -> None:
        if "_shells" in self.__dict__:
            await asyncio.to_thread(self._shells.close)
        if self._has_ledger():
            await self._ledger.close()

    def _tool(self, name: str, seen: "Callable[[], Seen]") -> Tool:
        match name:
            case "read_file":
                from agentcli.tools.read_file import ReadFile

                return ReadFile(workspace=self._workspace, images=lambda: self.model.images)
            case "write_file":
                from agentcli.tools.write_file import WriteFile

                return WriteFile(workspace=self._workspace, seen=seen(), hidden=self._hidden)
            case "edit_file":
                from agentcli.tools.edit_file import EditFile

                return EditFile(workspace=self._workspace, seen=seen(), hidden=self._hidden)
            case "grep":
                from agentcli.tools.grep import Grep

                return Grep(
                    workspace=self._workspace, engine=self._search_engine, hidden=self._hidden
                )
            case "find_files":
                from agentcli.tools.find_files import FindFiles

                return FindFiles(
                    workspace=self._workspace, engine=self._search_engine, hidden=self._hidden
                )
            case "apply_patch":
                from agentcli.tools.apply_patch import ApplyPatch

                return ApplyPatch(workspace=self._workspace, seen=seen(), hidden=self._hidden)
            case _:
                return self._bash()

    @property
    def ledger(self) -> "Ledger":
        """Of the processes of the session, for whoever else starts some."""
        return self._ledger

    @property
    def lacks_sandbox(self) -> bool:
        """Nobody turned it off, and yet none works here."""
        return self._boundary.sandbox is None and self._settings.sandbox != "off"

    def kill(self) -> None:
        """Ends every command at once, without a chance to clear up."""
        from agentcli.machine import tree

        if self._has_ledger():
            for started in self._ledger.running():
                tree.tell_group(started.pid, tree.KILL)

    def new_bash(self) -> "Bash":
        """One that starts in the root of the workspace."""
        from agentcli.tools.bash import Bash

        return Bash(
            workspace=self._settings.workspace,
            out_dir=self._place.out,
            shells=self._shells,
            confinement=self._boundary.confinement_of,
            ledger=self._ledger,
            proves_read=self._boundary.proves_read,
            clean=self._boundary.secrecy.clean_output,
            timeout_limit_s=self._settings.tool_timeout,
        )

    def _bash(self) -> Tool:
        bash = self.new_bash()
        self._boundary.follow(lambda: bash.cwd)
        return bash

    @cached_property
    def _workspace(self) -> "Workspace":
        from agentcli.machine.workspace import Workspace

        return Workspace(
            self._settings.workspace,
            readable=(self._place.out, *skill_folders(self._settings)),
            protected=(*own_places(self._place), *self._boundary.scripts),
            hides=self._boundary.hides,
        )

    @cached_property
    def _search_engine(self) -> "Engine":
        """Held to the workspace, unless commands are free to read everything themselves."""
        from agentcli.guard.sandbox.reading import start_reading
        from agentcli.tools.searching import ripgrep

        is_free = self._settings.sandbox == "off"
        start = ripgrep.start_freely if is_free else start_reading
        return ripgrep.engine(self._workspace.root, start)

    @cached_property
    def _hidden(self) -> "HiddenValues":
        from agentcli.tools.hidden import HiddenValues

        secrecy = self._boundary.secrecy
        return HiddenValues(
            find=secrecy.find_hidden, reveal=secrecy.reveal, keeps_unknown=self._keeps_tokens
        )

    def _new_seen(self, facts: Callable[[], Sequence[Fact]]) -> "Seen":
        from agentcli.tools.seen import Seen

        workspace = self._workspace
        return Seen(facts(), locate=lambda path: workspace.locate(path).path, locks=self._locks)

    @cached_property
    def _locks(self) -> "FileLocks":
        from agentcli.tools.seen import FileLocks

        return FileLocks()

    @cached_property
    def _ledger(self) -> "Ledger":
        from agentcli.machine.ledger import Finished, Ledger

        def ended(finished: Finished) -> None:
            self._tell(CommandEnded(pid=finished.started.pid, how=finished.how))

        return Ledger(confined=self._boundary.sandbox is not None, on_end=ended)

    @cached_property
    def _shells(self) -> "Shells":
        from agentcli.machine.environment import child_environment
        from agentcli.tools.shells import Shells

        environ, passed = self._boundary.environ(), self._settings.pass_env
        return Shells(
            directory=self._place.out,
            sandbox=self._boundary.sandbox,
            new_mark=self._ledger.new_mark,
            environment=lambda mark: child_environment(environ, mark=mark, passed=passed),
        )

    def _has_ledger(self) -> bool:
        return "_ledger" in self.__dict__
