"""The check that git, called in a directory, runs no other program.

A repository can name programs for git to run: a file system monitor, filters, external diffs,
hooks. Its configuration may come from whoever made the workspace. So it is checked against an
allow-list of keys, and a repository that sets anything else is not inert. The user's own global
configuration is theirs to decide; commands in a sandbox have a different one.
"""

import os
from functools import lru_cache
from pathlib import Path

from agentcli.permissions.reader_options import split_names
from agentcli.system.git_pointers import find_common_directory, find_git_directory
from agentcli.system.lazy import compile_later

_BLANKS = " \t"
"""The characters that git takes for blanks in a line. Others are part of a name or a value."""
_ODD_CHARACTER = compile_later(r"[^\t\n\x20-\x7e\xa0-\U0010ffff]")
_SECTION = compile_later(r'\[[ \t]*([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\]|\\.)*)")?[ \t]*\]')
_ENTRY = compile_later(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?")

_INERT_KEYS = {
    "core": split_names(
        """repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode
        symlinks autocrlf eol safecrlf quotepath abbrev sparsecheckout sparsecheckoutcone longpaths
        protecthfs protectntfs untrackedcache preloadindex fscache commentchar compression editor
        sharedrepository hidedotfiles pager whitespace hookspath fsmonitor trustctime checkstat"""
    ),
    "remote": split_names("url fetch pushurl push tagopt prune mirror"),
    "submodule": split_names("url active branch ignore"),
    "extensions": split_names("objectformat refstorage worktreeconfig"),
    "diff": split_names("renames algorithm mnemonicprefix colormoved noprefix"),
    "log": split_names("date decorate abbrevcommit follow"),
    "lfs": split_names("repositoryformatversion"),
    "status": split_names(
        "showuntrackedfiles short branch showstash relativepaths aheadbehind renames renamelimit"
    ),
    "http": split_names("extraheader postbuffer version sslverify"),
}
"""Keys by section that name no program and include no other file."""

_OF_A_USER = (".gitconfig", ".config/git/config")

_INERT_SECTIONS = split_names(
    """advice alias branch color commit credential fetch gc gui index init maintenance merge pack
    pull push rebase receive rerere safe tag transfer user"""
)
"""Sections whose settings have no effect on reading."""

_LFS_FILTER = compile_later(r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?|true")
_PLAIN_PATH = compile_later(r"[A-Za-z0-9_./-]+")
_SUBMODULE_MODE = b"\x00\x00\xe0\x00"
_SHARED_INDEX = "sharedindex.*"
"""The other part of a split index."""
_SPARSE = b"sdir\0\0\0\0"
"""In an index that leaves directories out: what is in them, git finds out while it reads."""
_LARGEST_FILE_BYTES = 50_000_000


class _Runs(Exception):
    """Something that may run a program; the message names it."""


def why_not_inert(directory: Path, *, home: Path | None = None) -> str | None:
    """Return what in the repository around `directory` may make git run a program, or None.

    `home` is a home directory whose git settings commands can change."""
    try:
        for name in _OF_A_USER if home else ():
            if home and _check_settings(_read_bytes(home / name)):
                raise _Runs("a command has set core.hooksPath for every repository")
        found = _find_git_directory(directory.resolve())
        if found is not None:
            _check_repository(*found)
    except _Runs as runs:
        return str(runs)
    except (OSError, RuntimeError) as error:
        return f"the repository cannot be read ({error})"
    return None


def _has_submodules(index: Path) -> bool:
    try:
        found = index.stat()
    except FileNotFoundError:
        return False
    stamp = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return _names_submodules(index, stamp)


@lru_cache(maxsize=8)
def _names_submodules(index: Path, stamp: tuple[int, ...]) -> bool:
    """Return whether the index may list submodules.

    Cached, since a large index is slow to read and every git command line asks. The bytes of a
    submodule's mode may occur elsewhere by chance; that costs only one question."""
    content = _read_bytes(index)
    return _SUBMODULE_MODE in content or _SPARSE in content


def _check_repository(worktree: Path, own: Path, shared: Path) -> None:
    named = (
        _check_settings(_read_bytes(shared / "config")),
        _check_settings(_read_bytes(own / "config.worktree")),
    )
    for hooks in (shared / "hooks", *(worktree / path for path in named if path)):
        if (hooks / "post-index-change").exists():
            raise _Runs("the repository has a post-index-change hook")
    if any(map(_has_submodules, (own / "index", *own.glob(_SHARED_INDEX)))):
        raise _Runs("the repository has submodules, and git also reads their configuration")


def _find_git_directory(directory: Path) -> tuple[Path, Path, Path] | None:
    """Return the working tree, its git directory, and the one shared with other working trees.

    Raise _Runs if git may see another one than we do."""
    for folder in (directory, *directory.parents):
        git = folder / ".git"
        if os.path.lexists(git):
            own = find_git_directory(git)
            if own is None or not _looks_like_git(own):
                raise _Runs(f"the .git in {folder.name} is no git directory")
            return folder, own, find_common_directory(own)
        if _looks_like_git(folder):
            # Any folder can look like this, and git would use its configuration.
            raise _Runs(f"{folder.name} looks like a git directory")
    return None


def _looks_like_git(folder: Path) -> bool:
    """Return whether git may take a folder for a git directory: it also looks at the content."""
    has_head, *others = (
        os.path.lexists(folder / name) for name in ("HEAD", "objects", "commondir")
    )
    return has_head and any(others)


def _read_bytes(path: Path) -> bytes:
    if not path.exists():
        return b""
    if not path.is_file() or path.stat().st_size > _LARGEST_FILE_BYTES:
        raise _Runs(f"the repository's {path.name} is not a regular file")
    return path.read_bytes()


def _check_settings(content: bytes) -> str:
    """Raise _Runs if a setting may run a program. Return the hooks directory if one is set."""
    section, hooks = "", ""
    text = content.decode("utf-8", errors="replace").replace("\r\n", "\n")
    if _ODD_CHARACTER.search(text):
        raise _Runs("the repository's configuration has control characters")
    for line in (line.strip(_BLANKS) for line in text.split("\n")):
        if header := _SECTION.match(line):
            section = header[1].lower() + (f" {header[2]}" if header[2] is not None else "")
            line = line[header.end() :].strip(_BLANKS)
        if not line or line[0] in "#;":
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None or line.endswith("\\"):
            raise _Runs("the repository's configuration cannot be parsed")
        key, value = entry[1].lower(), entry[2] or ""
        if not _is_inert(section, key, value=value):
            raise _Runs(f"the repository sets {section}.{key}")
        if (section, key) == ("core", "hookspath"):
            hooks = value
    return hooks


def _is_inert(section: str, key: str, *, value: str) -> bool:
    """`section` is its name, and its subsection after a blank."""
    name, _, _ = section.partition(" ")
    match name, key:
        case "core", "fsmonitor":
            return value.lower() == "false"
        case "core", "hookspath":
            return _PLAIN_PATH.fullmatch(value) is not None
        case "filter", _:
            return _LFS_FILTER.fullmatch(value) is not None
    return name in _INERT_SECTIONS or key in _INERT_KEYS.get(name, ())
