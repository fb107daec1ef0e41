"""The forms of git that only read.

Left out on purpose: what merges (`--diff-merges=remerge` runs merge drivers) and what enters
submodules, whose settings are their own (`--submodule=diff`, `--recurse-submodules`).

Git itself runs programs that a repository's configuration names, whatever the command.
The second half checks whether a repository has any.
"""

import os
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise, takewhile
from pathlib import Path

from agentcli.permissions.reader_options import (
    ReaderOptions,
    Unproven,
    refuse_globs,
    refuse_unsafe_globs,
    split_names,
)
from agentcli.permissions.shell import ShellWord
from agentcli.system.lazy import compile_later
from agentcli.system.repository import find_common_directory, find_git_directory

_DIFF = """-# -pusqzaRwbWBD -U: -S: -G: -M? -C? --patch --no-patch --unified: --stat? --numstat
    --shortstat --dirstat? --summary --compact-summary --raw --name-only --name-status --no-renames
    --find-renames? --find-copies? --find-copies-harder --diff-filter: --pickaxe-all
    --pickaxe-regex --minimal --patience --histogram --diff-algorithm: --anchored: --word-diff?
    --word-diff-regex: --color-words? --color? --no-color --color-moved? --check --full-index
    --binary --abbrev? --text --ignore-all-space --ignore-space-change --ignore-space-at-eol
    --ignore-cr-at-eol --ignore-blank-lines --function-context --exit-code --quiet --no-ext-diff
    --no-textconv --ignore-submodules? --src-prefix: --dst-prefix: --no-prefix
    --relative? --no-relative --indent-heuristic --inter-hunk-context: --patch-with-stat
    --irreversible-delete"""
_LOG = f"""{_DIFF} -cmgiEFP -n: -L: --max-count: --skip: --since: --after: --until: --before:
    --author: --committer: --grep: --all-match --invert-grep --regexp-ignore-case
    --extended-regexp --fixed-strings --perl-regexp --merges --no-merges --first-parent
    --min-parents: --max-parents: --all --branches? --tags? --remotes? --glob: --exclude: --reflog
    --walk-reflogs --cherry-pick --cherry-mark --cherry --left-only --right-only --left-right
    --boundary --simplify-by-decoration --full-history --dense --sparse --ancestry-path
    --topo-order --date-order --author-date-order --reverse --no-walk? --pretty? --format:
    --oneline --abbrev-commit --no-abbrev-commit --encoding: --notes? --no-notes --relative-date
    --date: --parents --children --graph --show-linear-break? --decorate? --no-decorate
    --decorate-refs: --source --follow --full-diff --log-size --count --cc
    --no-diff-merges --objects --no-mailmap --mailmap --not"""

_READS = {
    "status": """-sbvz -u? --short --branch --show-stash --porcelain? --long --verbose --ignored?
        --untracked-files? --ignore-submodules? --column? --no-column --ahead-behind
        --no-ahead-behind --renames --no-renames --find-renames?""",
    "diff": f"{_DIFF} --cached --staged --merge-base --no-index",
    "log": _LOG,
    "show": _LOG,
    "whatchanged": _LOG,
    "rev-list": _LOG,
    "shortlog": f"{_LOG.replace('-n:', '')} -sen --numbered --summary --email --group:",
    "diff-tree": f"{_DIFF} -rtm --root --no-commit-id",
    "diff-index": f"{_DIFF} -m --cached",
    "diff-files": _DIFF,
    "blame": """-blwtesfnpc -L: -S: -M? -C? --root --show-stats --line-porcelain --porcelain
        --incremental --show-name --show-number --show-email --date: --ignore-rev: --since:
        --abbrev? --first-parent""",
    "grep": """-iIwvhHEGPFnlLzocqpWra -A: -B: -C: -e: -f: -m: -# --cached --untracked --no-index
        --exclude-standard --no-exclude-standard --ignore-case --word-regexp
        --invert-match --full-name --extended-regexp --basic-regexp --perl-regexp --fixed-strings
        --line-number --column --files-with-matches --name-only --files-without-match --null
        --only-matching --count --color? --no-color --break --heading --show-function --context:
        --after-context: --before-context: --function-context --max-depth: --recursive
        --no-recursive --and --or --not --all-match --quiet --text --max-count: --threads:""",
    "ls-files": """-cdmoiskuztvf -x: -X: --cached --deleted --modified --others --ignored --stage
        --killed --unmerged --exclude: --exclude-from: --exclude-standard --directory
        --no-empty-directory --error-unmatch --full-name --abbrev? --eol
        --deduplicate""",
    "ls-tree": """-drtlz --long --name-only --name-status --object-only --abbrev? --full-name
        --full-tree""",
    "cat-file": "-tsep --batch-check? --batch?",
    "rev-parse": """-q --abbrev-ref? --short? --verify --quiet --show-toplevel --show-prefix
        --show-cdup --git-dir --absolute-git-dir --git-common-dir --git-path: --is-inside-git-dir
        --is-inside-work-tree --is-bare-repository --is-shallow-repository --symbolic
        --symbolic-full-name --all --branches? --tags? --remotes? --revs-only --no-revs --flags
        --no-flags --show-object-format? --end-of-options""",
    "describe": """--all --tags --contains --abbrev? --candidates: --exact-match --long --match:
        --exclude: --always --first-parent --dirty? --broken?""",
    "merge-base": "-a --all --octopus --is-ancestor --independent --fork-point",
    "name-rev": "--tags --refs: --exclude: --all --name-only --always --undefined",
    "for-each-ref": """--count: --sort: --format: --color? --points-at: --merged? --no-merged?
        --contains? --no-contains? --ignore-case""",
    "show-ref": """-dqs --head --heads --branches --tags --dereference --hash? --verify --quiet
        --abbrev?""",
    "cherry": "-v --abbrev?",
    "count-objects": "-vH --verbose --human-readable",
    "check-ignore": "-qvnz --quiet --verbose --non-matching --no-index",
    "check-attr": "-az --all --cached",
    "version": "--build-options",
}

PURE = frozenset(_READS)
"""Subcommands that only exist to read. A rule for one never means more than that."""

_BRANCH = """-arviq --all --remotes --list --verbose --show-current --contains? --no-contains?
    --merged? --no-merged? --points-at: --sort: --format: --color? --no-color --column? --no-column
    --abbrev? --no-abbrev --ignore-case"""
_BRANCH_LISTS = split_names("--list --contains --no-contains --merged --no-merged --points-at")
_TAG = """-li -n? --list --sort: --format: --contains? --no-contains? --merged? --no-merged?
    --points-at: --column? --color? --ignore-case"""
_CONFIG = """-lz --list --get --get-all --get-regexp --global --local --system --worktree
    --show-origin --show-scope --name-only --null --type: --bool --int --path --includes
    --no-includes --default:"""
_CONFIG_GETS = split_names("--get --get-all --get-regexp --list -l")
_CONFIG_SCOPES = split_names(
    "--global --local --system --worktree --show-origin --show-scope --type"
)


_SIGNATURES = compile_later(r"%[+ -]?G|%\(\*?signature|--sort[= ][-*]*signature")
"""Words that make git run gpg, with settings that a command can have left in its home."""


def check_git(words: Sequence[ShellWord]) -> None:
    refuse_unsafe_globs(words)
    if found := _SIGNATURES.search(" ".join(word.text for word in words)):
        raise Unproven(f"git with {found[0]} (checks signatures, with another program)")
    rest = skip_global_options(words)
    if not rest or rest[0].text in ("--version", "-v"):
        if len(rest) > 1:
            raise Unproven(f"git {rest[1].text}")
        return
    subcommand, arguments = rest[0].text, rest[1:]
    if subcommand in _READS:
        _parse_options(_READS[subcommand]).list_operands(arguments)
    elif subcommand in _LISTINGS:
        _LISTINGS[subcommand](arguments)
    else:
        raise Unproven(f"git {subcommand}")


def skip_global_options(words: Sequence[ShellWord]) -> Sequence[ShellWord]:
    """Return the words from the subcommand on.

    Options before it that only say where to run or how to print are skipped. Raise Unproven if
    `-C` has no plain directory.
    """
    rest = list(words)
    while rest and rest[0].text in ("--no-pager", "-P", "--no-optional-locks", "-C"):
        if rest.pop(0).text == "-C":
            directory = rest.pop(0) if rest else ShellWord("-")
            if directory.is_glob or directory.text.startswith("-"):
                raise Unproven("git -C without a plain directory")
    return rest


def list_directories(words: Sequence[ShellWord]) -> list[str]:
    """Return the directories of `-C`, in order. Git changes to them first."""
    texts = [word.text for word in words[: len(words) - len(skip_global_options(words))]]
    return [directory for option, directory in pairwise(texts) if option == "-C"]


@cache
def _parse_options(notation: str) -> ReaderOptions:
    return ReaderOptions.parse(notation)


def _take_texts(words: Sequence[ShellWord], end: str) -> list[str]:
    return [word.text for word in takewhile(lambda word: word.text != end, words)]


def _check_branch(words: Sequence[ShellWord]) -> None:
    """Raise Unproven for a name without a listing option: git would create that branch."""
    operands = _parse_options(_BRANCH).list_operands(words)
    lists = any(text.partition("=")[0] in _BRANCH_LISTS for text in _take_texts(words, "--"))
    if operands and not lists:
        raise Unproven(f"git branch {operands[0].text} (creates a branch)")


def _check_tag(words: Sequence[ShellWord]) -> None:
    operands = _parse_options(_TAG).list_operands(words)
    if operands and not {"-l", "--list"}.intersection(_take_texts(words, "--")):
        raise Unproven(f"git tag {operands[0].text} (creates a tag)")


def _check_config(words: Sequence[ShellWord]) -> None:
    """Raise Unproven without a listing option first: after a name, git takes it for a value."""
    refuse_globs(words)
    operands = _parse_options(_CONFIG).list_operands(words)
    before = _take_texts(words, operands[0].text) if operands else _take_texts(words, "--")
    if not before or before[0] not in _CONFIG_GETS | _CONFIG_SCOPES:
        raise Unproven("git config without --get or --list first")
    if not _CONFIG_GETS.intersection(before):
        raise Unproven("git config without --get or --list")


def _check_remote(words: Sequence[ShellWord]) -> None:
    texts = [word.text for word in words]
    if texts not in ([], ["-v"], ["--verbose"]) and texts[0] != "get-url":
        raise Unproven(f"git remote {texts[0]}")
    _parse_options("-v --verbose --all --push").list_operands(words)


def _check_stash(words: Sequence[ShellWord]) -> None:
    action = words[0].text if words else "push"
    if action not in ("list", "show"):
        raise Unproven(f"git stash {action}")
    _parse_options(_LOG).list_operands(words[1:])


def _check_reflog(words: Sequence[ShellWord]) -> None:
    operands = _parse_options(_LOG).list_operands(words)
    if operands and operands[0].text not in ("show", "HEAD"):
        raise Unproven(f"git reflog {operands[0].text}")


def _check_worktree(words: Sequence[ShellWord]) -> None:
    if [word.text for word in words] not in (["list"], ["list", "--porcelain"]):
        raise Unproven("git worktree without list")


def _check_symbolic_ref(words: Sequence[ShellWord]) -> None:
    refuse_globs(words)
    if len(_parse_options("-q --quiet --short").list_operands(words)) != 1:
        raise Unproven("git symbolic-ref with a new target")


_LISTINGS = {
    "branch": _check_branch,
    "tag": _check_tag,
    "config": _check_config,
    "remote": _check_remote,
    "stash": _check_stash,
    "reflog": _check_reflog,
    "worktree": _check_worktree,
    "symbolic-ref": _check_symbolic_ref,
}


# The check that git, called in a directory, runs no other program.
#
# A repository can name programs for git to run: a file system monitor, filters, external diffs,
# hooks. Its configuration may come from whoever made the workspace. So it is checked against an
# allow-list of keys, and a repository that sets anything else is not inert. The user's own global
# configuration is theirs to decide; commands in a sandbox have a different one.


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
        found = _find_git_directory(Path(os.path.realpath(directory)))
        if found is not None:
            worktree, own, shared = found
            _check_repository(worktree, own, shared=shared)
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


def _check_repository(worktree: Path, own: Path, *, shared: Path) -> None:
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
