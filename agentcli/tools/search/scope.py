"""The scope of a search: a file or a directory, and the glob that narrows it.

A glob only narrows. With `--glob`, ripgrep would bring back files that ignore rules leave out. So
ripgrep gets a filter of file names that is at least as wide, and `admits` decides.
"""

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from pathlib import Path

from agentcli.system.files import locate_config_home, locate_home
from agentcli.system.text import to_printable
from agentcli.system.workspace import Workspace, WorkspacePath
from agentcli.tools.search import globs
from agentcli.tools.search.ignore import inherit_rules, read_global_rules
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.tools import ErrorKind

_TYPE = "wanted"
GLOB_CHARS = 10_000
"""No path is as long; to translate a longer one takes seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScope:
    where: str
    """A description of what is searched."""
    root: Path
    """The directory that the search must not leave."""
    cwd: Path
    """The directory in which ripgrep runs; its globs and rules are relative to it."""
    target: str
    """The path that ripgrep searches, relative to `cwd`."""
    prefix: str
    """The prefix that turns its paths into paths for the model."""
    arguments: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    """Ignore rules of the directories above, and of the user."""
    wanted: re.Pattern[str] | None = None
    """The pattern that paths below `cwd` must match; None for all."""
    hides: Callable[[Path], bool] | None = None
    """Returns whether a path must not be read; None if nothing is hidden."""
    asks: Callable[[Path], str] | None = None
    """Returns the rule that asks about a path and was not asked about, or an empty string."""
    asking: set[str] = field(default_factory=set)
    """The rules for which something was left out."""

    def admits(self, found: bytes) -> bool:
        path = _to_relative(found)
        if self.wanted is not None and not self.wanted.fullmatch(path):
            return False
        if self.hides is not None and self.hides(self.cwd / path):
            return False
        rule = self.asks(self.cwd / path) if self.asks else ""
        self.asking.update([rule] if rule else [])
        return not rule

    def list_left_out(self) -> Iterator[str]:
        """Yield a note for each rule for which something was left out."""
        for rule in sorted(self.asking):
            yield f"left out what rule {rule} is about; to ask the user, name it in path"

    def display(self, found: bytes) -> str:
        path = self.prefix + _to_relative(found)
        return "/".join(map(to_printable, path.split("/")))

    def without_ignores(self) -> "SearchScope":
        """Return the same scope with ignored files, and ignoring case."""
        wanted = self.wanted and re.compile(self.wanted.pattern, self.wanted.flags | re.IGNORECASE)
        kept = tuple(one for one in self.arguments if not one.startswith("--type"))
        return replace(self, arguments=(*kept, "--no-ignore"), rules=(), wanted=wanted)


def is_directory(path: Path) -> bool:
    """Return whether it is a directory; `Path.is_dir` raises on names that no file can have."""
    return os.path.isdir(path)  # noqa: PTH112


def _to_relative(found: bytes) -> str:
    return os.fsdecode(found).removeprefix("./")


def build_scope(
    workspace: Workspace,
    *,
    path: str,
    glob: str | None,
    granted: Grants = NO_GRANTS,
    names_glob: bool = False,
) -> SearchScope:
    """Build the scope; raise ToolError if the path is absent or outside, or the glob is invalid.

    With `names_glob`, rules have judged the glob as a path of the call, too."""
    located = workspace.locate(path, granted)
    found = workspace.stat(located)
    if found is None:
        raise workspace.build_missing_error(located)
    if not os.access(located.path, os.R_OK):
        raise ToolError(f"{located.given}: permission denied.")
    named = [located.path, *([located.path / glob] if glob and names_glob else [])]
    scope = _build_located(workspace, located, glob=glob, granted=granted, mode=found.st_mode)
    asks = workspace.asks_to_read
    return replace(scope, asks=lambda one: asks(one, named)) if asks else scope


def _build_located(
    workspace: Workspace, located: WorkspacePath, *, glob: str | None, granted: Grants, mode: int
) -> SearchScope:
    if stat.S_ISREG(mode):
        return _scope_file(workspace, located)
    if not stat.S_ISDIR(mode):
        raise ToolError(f"{located.given} is neither a file nor a directory.")
    try:
        if glob and len(glob) > GLOB_CHARS:
            raise globs.GlobError(f"it has more than {GLOB_CHARS:,} characters")
        return _scope_directory(workspace, located, glob=glob, granted=granted)
    except globs.GlobError as error:
        raise ToolError(
            f"{to_printable(glob or '')} is not a glob: {error}.", kind=ErrorKind.INVALID_INPUT
        ) from None


def _scope_file(workspace: Workspace, path: WorkspacePath) -> SearchScope:
    """Scope a file that was named directly: it is searched even if it is binary or ignored."""
    return SearchScope(
        where=path.given,
        root=path.root,
        cwd=path.path.parent,
        target=f"./{path.path.name}",
        prefix=_choose_prefix(path).removesuffix(f"{path.path.name}/"),
        arguments=("--no-ignore", "--text"),
        hides=workspace.hides,
    )


def _scope_directory(
    workspace: Workspace, path: WorkspacePath, *, glob: str | None, granted: Grants
) -> SearchScope:
    where = "the workspace" if path.path == workspace.root else path.given
    wanted: list[str] = []
    arguments: list[str] = []
    if glob and glob.startswith("!"):
        arguments += (f"--glob=!{one}" for one in _exclude(glob))
    elif glob:
        path, wanted = _narrow(workspace, path, glob=glob, granted=granted)
        arguments += _name_filter(wanted)
    rules: tuple[str, ...] = ()
    if workspace.is_work(path):
        outer = inherit_rules(path.path, workspace=path.root)
        if not outer.ignored:
            rules = tuple(
                rule.line
                for rule in (*read_global_rules(locate_home(), locate_config_home()), *outer.rules)
            )
        arguments += ["--no-ignore"] if outer.ignored else []
    else:
        arguments += ["--no-ignore", "--text"]
    pattern = "|".join(globs.translate_glob(one, also_literal=True) for one in wanted)
    return SearchScope(
        where=where,
        root=path.root,
        cwd=path.path,
        target=".",
        prefix=_choose_prefix(path),
        arguments=tuple(arguments),
        rules=rules,
        wanted=re.compile(pattern, re.DOTALL) if wanted else None,
        hides=workspace.hides,
    )


def _choose_prefix(path: WorkspacePath) -> str:
    """Return the prefix of paths below: relative in the workspace, absolute elsewhere."""
    return "" if path.name == "." else f"{path.name}/"


def _exclude(glob: str) -> list[str]:
    excluded = globs.expand_braces(glob.removeprefix("!").removeprefix("./"))
    for one in excluded:
        if not one.strip("/"):
            raise globs.GlobError("nothing stands after the !")
        globs.translate_glob(one)
    return excluded


def _narrow(
    workspace: Workspace, path: WorkspacePath, *, glob: str, granted: Grants
) -> tuple[WorkspacePath, list[str]]:
    """Return the deepest directory that the glob spells out, and the rest of the glob.

    A glob with a slash is relative to `path`; if that leads nowhere, to the workspace.
    """
    if glob.startswith(f"{workspace.root}/"):
        path, glob = workspace.locate("."), glob.removeprefix(f"{workspace.root}/")
    glob = glob.removeprefix("./").removeprefix("/")
    wanted = [
        one.split("/") for one in globs.expand_braces(glob + "**" if glob.endswith("/") else glob)
    ]
    if any(".." in components for components in wanted):
        raise globs.GlobError("it cannot go up with ..; set path instead")
    spelled = _find_leading(wanted)
    for base in (workspace.root / path.name, workspace.root) if spelled else ():
        inner = workspace.locate(str(base.joinpath(*spelled)), granted)
        if is_directory(inner.path) and inner.path.is_relative_to(path.path):
            path = inner
            wanted = [components[len(spelled) :] for components in wanted]
            break
    else:
        wanted = [one if len(one) > 1 else ["**", *one] for one in wanted]
    return path, ["/".join(components) for components in wanted]


def _find_leading(wanted: list[list[str]]) -> list[str]:
    """Return the leading directories, without wildcards, that all of the globs share."""
    shared: list[str] = []
    for names in zip(*(components[:-1] for components in wanted), strict=False):
        if len(set(names)) > 1 or not globs.is_literal(names[0]):
            break
        shared.append(names[0])
    return shared


def _name_filter(wanted: list[str]) -> list[str]:
    names = [globs.widen_glob(one.rpartition("/")[2]) for one in wanted]
    if "*" in names or any(name.startswith("include:") for name in names):
        return []
    return [*(f"--type-add={_TYPE}:{name}" for name in names), f"--type={_TYPE}"]
