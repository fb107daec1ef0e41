"""The files of a directory tree in path order, less what ignore rules leave out.

Hidden files are included, links are not followed, and what cannot be read is passed over: the same
files, in the same order, as ripgrep visits.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.tools.searching.ignore import IGNORE_FILES, Rule, excluded_by_git, rules_in, verdict

_GITIGNORE = IGNORE_FILES[0]
_EXCLUDE = "exclude"
_KINDS = (*reversed(IGNORE_FILES), _EXCLUDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """A directory that is being walked, and its rules."""

    prefix: bytes
    """How the paths of its files begin."""
    is_repository: bool
    rules: dict[str, tuple[Rule, ...]]
    entries: Iterator[os.DirEntry[bytes]]


class Walk:
    def __init__(
        self,
        *,
        excluded: Sequence[Rule] = (),
        reads_ignore_files: bool = True,
        rules: Sequence[Rule] = (),
    ) -> None:
        """By precedence: `excluded`, then the ignore files found on the way, then `rules`."""
        self._excluded = excluded
        self._reads_ignore_files = reads_ignore_files
        self._rules = rules
        self._layers: list[_Layer] = []

    def files(self, directory: bytes = b".") -> Iterator[bytes]:
        """Paths relative to `directory`, with slashes."""
        self._layers = [self._entered(directory, b"")]
        while self._layers:
            layer = self._layers[-1]
            entry = next(layer.entries, None)
            if entry is None:
                self._layers.pop()
                continue
            path = layer.prefix + entry.name
            is_dir = entry.is_dir(follow_symlinks=False)
            if self._leaves_out(path, is_dir=is_dir):
                continue
            if is_dir:
                self._layers.append(self._entered(entry.path, path + b"/"))
            elif entry.is_file(follow_symlinks=False):
                yield path

    def _entered(self, directory: bytes, prefix: bytes) -> _Layer:
        try:
            with os.scandir(directory) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            entries = []
        names = {entry.name for entry in entries} if self._reads_ignore_files else set()
        here = Path(os.fsdecode(directory))
        rules = {kind: rules_in(here / kind) for kind in IGNORE_FILES if kind.encode() in names}
        is_repository = b".git" in names
        if is_repository:
            rules[_EXCLUDE] = excluded_by_git(here)
        return _Layer(
            prefix=prefix, is_repository=is_repository, rules=rules, entries=iter(entries)
        )

    def _leaves_out(self, path: bytes, *, is_dir: bool) -> bool:
        found = verdict(self._excluded, path, is_dir=is_dir)
        for kind in _KINDS:
            if found is None:
                found = self._nearest(kind, path, is_dir=is_dir)
        if found is None:
            found = verdict(self._rules, path, is_dir=is_dir)
        return bool(found)

    def _nearest(self, kind: str, path: bytes, *, is_dir: bool) -> bool | None:
        """The verdict of the deepest directory that has one; git's own stop at its repository."""
        for layer in reversed(self._layers):
            rules = layer.rules.get(kind, ())
            found = verdict(rules, path[len(layer.prefix) :], is_dir=is_dir)
            if found is not None:
                return found
            if layer.is_repository and kind in (_GITIGNORE, _EXCLUDE):
                return None
        return None
