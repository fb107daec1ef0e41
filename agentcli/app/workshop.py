"""The built-in tools and what they share, made when the first of them is called."""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from agentcli.agent.toolset import Load
from agentcli.app.boundary import Boundary
from agentcli.app.model import ModelInUse
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.tools.contracts import BUILT_IN, contract
from agentcli.tools.patching.contract import patch_contract
from agentcli.types.events import Told
from agentcli.types.tools import Tool, ToolSpec

if TYPE_CHECKING:
    from agentcli.machine.ledger import Ledger
    from agentcli.machine.workspace import Workspace
    from agentcli.tools.seen import Seen


class Workshop:
    def __init__(
        self, settings: Settings, place: SessionPlace, *, boundary: Boundary, model: ModelInUse
    ) -> None:
        self._settings = settings
        self._place = place
        self._boundary = boundary
        self._model = model

    def offers(self) -> Iterator[tuple[ToolSpec, Load]]:
        for name in BUILT_IN:
            yield contract(name), partial(self._tool, name)
        if self._model.patches:
            yield patch_contract(), partial(self._tool, "apply_patch")

    def notices(self) -> Sequence[Told]:
        """Background commands that have ended since the model last heard of them."""
        if not self._has_ledger():
            return ()
        return [
            Told(text=finished.note, why="background") for finished in self._ledger.ended_since()
        ]

    async def close(self) -> None:
        if self._has_ledger():
            await self._ledger.close()

    def _tool(self, name: str) -> Tool:
        match name:
            case "read_file":
                from agentcli.tools.read_file import ReadFile

                return ReadFile(
                    workspace=self._workspace, seen=self._seen, images=self._model.images
                )
            case "write_file":
                from agentcli.tools.write_file import WriteFile

                return WriteFile(workspace=self._workspace, seen=self._seen)
            case "edit_file":
                from agentcli.tools.edit_file import EditFile

                return EditFile(workspace=self._workspace, seen=self._seen)
            case "grep":
                from agentcli.tools.grep import Grep

                return Grep(workspace=self._workspace)
            case "find_files":
                from agentcli.tools.find_files import FindFiles

                return FindFiles(workspace=self._workspace)
            case "apply_patch":
                from agentcli.tools.apply_patch import ApplyPatch

                return ApplyPatch(workspace=self._workspace, seen=self._seen)
            case _:
                return self._bash()

    def _bash(self) -> Tool:
        from agentcli.tools.bash import Bash

        bash = Bash(
            workspace=self._settings.workspace,
            out_dir=self._place.out,
            sandbox=self._boundary.sandbox,
            confinement=self._boundary.confinement,
            environ=self._boundary.environ(),
            ledger=self._ledger,
            proves_read=self._boundary.proves_read,
        )
        self._boundary.follow(lambda: bash.cwd)
        return bash

    @cached_property
    def _workspace(self) -> "Workspace":
        from agentcli.machine.workspace import Workspace

        return Workspace(self._settings.workspace, readable=(self._place.out,))

    @cached_property
    def _seen(self) -> "Seen":
        from agentcli.tools.seen import Seen

        return Seen()

    @cached_property
    def _ledger(self) -> "Ledger":
        from agentcli.machine.ledger import Ledger

        return Ledger()

    def _has_ledger(self) -> bool:
        return "_ledger" in self.__dict__
