"""Git's own small files: the directories they lead to, and the programs they can make git run."""

import os
import re
from collections import deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from agentcli.system.files import (
    expand_home,
    is_directory,
    is_file,
    is_link,
    locate_config_home,
    locate_home,
)
from agentcli.system.lazy import compile_later
from agentcli.system.repository import find_common_directory, find_git_directory
from agentcli.types.fast_dataclass import dataclass

_SMALL_FILE_CHARS = 64 * 1024


def read_small_text(path: Path) -> str:
    """Return the text of a small regular file, or "" for anything else."""
    if not is_file(path):
        return ""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            # No path has a NUL in it: git does not use what follows one either.
            return file.read(_SMALL_FILE_CHARS).partition("\0")[0]
    except OSError:
        return ""


# The repositories that an index names: git enters these by itself, wherever they lie.


_MOST_BYTES = 256 * 1024**2
_LINK = (0o160000).to_bytes(4, "big")
_MODE_AT = 24
_HASH_AT = 40
_HEADER_BYTES = 12
_ALIGNED_BYTES = 8
_EXTENDED = 0x4000
_COMPRESSED_VERSION = 4
_LONGEST_NUMBER_BYTES = 10
_LONGEST_PATH_BYTES = 4096
"""Longer paths are cut: each may build on the one before, and they would fill the memory."""
_IS_SHA256 = compile_later(r"^\s*(?:\[.*\]\s*)?objectformat\s*=\s*\"?sha256", re.I | re.M)


def find_gitlinks(git: Path) -> tuple[str, ...]:
    """Return the gitlinks in the index of a git directory, relative to the top of the worktree."""
    try:
        files = [path for path in (git / "index", *git.glob("sharedindex.*")) if is_file(path)]
        if not files:
            return ()
        is_sha256 = _IS_SHA256.search(read_small_text(find_common_directory(git) / "config"))
        hash_bytes = 32 if is_sha256 else 20
        return tuple(path for file in files for path in _read_links(file, hash_bytes))
    except OSError:
        return ()


def _read_links(file: Path, hash_bytes: int) -> tuple[str, ...]:
    found = file.stat()
    return _read_links_cached(
        file, hash_bytes, _stamp=(found.st_ino, found.st_size, found.st_ctime_ns)
    )


@lru_cache(maxsize=64)
def _read_links_cached(file: Path, hash_bytes: int, *, _stamp: tuple[int, ...]) -> tuple[str, ...]:
    """Read the links of an index, again only if the file changed: nobody can reset its ctime."""
    with file.open("rb") as opened:
        data = opened.read(_MOST_BYTES)
    version = int.from_bytes(data[4:8], "big")
    find = _read_compressed_links if version == _COMPRESSED_VERSION else _read_plain_links
    names = find(data, hash_bytes) if _LINK in data else ()
    return tuple(name.decode("utf-8", "surrogateescape") for name in names)


def _read_plain_links(data: bytes, hash_bytes: int) -> Iterator[bytes]:
    """Yield the links by their mode, without parsing other entries.

    Other bytes that look like a link yield a name that does not exist."""
    mode_at = data.find(_LINK, _HEADER_BYTES)
    while mode_at >= 0:
        entry_at = mode_at - _MODE_AT
        if (entry_at - _HEADER_BYTES) % _ALIGNED_BYTES == 0:
            name_at = _find_flags_end(data, entry_at + _HASH_AT + hash_bytes)
            yield data[name_at : name_at + _LONGEST_PATH_BYTES].partition(b"\0")[0]
        mode_at = data.find(_LINK, mode_at + 1)


def _read_compressed_links(data: bytes, hash_bytes: int) -> Iterator[bytes]:
    """Yield the links. Each name is stored as its difference from the one before."""
    at, name, length = _HEADER_BYTES, b"", 0
    while True:
        name_at = _find_flags_end(data, at + _HASH_AT + hash_bytes)
        dropped, name_at = _decode_number(data, name_at)
        end = data.find(b"\0", name_at)
        if end < 0:
            return
        same = max(0, length - dropped)
        length = same + end - name_at
        name = (name[:same] + data[name_at:end])[:_LONGEST_PATH_BYTES]
        if data[at + _MODE_AT : at + _HASH_AT].startswith(_LINK):
            yield name
        at = end + 1


def _find_flags_end(data: bytes, at: int) -> int:
    is_extended = int.from_bytes(data[at : at + 2], "big") & _EXTENDED
    return at + (4 if is_extended else 2)


def _decode_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a number of variable length, and the offset of its end."""
    number = 0
    for index in range(at, min(at + _LONGEST_NUMBER_BYTES, len(data))):
        byte = data[index]
        number = (number << 7) | (byte & 0x7F)
        if not byte & 0x80:
            return number, index + 1
        number += 1
    return 0, len(data)


# The paths that git's settings name: directories of hooks, and included settings.


Named: TypeAlias = tuple[Path, Literal["file", "directory"]]

_MOST_FILES = 64
_SYSTEM = Path("/etc/gitconfig")
# An entry may be on the line of its section, whose name may hold anything in quotes.
_REFERENCE = compile_later(
    r"""^[^\S\n]*(?:\[(?:"(?:\\.|[^"\\\n])*"|[^]"\n])*\][^\S\n]*)*"""
    r"""(hookspath|path)[^\S\n]*=[^\S\n]*"?([^"\n;#]+)""",
    re.IGNORECASE | re.MULTILINE,
)


def find_named_paths(git: Path, root: Path) -> Iterator[Named]:
    """Yield the paths by all settings that apply in `git`; `root` is the top of its worktree."""
    own = (git / "config", find_common_directory(git) / "config", git / "config.worktree")
    yield from _find_in_settings((*own, *_list_user_settings()), root)


def _find_in_settings(settings: Iterable[Path], root: Path) -> Iterator[Named]:
    seen: set[Path] = set()
    waiting = list(dict.fromkeys(settings))
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen.add(file)
        text = read_small_text(file)
        for key, value in _REFERENCE.findall(text) if text else ():
            if key.lower() == "hookspath":
                hooks = _resolve_path(value, root)
                # husky: the scripts in `_` only call those beside it
                yield hooks.parent if hooks.name == "_" else hooks, "directory"
            elif is_directory((included := _resolve_path(value, file.parent)).parent):
                yield included, "file"
                waiting.append(included)


def _resolve_path(value: str, base: Path) -> Path:
    named = value.strip()
    return Path(os.path.realpath(base / expand_home(named)))


def _list_user_settings() -> tuple[Path, ...]:
    """Return the settings files that apply to every repository."""
    instead = os.environ.get("GIT_CONFIG_GLOBAL")
    usual = (locate_home() / ".gitconfig", locate_config_home() / "git/config", _SYSTEM)
    return (*usual, Path(instead)) if instead else usual


# Repositories in the workspace: those that a search finds, and those that git itself enters.


BARE_NAMES = ("HEAD", "objects", "refs", "commondir")
"""The names by which git takes a directory for a repository: the first three, or first and last."""
SEARCH_DEPTH = 3
_SEARCH_DIRECTORIES = 2000
_NOT_SEARCHED = frozenset({"node_modules", ".git", ".venv", "venv", "__pycache__", "target"})


def find_repositories(workspace: Path, *, most_searched: int | None = None) -> Iterator[Path]:
    """Yield the workspace, repositories found by a short search, and all that git enters there."""
    found = (directory for directory, is_bare in _search(workspace) if not is_bare)
    yield from _follow_links(workspace, islice(found, most_searched))


def search_repositories(workspace: Path) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the same repositories, and those without a `.git`, of one search."""
    found = tuple(_search(workspace))
    tops = (directory for directory, is_bare in found if not is_bare)
    return (
        tuple(_follow_links(workspace, tops)),
        tuple(directory for directory, is_bare in found if is_bare),
    )


def _follow_links(workspace: Path, found: Iterable[Path]) -> Iterator[Path]:
    seen: set[Path] = set()
    waiting = deque([workspace, *found])
    while waiting:
        root = waiting.popleft()
        if root not in seen:
            seen.add(root)
            yield root
            waiting += _find_linked(root, workspace)


def _find_linked(root: Path, workspace: Path) -> Iterator[Path]:
    git = find_git_directory(root / ".git")
    for name in find_gitlinks(git) if git else ():
        if os.path.lexists(root / name / ".git"):
            linked = Path(os.path.realpath(root / name))
            if linked.is_relative_to(workspace):
                yield linked


def _search(workspace: Path) -> Iterator[tuple[Path, bool]]:
    """Yield repositories below the workspace. True stands for one without a `.git`, which may also
    be the workspace itself."""
    for directory, entries in search_directories(workspace, but=_NOT_SEARCHED):
        names = {entry.name for entry in entries}
        if ".git" in names and directory != workspace and _leads_somewhere(directory / ".git"):
            yield directory, False
        if "HEAD" in names and ("commondir" in names or names.issuperset(BARE_NAMES[:3])):
            yield directory, True


def search_directories(
    top: Path, *, but: Container[str] = ()
) -> Iterator[tuple[Path, list["os.DirEntry[str]"]]]:
    """Yield a directory and those not far below it, each with its entries; none of the names `but`.

    Links are not followed."""
    waiting = deque([(top, 0)])
    for _ in range(_SEARCH_DIRECTORIES):
        if not waiting:
            return
        directory, depth = waiting.popleft()
        with suppress(OSError):
            with os.scandir(directory) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
            yield directory, entries
            if depth < SEARCH_DEPTH:
                below = (entry for entry in entries if entry.is_dir(follow_symlinks=False))
                waiting += ((Path(one.path), depth + 1) for one in below if one.name not in but)


def _leads_somewhere(git: Path) -> bool:
    """Return whether git may take it for a repository. Others must not use up the search limit."""
    real = find_git_directory(git)
    return is_link(git) if real is None else os.path.lexists(real / "HEAD")


# Settings that can make git run, include or fetch anything: all but those known to be harmless,
# which are what git writes itself, who commits, where to push, and how to merge.


_NEUTRAL = compile_later(r"\s*([#;].*)?")
_SECTION = compile_later(r'\s*\[([a-z]+)(?: "([^"\\\x00-\x1f]+)")?\]\s*')
_ENTRY = compile_later(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(\S.*?)\s*")

_HARMLESS: Mapping[str, Sequence[str]] = {
    "core": (
        *("abbrev", "autocrlf", "bare", "checkstat", "eol", "filemode", "ignorecase", "longpaths"),
        *("logallrefupdates", "precomposeunicode", "quotepath", "repositoryformatversion"),
        *("safecrlf", "sharedrepository", "sparsecheckout", "sparsecheckoutcone", "symlinks"),
        *("trustctime", "untrackedcache", "whitespace"),
    ),
    "user": ("name", "email"),
    "init": ("defaultbranch",),
    "extensions": ("objectformat", "refstorage", "worktreeconfig"),
    "remote NAME": ("fetch", "url", "pushurl", "tagopt", "prune", "mirror", "gh-resolved"),
    "remote": ("pushdefault",),
    "branch NAME": ("merge", "remote", "pushremote", "rebase", "description"),
    "branch": ("autosetupmerge", "autosetuprebase"),
    "submodule NAME": ("active", "url", "branch", "ignore"),
    "submodule": ("active",),
    "pull": ("rebase", "ff"),
    "push": ("default", "autosetupremote", "followtags"),
    "fetch": ("prune", "prunetags"),
    "receive": ("denynonfastforwards", "denydeletes", "denycurrentbranch"),
    "merge": ("ff", "conflictstyle"),
    "rebase": ("autostash", "autosquash"),
    "rerere": ("enabled", "autoupdate"),
    "lfs": ("repositoryformatversion",),
    "color": ("ui",),
}
"""Keys by section, where NAME is any subsection."""
_ADDRESSES = ("url", "pushurl")
_REMOTES = ("remote", "pushremote", "pushdefault")
_THIS_REPOSITORY = "."
_FETCHED_BY_GIT_ITSELF = compile_later(
    r"((https?|ssh|git)://[\w.@-]+(:\d+)?/|git@[\w.-]+[:/])[\w./~-]*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SettingsLine:
    text: str
    header: str
    """The line with its section."""
    section: str
    """A key of `_HARMLESS`, or empty."""
    name: str
    """The subsection."""
    is_continuation: bool

    @property
    def entry(self) -> tuple[str, str]:
        """The key in lower case, and the value."""
        found = _ENTRY.fullmatch(self.text)
        return (found[1].lower(), found[2]) if found else ("", "")


def list_risky_lines(text: str) -> list[tuple[str, str]]:
    """Return all lines that are not known to be harmless, each with its section header."""
    return [(one.header, one.text) for one, is_harmless in _judge_lines(text) if not is_harmless]


def remove_risky_lines(text: str) -> str:
    """Return the lines that are known to be harmless; empty if no setting is among them."""
    while list_risky_lines(text):  # again, since a line may name a remote that has just gone
        text = "\n".join(one.text for one, is_harmless in _judge_lines(text) if is_harmless)
    return text if any(one.entry[0] for one in _iter_lines(text)) else ""


def _judge_lines(text: str) -> list[tuple[_SettingsLine, bool]]:
    """Return the lines, and whether each is known to be harmless."""
    lines = tuple(_iter_lines(text))
    named = (one for one in lines if one.section == "remote NAME" and one.entry[0] == "url")
    # Git takes a remote without an address for the path of a repository, and runs its hooks.
    remotes = frozenset((*(one.name for one in named), _THIS_REPOSITORY))
    return [(one, _is_harmless_line(one, remotes)) for one in lines]


def _iter_lines(text: str) -> Iterator[_SettingsLine]:
    header, section, name, is_continuation = "", "", "", False
    for line in text.split("\n"):
        if line.lstrip().startswith("["):
            known = None if is_continuation else _SECTION.fullmatch(line)
            header, name = line, (known[2] or "") if known else ""
            section = f"{known[1]} NAME" if known and name else known[1] if known else ""
        yield _SettingsLine(
            text=line,
            header=header,
            section=section if section in _HARMLESS else "",
            name=name,
            is_continuation=is_continuation,
        )
        is_continuation = line.endswith("\\")


def _is_harmless_line(line: _SettingsLine, remotes: Collection[str]) -> bool:
    if line.is_continuation:
        return False
    is_header = bool(line.section) and line.text == line.header
    return is_header or bool(_NEUTRAL.fullmatch(line.text)) or _is_harmless_entry(line, remotes)


def _is_harmless_entry(line: _SettingsLine, remotes: Collection[str]) -> bool:
    key, value = line.entry
    if key not in _HARMLESS.get(line.section, ()) or line.text.endswith("\\"):
        return False
    if key in _ADDRESSES:
        return _FETCHED_BY_GIT_ITSELF.fullmatch(value) is not None
    return key not in _REMOTES or value in remotes
