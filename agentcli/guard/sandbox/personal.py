"""What a home directory holds that is no work: keys, and what runs when the person logs in.

What runs at the login counts whether it exists or not: a command must not make it either.

It matters only where the home directory itself is the workspace, or lies in it: everywhere else
none of it is shown to commands at all.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from agentcli.guard.sandbox.kinds import exists

_SECRETS = (
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".vault-token",
    ".password-store",
    ".mozilla",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gcloud",
    ".config/gh",
    ".config/google-chrome",
    ".config/chromium",
    ".config/hub",
    ".gradle/gradle.properties",
    ".local/share/keyrings",
    ".m2/settings.xml",
    ".terraform.d/credentials.tfrc.json",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".node_repl_history",
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


def secrets(home: Path, workspace: Path) -> Iterator[Path]:
    yield from filter(exists, _within(home, _SECRETS, workspace))


def startup(home: Path, workspace: Path) -> Iterator[Path]:
    yield from _within(home, (*_STARTUP_FILES, *_STARTUP_DIRECTORIES), workspace)


def kind_of(protected: Path) -> Literal["file", "directory"]:
    """What a protected place would be, were it there."""
    return "file" if protected.name in _STARTUP_FILES else "directory"


def _within(home: Path, names: tuple[str, ...], workspace: Path) -> Iterator[Path]:
    if home.is_relative_to(workspace):
        yield from (home / name for name in names)
