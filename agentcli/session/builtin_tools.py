"""The built-in tools and the objects they share, created when the first of them is called."""

import asyncio
import base64
import hashlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from agentcli.agent.toolset import Offer
from agentcli.session.features import load_outliner
from agentcli.session.model import ModelInUse
from agentcli.session.permission_gate import PermissionGate
from agentcli.system.files import store_private
from agentcli.system.lazy import Lazy
from agentcli.tools.contracts import INPUT_TOOL, load_patch_spec, load_spec
from agentcli.types.checks import Verified
from agentcli.types.deltas import CommandEnded
from agentcli.types.errors import ToolError
from agentcli.types.events import ContextNote, Emit, Fact, NoteReason
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.messages import Image
from agentcli.types.own_tools import BUILT_IN
from agentcli.types.sandbox import Sandbox
from agentcli.types.settings import Settings
from agentcli.types.tools import (
    Command,
    Tool,
    ToolContext,
    ToolResult,
    WorkingDirectory,
)

if TYPE_CHECKING:
    from agentcli.session.credentials import UserCredentials
    from agentcli.session.unsaved_files import EditorFiles, UnsavedFiles
    from agentcli.system.process_table import ProcessTable, StartedCommand
    from agentcli.system.workspace import Workspace
    from agentcli.tools.bash import Bash
    from agentcli.tools.hidden import HiddenValues
    from agentcli.tools.search.ripgrep import Ripgrep
    from agentcli.tools.seen import FileLocks, Seen
    from agentcli.tools.shells import ShellPool
    from agentcli.tools.terminals import Terminals


class BuiltinTools:
    def __init__(
        self,
        settings: Settings,
        *,
        gate: PermissionGate,
        model: Callable[[], ModelInUse],
        emit: Emit,
        keeps_tokens: bool = False,
        editor: "EditorFiles | None" = None,
    ) -> None:
        """`model` returns the model in use. `emit` receives an event when a background command
        ends. If `keeps_tokens` is true, a hidden value that is not found anywhere is written as
        its token. `editor` has files that may not be saved."""
        self._settings = settings
        self._gate = gate
        self.find_added = gate.find_added
        """Returns the directories that the user added to the workspace."""
        self._host = gate.host
        self._paths = gate.host.paths
        self._model = model
        self._emit = emit
        self._keeps_tokens = keeps_tokens
        self._editor = editor
        self._processes = Lazy(self._build_process_table)
        self._shells = Lazy(self._build_shells)
        self._credentials = Lazy(self._build_credentials)

    def iter_offers(
        self,
        facts: Callable[[], Sequence[Fact]],
        *,
        declare: Callable[[Iterable[str]], None] = lambda names: None,
    ) -> Iterator[Offer]:
        """Yield the tools of one conversation, whose `facts` say what was shown in it.

        `declare` declares tools that are of use only from some call on."""
        seen = cache(partial(self._build_seen, facts))
        for name in BUILT_IN:
            if name == "bash":
                yield load_spec(name), partial(self._build_first_bash, declare)
            else:
                yield load_spec(name), partial(self._load_tool, name, seen)
        yield replace(load_spec(INPUT_TOOL), deferred=True), self._build_input_tool
        if self._model().patches:
            yield load_patch_spec(), partial(self._load_tool, "apply_patch", seen)

    def collect_notes(self) -> Sequence[ContextNote]:
        """Return notes on background commands that ended since the last call."""
        finished = self._processes.made.take_finished() if self._processes.made else ()
        return [
            ContextNote(
                text=one.note,
                why=NoteReason.BACKGROUND,
                pid=one.started.pid,
                exit_code=one.exit_code,
            )
            for one in finished
        ]

    def kill_awaited(self) -> None:
        """Kill the commands that calls are waiting for, without a grace period."""
        if self._processes.made:
            self._processes.made.kill_awaited_groups()

    def stop_command(self, pid: int) -> bool:
        """Send SIGTERM to a process of this session. Return whether it was running."""
        running = self._processes.made
        return running is not None and running.signal({pid}, signal.SIGTERM)

    def move_to_background(self) -> int:
        """Let awaited commands continue in the background. Return how many there are."""
        return self._processes.made.detach() if self._processes.made else 0

    def list_background(self) -> "Sequence[StartedCommand]":
        """Return the commands that run without a call waiting for them."""
        return self._processes.made.list_background() if self._processes.made else ()

    def store_result(self, result: ToolResult) -> str:
        """Store a whole result where read_file finds it, and return the path."""
        if isinstance(result.details, Command) and result.details.log_path:
            return result.details.log_path
        if stored := self._store_image(result):
            return stored
        text = result.text
        name = hashlib.sha256(f"{result.call_id}\n{text}".encode()).hexdigest()[:12]
        path = self._paths.out / f"result-{name}.txt"
        store_private(path, text.encode("utf-8", "replace"))
        return str(path)

    def _store_image(self, result: ToolResult) -> str:
        """Store the first image of a result. Return its path, or "" if there is none."""
        image = next((block for block in result.content if isinstance(block, Image)), None)
        if image is None:
            return ""
        data = base64.b64decode(image.data)
        name = f"image-{hashlib.sha256(data).hexdigest()[:12]}"
        path = self._paths.out / f"{name}.{image.media_type.removeprefix('image/')}"
        store_private(path, data)
        return str(path)

    def stop_idle_shells(self) -> None:
        """Stop the spare shells that wait for future commands."""
        if self._shells.made:
            self._shells.made.stop_spares()

    async def close(self) -> None:
        if self._shells.made:
            await asyncio.to_thread(self._shells.made.close)
        if self._processes.made:
            await self._processes.made.close()

    def _load_tool(self, name: str, seen: "Callable[[], Seen]") -> Tool:
        tool = self._build_tool(name, seen)
        return self._unsaved.wrap_tool(tool, self.files) if self._unsaved else tool

    def _build_tool(self, name: str, seen: "Callable[[], Seen]") -> Tool:
        match name:
            case "read_file":
                from agentcli.tools.read_file import ReadFile

                return ReadFile(
                    workspace=self.files,
                    images=lambda: self._model().images,
                    documents=lambda: self._model().documents,
                    outline=load_outliner(self._settings, self),
                    hidden=self._hidden,
                )
            case "write_file":
                from agentcli.tools.write_file import WriteFile

                return WriteFile(workspace=self.files, seen=seen(), hidden=self._hidden)
            case "edit_file":
                from agentcli.tools.edit_file import EditFile

                return EditFile(workspace=self.files, seen=seen(), hidden=self._hidden)
            case "grep":
                from agentcli.tools.grep import Grep

                return Grep(workspace=self.files, engine=self.search_engine, hidden=self._hidden)
            case "find_files":
                from agentcli.tools.find_files import FindFiles

                return FindFiles(
                    workspace=self.files, engine=self.search_engine, hidden=self._hidden
                )
            case "apply_patch":
                from agentcli.tools.apply_patch import ApplyPatch

                return ApplyPatch(workspace=self.files, seen=seen(), hidden=self._hidden)
            case _:
                raise KeyError(name)

    def _build_input_tool(self) -> Tool:
        from agentcli.tools.write_stdin import WriteStdin

        return WriteStdin(self._terminals, timeout_limit_s=self._settings.tool_timeout)

    @cached_property
    def _terminals(self) -> "Terminals":
        from agentcli.tools.terminals import Terminals

        return Terminals()

    @property
    def process_table(self) -> "ProcessTable":
        """The process table of the session, for other code that starts processes."""
        return self._processes.get()

    def kill_commands(self) -> None:
        """Kill every command at once, without a chance to clean up."""
        from agentcli.system import process_tree

        for started in self._processes.made.list_running() if self._processes.made else ():
            process_tree.signal_group(started.pid, process_tree.KILL)

    def _build_first_bash(self, declare: Callable[[Iterable[str]], None]) -> "Bash":
        """Build the model's bash tool for its first call, and start the shell for it meanwhile."""
        bash = self.build_bash(self._host.directory, declare)
        self._shells.get().prepare_first(self._host.directory.path, self.find_added())
        return bash

    def build_bash(
        self,
        directory: WorkingDirectory | None = None,
        declare: Callable[[Iterable[str]], None] = lambda names: None,
    ) -> "Bash":
        """Build a bash tool. If `directory` is None, it starts in the root of the workspace.

        `declare` declares the tool for input once a command is on a terminal."""
        shells = self._shells.get()  # first: the tool is loaded while its sandbox proves itself
        from agentcli.tools.bash import Bash

        return Bash(
            workspace=self._settings.workspace,
            added=self.find_added,
            shells=shells,
            processes=self._processes.get(),
            find_credentials=self._find_credentials,
            terminals=self._terminals,
            declare_input=partial(declare, (INPUT_TOOL,)),
            directory=directory,
            proves_read=self._host.proves_read,
            clean=self._gate.redactor.open_bytes_stream,
            timeout_limit_s=self._settings.tool_timeout,
            output_limit_bytes=self._settings.command_output,
            emit=self._emit,
        )

    async def run_command(
        self, command: str, *, timeout_s: float, grants: Grants = NO_GRANTS
    ) -> Verified:
        """Run a command of the user like a bash call, in the same sandbox and with its own log."""
        from agentcli.tools.bash import BashArgs

        bash = self.build_bash()
        self._host.report()  # no judge has asked for the sandbox
        # Not checked: the limit of this field is meant for models.
        args = BashArgs(command=command, timeout=timeout_s)
        context = ToolContext(
            call_id="verify",
            workspace=self._settings.workspace,
            progress=lambda text: None,
            grants=grants | self.find_added(),
        )
        try:
            output = await bash.run(args, context)
        except ToolError as error:
            return Verified(command=command, exit_code=None, output=str(error))
        ran = output.details
        assert isinstance(ran, Command)
        text = "".join(getattr(block, "text", "") for block in output.content)
        return Verified(
            command=command,
            exit_code=None if ran.timed_out else ran.exit_code,
            output=text,
            duration_s=round(ran.duration_s, 3),
            log_path=ran.log_path,
            output_sha256=ran.output_sha256,
            timed_out=ran.timed_out,
        )

    @cached_property
    def files(self) -> "Workspace":
        """The roots that tools work in."""
        from agentcli.system.workspace import Workspace

        return Workspace(
            self._settings.workspace,
            readable=self._host.readable.by_tools,
            protected=(*self._host.own.all, *self._host.scripts),
            hides=self._gate.hides,
            asks_to_read=self._gate.asks_to_read,
            find_temporary=lambda: self._host.temporary,
            added=self.find_added,
            find_unsaved=self._unsaved.find if self._unsaved else None,
        )

    @cached_property
    def _unsaved(self) -> "UnsavedFiles | None":
        if self._editor is None:
            return None
        from agentcli.session.unsaved_files import UnsavedFiles

        return UnsavedFiles(self._editor)

    @cached_property
    def search_engine(self) -> "Ripgrep":
        """Ripgrep, limited to the workspace unless the sandbox is off."""
        from agentcli.sandbox.reading import start_reading
        from agentcli.tools.search import ripgrep

        is_free = self._settings.sandbox == "off"
        start = ripgrep.start_unconfined if is_free else start_reading
        return ripgrep.load_ripgrep(self.files.root, start)

    @cached_property
    def _hidden(self) -> "HiddenValues":
        from agentcli.tools.hidden import HiddenValues

        redactor = self._gate.redactor
        return HiddenValues(
            find=redactor.find_hidden, reveal=redactor.reveal, keeps_unknown=self._keeps_tokens
        )

    def _build_seen(self, facts: Callable[[], Sequence[Fact]]) -> "Seen":
        from agentcli.tools.seen import Seen

        workspace = self.files
        return Seen(facts(), locate=lambda path: workspace.locate(path).path, locks=self._locks)

    @cached_property
    def _locks(self) -> "FileLocks":
        from agentcli.tools.seen import FileLocks

        return FileLocks()

    def _build_process_table(self) -> "ProcessTable":
        from agentcli.system.process_table import FinishedCommand, ProcessTable

        def report_end(finished: FinishedCommand) -> None:
            self._emit(CommandEnded(pid=finished.started.pid, how=finished.how))

        return ProcessTable(on_end=report_end)

    def prepare_shells(self) -> None:
        """Make the sandbox and its first shell ahead, in another thread."""
        self._shells.get().stop_unused()

    def _build_shells(self) -> "ShellPool":
        """Build the pool in the sandbox that its first shell has proven.

        While that waits for processes, a thread loads the rest of what a command needs."""
        from agentcli.session.preparation import load_command_modules

        proven: ShellPool | None = None

        def run_probe(sandbox: Sandbox, line: str, cwd: Path) -> str:
            nonlocal proven
            proven = self._build_pool(sandbox)
            Thread(target=load_command_modules, daemon=True, name="beside the proof").start()
            return proven.prove(line, cwd)

        sandbox = self._host.prepare(run_probe)
        return proven if proven and proven.sandbox is sandbox else self._build_pool(sandbox)

    def _build_pool(self, sandbox: Sandbox | None) -> "ShellPool":
        from agentcli.system.environment import build_child_environment
        from agentcli.tools.shells import ShellPool

        confined = self._host.build_confined_environ() if sandbox else os.environ
        passed = self._settings.pass_env

        def build_environment(tag: str, grants: Grants) -> dict[str, str]:
            environ = os.environ if grants.outside else confined
            return build_child_environment(environ, tag=tag, passed=passed)

        async def answer_git(
            call_id: str, asked: str, may_reach: Callable[[str, int], Awaitable[bool]]
        ) -> str:
            return await self._credentials.get().answer_git(call_id, asked, may_reach)

        return ShellPool(
            directory=self._paths.out,
            sandbox=sandbox,
            new_tag=self._processes.get().create_tag,
            environment=build_environment,
            leases=self._host.open_proxy(
                sandbox,
                judge_host=self._gate.judge_host,
                answer_git=answer_git,
                judge_signature=self._gate.judge_signature,
            )
            if sandbox
            else None,
        )

    async def _find_credentials(self, grants: Grants) -> dict[str, str]:
        return await self._credentials.get().build_variables(grants)

    def _build_credentials(self) -> "UserCredentials":
        from agentcli.session.credentials import UserCredentials

        return UserCredentials(
            workspace=self._settings.workspace,
            directory=self._paths.out,
            emit=self._emit,
            conceal=self._gate.redactor.learn,
        )
