"""Tools added by the user: packages with an entry point, and the user's own files.

Nothing is loaded from the workspace, whose files a model can change. A file or package that cannot
be used gives one warning, and the other tools are not affected.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.completion import ANSWER_TOOL
from agentcli.agent.toolset import Offer
from agentcli.session.features import SessionFeature
from agentcli.session.project import Project
from agentcli.settings import get_user_directory
from agentcli.system.files import open_regular
from agentcli.system.lazy import compile_later
from agentcli.types.errors import ToolError
from agentcli.types.events import Warned
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.settings import Settings
from agentcli.types.tools import Details, Effect, Output, Tool, ToolContext, ToolSpec

if TYPE_CHECKING:
    from agentcli.session.session import SessionParts

GROUP = "agentcli.tools"
FOLDER = "tools"
"""The folder of single files, beside the settings file."""
TOOLS = "TOOLS"
"""The name that a file defines: callables without arguments, each of which makes a tool."""

NAME = compile_later(r"[A-Za-z][A-Za-z0-9_-]{0,63}")

ToolFactory = Callable[[], Tool]


@dataclass(slots=True, kw_only=True)
class PythonTools:
    tools: dict[str, Tool] = field(default_factory=dict)
    warnings: list[Warned] = field(default_factory=list)

    def iter_offers(self) -> Iterator[Offer]:
        for name, tool in self.tools.items():
            yield tool.spec, partial(self.tools.__getitem__, name)

    def load_source(self, source: str, load: Callable[[], Iterable[ToolFactory]]) -> None:
        """Load all tools of one file or package, or none if one of them cannot be made."""
        try:
            with _convert_errors(), redirect_stdout(sys.stderr):
                made = [PythonTool(make(), source=source) for make in load()]
        except ToolError as error:
            self.warn(source, str(error))
            return
        for tool in made:
            if clash := self._find_clash(tool.spec.name):
                self.warn(source, clash)
            else:
                self.tools[tool.spec.name] = tool

    def warn(self, source: str, why: str) -> None:
        message = f"{source} is not used: {' '.join(why.split())[:500]}"
        self.warnings.append(Warned(code="python-tool.unusable", message=message))

    def _find_clash(self, name: str) -> str:
        from agentcli.permissions.subject import KNOWN_TOOLS

        if name in KNOWN_TOOLS or name == ANSWER_TOOL:
            return f"a built-in tool is called {name}"
        taken = self.tools.get(name)
        return f"{taken.spec.source} has a tool called {name}" if taken else ""


class PythonTool:
    """A tool in Python, which cannot choose the source it is reported under."""

    def __init__(self, tool: Tool, *, source: str) -> None:
        self._tool = tool
        self._spec = replace(_check_spec(tool.spec), source=source)

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    def parse(self, raw: Json) -> Any:
        with _convert_errors():
            return self._tool.parse(raw)

    def effect(self, args: Any) -> Effect:
        with _convert_errors():
            return Effect(self._tool.effect(args))

    async def preview(self, args: Any, context: ToolContext) -> Details | None:
        with _convert_errors():
            return await self._tool.preview(args, context)

    async def run(self, args: Any, context: ToolContext) -> Output:
        with _convert_errors():
            output = await self._tool.run(args, context)
        if not isinstance(output, Output):
            raise ToolError(f"{self._spec.source} returned {type(output).__name__}, not Output.")
        return output


class PythonToolsFeature(SessionFeature):
    def __init__(self, found: PythonTools, parts: "SessionParts") -> None:
        self.warnings = found.warnings
        self.foreign_offers = tuple(parts.checkpoints.wrap_offers(found.iter_offers()))


def build_session_feature(parts: "SessionParts") -> PythonToolsFeature | None:
    """Return the user's own tools, or None if there are none."""
    found = load_python_tools(parts.settings.workspace)
    return PythonToolsFeature(found, parts) if found.tools or found.warnings else None


def load_python_tools(workspace: Path, *, import_path: Iterable[str] | None = None) -> PythonTools:
    """Load all tools. `import_path` is where packages are looked for; None for Python's own."""
    found = PythonTools()
    for name, info in _find_packages(sys.path if import_path is None else import_path, workspace):
        found.load_source(f"python {name}", partial(_load_entry_points, info))
    folder = get_user_directory() / FOLDER
    for path in sorted(folder.glob("*.py")):
        if not path.name.startswith("_"):
            _load_file(found, path, workspace=workspace)
    return found


def list_known_tools(
    settings: Settings, project: Project | None
) -> tuple[list[ToolSpec], list[str]]:
    """Return all tools, and why others are not used."""
    found = load_python_tools(settings.workspace)
    return [tool.spec for tool in found.tools.values()], [one.message for one in found.warnings]


def _find_packages(import_path: Iterable[str], workspace: Path) -> Iterator[tuple[str, Path]]:
    """Yield the packages with an entry point for us, each with its first metadata on the path.

    They are found by their text. Importing `importlib.metadata` takes as long as the rest of the
    way to the first request, and mostly there is nothing to find."""
    seen: set[str] = set()
    for directory in dict.fromkeys(os.path.realpath(entry) for entry in import_path if entry):
        if _is_model_writable(Path(directory), workspace):
            continue
        try:
            names = sorted(os.listdir(directory))  # noqa: PTH208 - a Path for each takes longer
        except OSError:
            continue  # a zip file, or a missing directory
        for name in names:
            package = name.partition("-")[0].partition(".")[0]
            if not name.endswith((".dist-info", ".egg-info")) or package in seen:
                continue
            seen.add(package)
            if _has_entry_point(f"{directory}/{name}"):
                yield package, Path(directory, name)


def _is_model_writable(directory: Path, workspace: Path) -> bool:
    """Return whether a model can write here, that is, whether it is in the workspace.

    If Python itself is in the workspace, it is already trusted."""
    return directory.is_relative_to(workspace) and not directory.is_relative_to(
        os.path.realpath(sys.prefix)
    )


def _has_entry_point(metadata: str) -> bool:
    try:
        # Not with a Path either: there may be hundreds.
        with open(f"{metadata}/entry_points.txt", "rb") as file:  # noqa: PTH123
            return f"[{GROUP}]".encode() in file.read()
    except OSError:
        return False


def _load_entry_points(info: Path) -> Iterable[ToolFactory]:
    from importlib.metadata import Distribution

    return [point.load() for point in Distribution.at(info).entry_points.select(group=GROUP)]


def _load_file(found: PythonTools, path: Path, *, workspace: Path) -> None:
    real, source = Path(os.path.realpath(path)), f"python {path.name}"
    if real.parent != Path(os.path.realpath(path.parent)) and real.is_relative_to(workspace):
        found.warn(source, f"it leads to {real}, which a model can change")
    else:
        found.load_source(source, partial(_load_factories, path))


def _load_factories(path: Path) -> Iterable[ToolFactory]:
    from importlib.util import module_from_spec, spec_from_file_location

    open_regular(path).close()  # importing it would wait for a pipe
    name = f"agentcli_tool_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}"
    found = spec_from_file_location(name, path)
    assert found is not None and found.loader is not None, "it ends in .py"
    module = module_from_spec(found)
    sys.modules[name] = module  # dataclasses and pydantic look up their own module
    found.loader.exec_module(module)
    if not hasattr(module, TOOLS):
        raise ToolError(f"it defines no {TOOLS}; write {TOOLS} = [MyTool]")
    makes: Iterable[ToolFactory] = getattr(module, TOOLS)
    return makes


def _check_spec(spec: Any) -> ToolSpec:
    """Return the spec. Raise ToolError if it cannot be declared to a model."""
    if not isinstance(spec, ToolSpec):
        raise ToolError(f"spec is {type(spec).__name__}, not ToolSpec")
    if not isinstance(spec.name, str) or not NAME.fullmatch(spec.name):
        raise ToolError(f"{spec.name!r} is not a name; use letters, digits, - and _, 64 at most")
    if not isinstance(spec.description, str) or not spec.description.strip():
        raise ToolError(f"{spec.name} has no description")
    if not isinstance(spec.schema, dict) or spec.schema.get("type") != "object":
        raise ToolError(f'the schema of {spec.name} is not one of an object: {{"type": "object"}}')
    json.dumps(spec.schema)
    return spec


@contextmanager
def _convert_errors() -> Iterator[None]:
    try:
        yield
    except ToolError:
        raise
    except (Exception, SystemExit) as error:  # foreign code may raise anything
        raise ToolError(f"{type(error).__name__}: {error}") from error
