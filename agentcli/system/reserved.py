"""Paths in a workspace that are not work: keys, files that run at login, agentcli itself.

This matters only if the home directory, the root or the environment that agentcli is installed in
is the workspace, or lies in it. Keys are hidden: nobody reads them. What runs later is guarded:
nobody writes it without approval, whether it exists or not. The lists apply to commands in a
sandbox and to the file tools alike.
"""

import os
import stat
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal

from agentcli.system.files import locate_home as home_of_user
from agentcli.system.repository import PARTS, find_git_directory, is_repository


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SECRETS = _split_names(
    """.ssh .gnupg .aws .azure .kube .docker .netrc .git-credentials .npmrc .pypirc .vault-token
    .password-store .age .pgpass .my.cnf .mylogin.cnf .s3cfg .boto .oci .fly .snowsql
    .databrickscfg .kaggle .mozilla .thunderbird .electrum .bitcoin .subversion/auth
    .cargo/credentials .cargo/credentials.toml .gem/credentials .dbt/profiles.yml
    .cache/huggingface/token .gradle/gradle.properties .m2/settings.xml
    .terraform.d/credentials.tfrc.json .claude/.credentials.json .codex/auth.json
    .gemini/oauth_creds.json .config/agentcli/keys.toml .config/agentcli/logins .config/gcloud
    .config/gh .config/glab-cli .config/hub .config/doctl .config/hcloud .config/rclone
    .config/op .config/sops .config/containers/auth.json .config/helm .config/ngrok
    .config/stripe .config/anthropic .config/openai .config/github-copilot
    .config/google-chrome .config/chromium .config/BraveSoftware .config/microsoft-edge
    .local/share/keyrings .local/share/kwalletd .local/share/fish/fish_history
    Library/Keychains Library/Cookies .bash_history .zsh_history .python_history .psql_history
    .mysql_history .sqlite_history .node_repl_history .irb_history .curlrc .wgetrc
    .composer/auth.json .config/composer/auth.json .pulumi/credentials.json .sentryclirc
    .circleci/cli.yml .nuget/NuGet/NuGet.Config .huggingface/token .config/netlify
    .config/configstore .local/share/opencode/auth.json .local/share/com.vercel.cli"""
)
_STARTUP_FILES = (
    ".bashrc",
    ".bash_aliases",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".profile",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    ".gitconfig",
    ".pam_environment",
    ".xprofile",
    ".xsession",
    ".xsessionrc",
)
_STARTUP_DIRECTORIES = (
    ".ssh",
    ".config/autostart",
    ".config/fish",
    ".config/environment.d",
    ".config/git",
    ".config/systemd",
    ".local/bin",
)
_SETTINGS = _split_names(
    """.vimrc .gvimrc .exrc .emacs .tmux.conf .screenrc .inputrc .xinitrc .gdbinit .lldbinit
    .irbrc .pryrc .Rprofile .psqlrc .sqliterc .pdbrc .pythonrc .direnvrc .hgrc .npmrc .yarnrc
    .condarc .curlrc .wgetrc .netrc .gemrc .bazelrc .latexmkrc .mailcap .cargo/config
    .cargo/config.toml .aws .docker .kube .vim .emacs.d .vscode .ipython .jupyter .oh-my-zsh
    .claude .codex .gemini .cursor .pip .config/nvim .config/emacs .config/helix .config/Code
    .config/tmux .config/zsh .config/nushell .config/kitty .config/alacritty .config/wezterm
    .config/ghostty .config/sway .config/i3 .config/hypr .config/mise .config/direnv
    .config/hg .config/pip .config/npm .config/opencode .local/lib .local/share/applications
    .cargo/bin .pyenv .rbenv .nvm .asdf .volta .bun .deno bin"""
)
"""Settings of programs that run what these name, and directories that programs come from."""


_SYSTEM = (
    *("bin", "boot", "etc", "lib", "lib32", "lib64", "libx32", "nix", "gnu", "sbin", "usr", "var"),
    *("Applications", "Library", "System", "private"),
)
_STATE = ("dev", "proc", "run", "sys")
"""Not files but the machine itself: its processes with their environments, its disks."""


class Reserved:
    def __init__(
        self,
        workspace: Path,
        *,
        home: Path,
        machine: Path = Path("/"),
        environment: Path | None = None,
    ) -> None:
        """`machine` is its root directory. agentcli is installed in `environment`; None if its
        source is used where it is. All paths are real paths."""
        homes = (home, *_iter_other_homes(machine, workspace))
        self._homes = tuple(one for one in dict.fromkeys(homes) if one.is_relative_to(workspace))
        self._machine = machine if machine.is_relative_to(workspace) else None
        is_inside = environment is not None and workspace in environment.parents
        self.environment = environment if is_inside else None
        """The environment in the workspace that agentcli runs from."""
        self.is_empty = not (self._homes or self._machine or self.environment)
        """True if no reserved path lies in the workspace."""
        self._hidden = _fold_all(self.secrets())
        self._guarded = _fold_all((*self.iter_startup(), *self.settings()))

    def secrets(self) -> Iterator[Path]:
        """Yield the paths that are hidden by name, whether they exist or not."""
        yield from (home / name for home in self._homes for name in _SECRETS)
        if self._machine:
            yield from (self._machine / name for name in _STATE)

    def settings(self) -> Iterator[Path]:
        """Yield the settings of programs that are guarded, whether they exist or not."""
        yield from (home / name for home in self._homes for name in _SETTINGS)

    def iter_startup(self) -> Iterator[Path]:
        """Yield what runs at login and is guarded, whether it exists or not."""
        names = (*_STARTUP_FILES, *_STARTUP_DIRECTORIES)
        yield from (home / name for home in self._homes for name in names)
        if self._machine:
            yield from (self._machine / name for name in (*_SYSTEM, *_STATE))

    def why_hidden(self, real: Path) -> str:
        """Return why a real path must not be read; empty if it may."""
        if not self._hidden.isdisjoint(_iter_with_parents(real)):
            return "it holds the user's keys, passwords or history"
        if self._machine and _is_private(real, self._machine):
            return "not every user of this machine may read it"
        return ""

    def why_guarded(self, real: Path) -> str:
        """Return why a real path must not be written without approval; empty if it may."""
        if self.environment and real.is_relative_to(self.environment):
            return "agentcli itself runs from that environment"
        if self._guarded.isdisjoint(_iter_with_parents(real)):
            return ""
        return "it runs at login or later, or belongs to the system"


def find_reserved(workspace: Path) -> Reserved:
    """Return the reserved paths of a workspace, which is given by its real path."""
    return _classify(workspace, Path(os.path.realpath(home_of_user())))


@lru_cache(maxsize=8)
def _classify(workspace: Path, home: Path) -> Reserved:
    return Reserved(workspace, home=home, environment=find_own_environment())


def find_own_environment() -> Path | None:
    """Return the environment that agentcli is installed in; None if its source is elsewhere."""
    environment = Path(os.path.realpath(sys.prefix))
    return environment if Path(os.path.realpath(__file__)).is_relative_to(environment) else None


def choose_kind(guarded: Path) -> Literal["file", "directory"]:
    """Return what a guarded path would be if it existed."""
    return "file" if guarded.name in _STARTUP_FILES else "directory"


def _iter_other_homes(machine: Path, workspace: Path) -> Iterator[Path]:
    for parent in (machine / "home", machine / "Users"):
        if parent.is_relative_to(workspace) and parent.is_dir():
            yield from parent.iterdir()
    yield machine / "root"


def _is_private(real: Path, machine: Path) -> bool:
    """Return whether it is a system path that only some users may read: root may read all."""
    names = real.relative_to(machine).parts if real.is_relative_to(machine) else ()
    if not names or names[0] not in _SYSTEM:
        return False
    path = machine
    for name in names:
        path /= name
        try:
            mode = path.stat().st_mode
        except OSError:
            return False  # there is nothing to read
        needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
        if mode & needed != needed:
            return True
    return False


def _iter_with_parents(path: Path) -> Iterator[str]:
    return (str(one).casefold() for one in (path, *path.parents))


def _fold_all(paths: Iterable[Path]) -> frozenset[str]:
    """Return paths as case-insensitive file systems compare them, and the targets of links."""
    return frozenset(
        str(one).casefold() for path in paths for one in (path, os.path.realpath(path))
    )


# The paths inside a workspace that tools never write: git's own files and agentcli's settings.
#
# Files there would run later with the user's rights (hooks, filters, settings). So a path is
# protected by its name, at any depth, whether it exists yet or not.


_NAMES = frozenset({".git", ".agentcli", "git~1"})


def is_protected(root: Path, parts: Sequence[str]) -> bool:
    if any(_fold(part) in _NAMES for part in parts):
        return True
    if parts and _fold(parts[0]) in PARTS and is_repository(root):
        return True  # a bare one
    elsewhere = _locate_git_directory(root)
    return bool(elsewhere) and tuple(parts[: len(elsewhere)]) == elsewhere


_MERCURIAL = (".hg", ("hgrc", "hgrc-not-shared"))
_OF_A_REPOSITORY = ("HEAD", "objects", "refs", "commondir", "config", "config.worktree", "hooks")


def is_setting_of_mercurial(parts: Sequence[str]) -> bool:
    """Return whether it names the settings of a repository of Mercurial, which run programs."""
    folder, names = _MERCURIAL
    named = tuple(map(_fold, parts[-2:]))
    return len(named) > 1 and named[0] == folder and named[1] in names


def would_be_in_repository(root: Path, parts: Sequence[str]) -> bool:
    """Return whether git would take a directory around this file for a repository, once it exists.

    Git needs no `.git` for that, and runs what the settings there name."""
    for depth, name in enumerate(parts):
        directory = root.joinpath(*parts[:depth])
        has_head, *others = (
            name == one or os.path.lexists(directory / one)
            for one in ("HEAD", "objects", "commondir")
        )
        if name in _OF_A_REPOSITORY and has_head and any(others):
            return True
    return False


def _fold(name: str) -> str:
    """Return the name as the least exact file systems compare it.

    They ignore case, invisible characters, and dots and blanks at the end of a name.
    """
    shown = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return shown.casefold().rstrip(" .")


def _locate_git_directory(root: Path) -> tuple[str, ...]:
    """Return the parts of where the root's `.git` leads to, if that is in the workspace."""
    real = find_git_directory(root / ".git")
    is_elsewhere = real is not None and real != root / ".git" and real.is_relative_to(root)
    return real.relative_to(root).parts if real and is_elsewhere else ()
