"""The index of the code base, if the user has enabled it with `symbols = true`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.session.features import SessionFeature
from agentcli.session.project import Project
from agentcli.system.extras import build_extra_command, is_installed
from agentcli.system.lazy import Lazy
from agentcli.tools.contracts import load_spec
from agentcli.types.events import Warned
from agentcli.types.settings import Settings
from agentcli.types.tools import Tool, ToolSpec

if TYPE_CHECKING:
    from agentcli.features.symbols.indexer import Indexer
    from agentcli.session.builtin_tools import BuiltinTools
    from agentcli.session.session import SessionParts
    from agentcli.system.workspace import WorkspacePath
    from agentcli.tools.read_file import OutlineFile


def build_session_feature(parts: "SessionParts") -> "SymbolsFeature":
    return SymbolsFeature(parts)


def list_known_tools(
    settings: Settings, project: Project | None
) -> tuple[list[ToolSpec], list[str]]:
    """Return the tool if it is enabled, and what it lacks."""
    if not settings.symbols:
        return [], []
    if is_installed("tree_sitter"):
        return [load_spec("symbols")], []
    return [], [f"symbols = true needs tree-sitter: {build_extra_command('symbols')}"]


class SymbolsFeature(SessionFeature):
    def __init__(self, parts: "SessionParts") -> None:
        self._parts = parts
        specs, problems = list_known_tools(parts.settings, parts.configuration.project)
        self.warnings = [Warned(code="symbols.missing", message=one) for one in problems]
        self.foreign_offers = [(spec, self._build_tool) for spec in specs]

    def _build_tool(self) -> Tool:
        from agentcli.features.symbols.symbols import Symbols

        tools, root = self._parts.builtin_tools, self._parts.settings.workspace
        return Symbols(_build_indexer(tools, root))


def build_outliner(settings: Settings, tools: "BuiltinTools") -> "OutlineFile | None":
    """Build what outlines large files for read_file, or return None if it is not wanted."""
    if not settings.symbols or not is_installed("tree_sitter"):
        return None

    async def outline(path: "WorkspacePath") -> Sequence[str]:
        from agentcli.features.symbols.symbols import indent

        if path.root != tools.files.root:
            return ()
        return indent(await indexer.get().outline_file(os.fsencode(path.relative)))

    indexer = Lazy(lambda: _build_indexer(tools, settings.workspace))
    return outline


def _build_indexer(tools: "BuiltinTools", root: Path) -> "Indexer":
    from agentcli.features.symbols.index import SymbolIndex
    from agentcli.features.symbols.indexer import Indexer

    return Indexer(
        index=SymbolIndex(_get_index_path(root), root=root),
        workspace=tools.files,
        engine=tools.search_engine,
    )


def _get_index_path(workspace: Path) -> Path:
    """Return the file of a workspace's index, beside the sessions: commands cannot write there."""
    import hashlib

    from agentcli.log.paths import locate_sessions

    name = hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16]
    return locate_sessions().parent / "symbols" / f"{name}.sqlite"
