"""The rules of .gitignore and similar files: the paths that searches and checkpoints leave out.

Lines are read as ripgrep reads them. A rule is stored as the components of its glob, relative to
its directory. So it can be carried down into a directory below: `/src/*.log` means `/*.log` for the
files in src.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path

from agentcli.system.agent_files import list_levels
from agentcli.system.files import is_pipe, locate_config_home, locate_home, read_regular
from agentcli.system.git import list_paths
from agentcli.system.lazy import compile_later
from agentcli.system.repository import find_common_directory, find_git_directory
from agentcli.tools.search import globs
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass

IGNORE_FILES = (".gitignore", ".ignore", ".rgignore")
"""The ignore files of a directory; a later kind overrides an earlier one."""

SIZE_LIMIT_BYTES = 250_000
FOLDERS_LIMIT = 20_000

_EXCLUDES_FILE = compile_later(r'(?im)^\s*excludesfile\s*=\s*"?\s*(\S+?)\s*"?\s*$')


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    components: tuple[str, ...]
    keeps: bool
    """True for a `!` rule: the paths that it matches are not left out."""
    directories_only: bool
    needed: bytes
    """A text that a matching path must contain; it avoids the regular expression for most paths."""

    @property
    def line(self) -> str:
        """The rule as a line of an ignore file."""
        sign = "!/" if self.keeps else "/"
        return sign + "/".join(self.components) + ("/" if self.directories_only else "")

    def matches(self, path: bytes, *, is_dir: bool) -> bool:
        if self.needed not in path or (self.directories_only and not is_dir):
            return False
        return globs.compile_glob("/".join(self.components)).fullmatch(path) is not None

    def iter_inner_rules(self, name: bytes) -> Iterable["IgnoreRule"]:
        """Yield what remains of the rule for the paths inside the directory `name`."""
        head, *rest = self.components
        if head == "**":
            yield self
            if rest:
                yield from replace(self, components=tuple(rest)).iter_inner_rules(name)
        elif rest and globs.compile_glob(head).fullmatch(name):
            yield replace(self, components=tuple(rest))


def judge_path(rules: Sequence[IgnoreRule], path: bytes, *, is_dir: bool) -> bool | None:
    """Return whether the last matching rule leaves the path out; None if none matches."""
    for rule in reversed(rules):
        if rule.matches(path, is_dir=is_dir):
            return not rule.keeps
    return None


def parse_rules(line: str) -> tuple[IgnoreRule, ...]:
    """Return the rules of a line: none for a comment or an invalid glob, several for braces."""
    if line.startswith("#"):
        return ()
    text = line if line.endswith("\\ ") else line.rstrip()
    keeps = text.startswith("!")
    text = text.removeprefix("!")
    if not keeps and text.startswith(("\\!", "\\#")):
        text = text[1:]
    anchored = text.startswith("/")
    body = text.removeprefix("/").removesuffix("/")
    if not body:
        return ()
    try:
        return tuple(
            _build_rule(glob, anchored=anchored, keeps=keeps, directories_only=text.endswith("/"))
            for glob in globs.expand_braces(body)
        )
    except globs.GlobError:
        return ()


def _build_rule(glob: str, *, anchored: bool, keeps: bool, directories_only: bool) -> IgnoreRule:
    components = glob.split("/")
    if not anchored and len(components) == 1 and glob != "**":
        components = ["**", glob]
    if len(components) > 1 and components[-1] == "**":
        components.append("*")  # everything in the directory, but not the directory itself
    globs.translate_glob("/".join(components))  # raises for an invalid glob
    return IgnoreRule(
        tuple(components), keeps, directories_only, globs.find_literal_part(components[-1]).encode()
    )


def read_rules(path: Path) -> tuple[IgnoreRule, ...]:
    """Return the rules in a file, up to a line that is not UTF-8; none if there is no such file."""
    rules: list[IgnoreRule] = []
    for line in _read(path).split(b"\n"):
        try:
            rules += parse_rules(line.decode())
        except UnicodeDecodeError:
            break
    return tuple(rules)


def read_git_excludes(directory: Path) -> tuple[IgnoreRule, ...]:
    """Return the rules in `info/exclude` of a repository, also if `directory` is a worktree."""
    git = find_git_directory(directory / ".git")
    return read_rules(find_common_directory(git) / "info" / "exclude") if git else ()


def _is_there(path: Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - the method of Path raises if it may not look


def _read(path: Path) -> bytes:
    """Read a small file; return nothing if it cannot be read or is not a regular file."""
    try:
        return read_regular(path, SIZE_LIMIT_BYTES)
    except OSError:
        return b""


def find_pipe(directory: Path) -> Path | None:
    """Return a pipe in place of an ignore file, in a directory or in those above and below it.

    ripgrep waits for whoever would write to it."""
    below = (Path(folder) for folder, _, _ in islice(os.walk(directory), FOLDERS_LIMIT))
    return next(
        (
            path
            for folder in chain(directory.parents, below)
            for path in (*map(folder.joinpath, IGNORE_FILES), folder / ".git/info/exclude")
            if is_pipe(path)
        ),
        None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InheritedRules:
    """The rules of the directories above a directory."""

    ignored: bool
    """True if one of them leaves the directory out."""
    rules: tuple[IgnoreRule, ...]
    """The rules for the paths in it, the least important first."""


def inherit_rules(directory: Path, *, workspace: Path) -> InheritedRules:
    """Follow the rules from the root of the file system down to `directory`.

    Git rules do not reach into another repository. Rules from outside the workspace that would
    leave out the whole workspace do not count.
    """
    by_git: list[IgnoreRule] = []
    by_hand: list[IgnoreRule] = []
    ignored = False
    steps = [*reversed(directory.parents), directory]
    for above, below in pairwise(steps):
        if _is_there(above / ".git"):
            by_git = [*read_git_excludes(above)]
        by_git += read_rules(above / ".gitignore")
        for kind in IGNORE_FILES[1:]:
            by_hand += read_rules(above / kind)
        name = below.name.encode("utf-8", "surrogateescape")
        ignored = ignored or bool(judge_path([*by_git, *by_hand], name, is_dir=True))
        by_git = [rest for rule in by_git for rest in rule.iter_inner_rules(name)]
        by_hand = [rest for rule in by_hand for rest in rule.iter_inner_rules(name)]
        if ignored and below == workspace:
            by_git, by_hand, ignored = [], [], False
    if _is_there(directory / ".git"):
        by_git = [*read_git_excludes(directory)]
    return InheritedRules(ignored=ignored, rules=(*by_git, *by_hand))


def read_global_rules(user: Path, config: Path) -> tuple[IgnoreRule, ...]:
    """Return the user's rules for all repositories: `core.excludesFile` of git."""
    for settings in (user / ".gitconfig", config / "git" / "config"):
        found = _EXCLUDES_FILE.search(os.fsdecode(_read(settings)))
        if found:
            return read_rules(Path(found[1].replace("~", str(user), 1)))
    return read_rules(config / "git" / "ignore")


# Git's rules alone, directory by directory: the files that a checkpoint leaves out


class TrackedFiles:
    """The files of a repository that git tracks though a rule matches them: it ignores none."""

    def __init__(self, directory: Path) -> None:
        """`directory` is in the repository."""
        self._directory = directory

    def has(self, path: Path, *, is_dir: bool) -> bool:
        """Return whether it is one of them, or a directory with one of them below it."""
        return str(path) in self._paths[is_dir]

    @cached_property
    def _paths(self) -> tuple[frozenset[str], frozenset[str]]:
        """The files, and the directories that they are in."""
        if not _is_there(list_levels(self._directory)[-1] / ".git"):
            return frozenset(), frozenset()
        try:
            names = list_paths("--cached", "--ignored", "--exclude-standard", cwd=self._directory)
        except SettingsError:  # git does not run here: nothing can be tracked by it either
            return frozenset(), frozenset()
        files = [self._directory / name for name in names]
        return (
            frozenset(map(str, files)),
            frozenset(str(above) for file in files for above in file.parents),
        )


class IgnoreRules:
    """The rules that apply in one directory, the least important first."""

    def __init__(
        self,
        directory: Path,
        rules: Sequence[IgnoreRule],
        *,
        tracked: TrackedFiles,
        is_ignored: bool = False,
    ) -> None:
        """`is_ignored` is true if a rule leaves out the directory, for all but tracked files."""
        self._directory = directory
        self._rules = rules
        self._tracked = tracked
        self._is_ignored = is_ignored

    @classmethod
    def for_workspace(cls, workspace: Path) -> "IgnoreRules":
        everywhere = read_global_rules(locate_home(), locate_config_home())
        above = inherit_rules(workspace, workspace=workspace).rules
        rules = (*everywhere, *above, *_read_git_rules(workspace))
        return cls(workspace, rules, tracked=TrackedFiles(workspace))

    def ignores(self, name: bytes, *, is_dir: bool) -> bool:
        is_matched = self._matches(name, is_dir=is_dir)
        path = self._directory / os.fsdecode(name)
        return is_matched and not self._tracked.has(path, is_dir=is_dir)

    def enter(self, name: bytes) -> "IgnoreRules":
        directory = self._directory / os.fsdecode(name)
        carried = [rest for rule in self._rules for rest in rule.iter_inner_rules(name)]
        return IgnoreRules(
            directory,
            (*carried, *_read_git_rules(directory)),
            tracked=TrackedFiles(directory) if _is_there(directory / ".git") else self._tracked,
            is_ignored=self._matches(name, is_dir=True),
        )

    def _matches(self, name: bytes, *, is_dir: bool) -> bool:
        return self._is_ignored or bool(judge_path(self._rules, name, is_dir=is_dir))


def _read_git_rules(directory: Path) -> tuple[IgnoreRule, ...]:
    excludes = read_git_excludes(directory) if _is_there(directory / ".git") else ()
    return (*excludes, *read_rules(directory / ".gitignore"))
