"""Matching of path patterns character by character, in bounded time.

A repository's rules are used without trust, and a regular expression with many wildcards can take
forever on a crafted name. This takes at most time proportional to pattern length times name length.
"""

import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from agentcli.system.files import expand_home
from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

ANY_FOLDERS = "**/"
ANYTHING = "**"
IN_A_NAME = "*"

_State = tuple[int, bool]
"""The number of steps done, and whether the match is inside a folder's name."""


@dataclass(frozen=True, slots=True)
class GlobStep:
    token: str
    one: re.Pattern[str] | None
    """The pattern of the one character it takes; None for the wildcards of any length."""


def is_matched(steps: Sequence[GlobStep], name: str, *, or_folder: bool = False) -> bool:
    """Return whether the whole name matches, or with `or_folder` a folder that it begins with."""
    states = _close_states(steps, [(0, False)])
    for index, char in enumerate(name):
        if or_folder and index and char == "/" and (len(steps), False) in states:
            return True
        states = _close_states(
            steps, (after for state in states for after in _advance(steps, state, char=char))
        )
        if not states:
            return False
    return (len(steps), False) in states


def _close_states(steps: Sequence[GlobStep], states: Iterable[_State]) -> set[_State]:
    """Add all states that are reached if wildcards are empty."""
    reached: set[_State] = set()
    for done, inside in states:
        reached.add((done, inside))
        while not inside and done < len(steps) and steps[done].one is None:
            done += 1
            if (done, False) in reached:
                break
            reached.add((done, False))
    return reached


def _advance(steps: Sequence[GlobStep], state: _State, *, char: str) -> list[_State]:
    done, inside = state
    if done == len(steps):
        return []
    step = steps[done]
    if step.one is not None:
        return [(done + 1, False)] if step.one.fullmatch(char) else []
    if step.token == ANYTHING:
        return [state]
    if step.token == IN_A_NAME:
        return [] if char == "/" else [state]
    if char == "/":
        return [(done, False)] if inside else []
    return [(done, True)]


# Path patterns of rules: `src/**`, `**/.env*`, `*.md`


FEW_WILDCARDS = 2
FEW_FOLDERS = 30
LONGEST_CHARS = 4096
"""The longest path that a system knows. A longer one is nowhere, and every denial touches it."""

Matches: TypeAlias = Callable[[str], bool]

_WILDCARDS = (ANY_FOLDERS, ANYTHING, IN_A_NAME)
_REPEATED = compile_later(r"(\*\*/)(?:\*\*/)+|(\*\*)\*+(?![/*])")
_TOKEN = compile_later(r"\*\*/|\*\*|\*|\?|\[[!^]?[^\]/]+\]|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PathPattern:
    glob: str
    """The whole pattern, with `**/` in front if it holds at any depth."""

    @staticmethod
    def parse(text: str) -> "PathPattern":
        """Parse a pattern. Raise ValueError whose message is the end of a sentence."""
        glob = text.strip()
        if glob.startswith("~/"):
            glob = expand_home(glob).as_posix()
        if not glob or glob in (".", "/"):
            raise ValueError("the path is empty; leave out the brackets to match every path")
        if re.search(r"[{}\\]", glob):
            raise ValueError("paths cannot contain braces or backslashes; write two rules")
        if ".." in glob.split("/"):
            raise ValueError("paths cannot contain ..; write the path from the workspace root")
        holds_anywhere = "/" not in glob.rstrip("/") and glob != "**"
        whole = f"{glob}**" if glob.endswith("/") else glob
        return PathPattern(f"**/{whole}" if holds_anywhere else whole.removeprefix("./"))

    @property
    def literal(self) -> str:
        """The one path that the pattern names, perhaps with all below it; empty if it has more."""
        whole = self.glob.removesuffix("/**")
        return "" if re.search(r"[*?\[]", whole) else whole

    def move(self, old: Path, new: Path) -> "PathPattern | None":
        """Return the pattern for a copy of a directory; None if it is not only about what is in it.

        `old` is a real path. The pattern may be written with links."""
        fixed = self.literal or str(self.find_start(Path()))
        real, rest = Path(os.path.realpath(fixed)), self.glob.removeprefix(fixed)
        is_about_all = real == old and rest in ("", "/**")
        if is_about_all or not self.glob.startswith("/") or not real.is_relative_to(old):
            return None
        return PathPattern(f"{new / real.relative_to(old)}{rest}")

    def find_start(self, root: Path) -> Path:
        """Return the directory below which everything lies that the pattern can match."""
        if not self.glob.startswith("/"):
            return root
        fixed = re.split(r"[*?\[]", self.glob, maxsplit=1)[0]
        return Path(fixed.rpartition("/")[0] or "/")

    def covers(self, path: Path, root: Path) -> bool:
        """Return whether the path matches strictly. For allow rules."""
        name = self._spell_path(path, root)
        return name is not None and len(name) <= LONGEST_CHARS and _compile_strict(self.glob)(name)

    def covers_all_below(self, path: Path, root: Path) -> bool:
        """Return whether all below the path matches strictly, so that it can be searched."""
        folder = self.glob.removesuffix("/**")
        return folder != self.glob and PathPattern(folder).covers(path, root)

    def touches(self, path: Path, root: Path) -> bool:
        """Return whether the path or a folder above it matches, ignoring case. For ask and deny."""
        name = self._spell_path(path, root)
        if name is None and self.glob.startswith("**"):
            name = _normalize(path.as_posix()).lstrip("/")
        if name is None:
            return False
        if len(name) > LONGEST_CHARS:
            return True
        if name.count("/") > FEW_FOLDERS:
            return any(
                is_matched(one, name, or_folder=True) for one in _parse_wide_steps(self.glob)
            )
        return any(map(_compile_wide(self.glob), _with_folders(name)))

    def matches_widely(self, path: Path, root: Path) -> bool:
        """Return whether the path itself matches, ignoring case."""
        name = self._spell_path(path, root)
        return name is not None and len(name) <= LONGEST_CHARS and _compile_wide(self.glob)(name)

    def _spell_path(self, path: Path, root: Path) -> str | None:
        """Return the path as this pattern sees it: absolute, or relative to the root.

        None if the pattern is relative and the path is not below the root.
        """
        whole, base = path.as_posix(), root.as_posix().rstrip("/")
        if self.glob.startswith("/"):
            return _normalize(whole)
        if whole == base:
            return "."
        return _normalize(whole[len(base) + 1 :]) if whole.startswith(f"{base}/") else None


def _with_folders(name: str) -> Iterator[str]:
    """Yield `a`, `a/b` and `a/b/c` for `a/b/c`."""
    slash = name.find("/", 1)
    while slash >= 0:
        yield name[:slash]
        slash = name.find("/", slash + 1)
    yield name


@lru_cache(maxsize=512)
def _compile_strict(glob: str) -> Matches:
    return _compile_matcher(glob, re.NOFLAG)


@lru_cache(maxsize=512)
def _compile_wide(glob: str) -> Matches:
    itself, folder = (_compile_matcher(one, re.IGNORECASE) for one in _list_wide(glob))
    return lambda name: itself(name) or folder(name)


@lru_cache(maxsize=512)
def _parse_wide_steps(glob: str) -> list[list[GlobStep]]:
    return [_parse_steps(_parse_tokens(one), re.IGNORECASE) for one in _list_wide(glob)]


def _list_wide(glob: str) -> tuple[str, str]:
    # What is below a folder is out of reach only if the folder itself is, so match that, too.
    return glob, glob.removesuffix("/**")


def _compile_matcher(glob: str, flags: re.RegexFlag) -> Matches:
    """Return a matcher for the glob: a regular expression, unless that could take forever."""
    tokens = _parse_tokens(glob)
    if sum(token in _WILDCARDS for token in tokens) <= FEW_WILDCARDS:
        expression = re.compile("".join(map(_translate_token, tokens)), flags)
        return lambda name: expression.fullmatch(name) is not None
    steps = _parse_steps(tokens, flags)
    return lambda name: is_matched(steps, name)


def _parse_tokens(glob: str) -> list[str]:
    return _TOKEN.findall(_REPEATED.sub(r"\1\2", _normalize(glob)))


def _parse_steps(tokens: Sequence[str], flags: re.RegexFlag) -> list[GlobStep]:
    return [
        GlobStep(token, None if token in _WILDCARDS else re.compile(_translate_token(token), flags))
        for token in tokens
    ]


def _normalize(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _translate_token(token: str) -> str:
    match token:
        case "**/":
            return "(?:[^/]+/)*"
        case "**":
            return r"[\s\S]*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
        case _ if len(token) > 1:
            negated = token[1] in "!^"
            members = re.escape(token[2 if negated else 1 : -1]).replace(r"\-", "-")
            return f"(?!/)[{'^' if negated else ''}{members}]"
    return re.escape(token)
