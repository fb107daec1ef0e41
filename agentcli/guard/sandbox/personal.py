"""What a home directory holds that is no work: keys, and what runs when the person logs in.

It matters only where the home directory itself is the workspace, or lies in it: everywhere else
none of it is shown to commands at all.
"""

from collections.abc import Iterator
from pathlib import Path

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
_STARTUP = (
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
    ".config/autostart",
    ".config/fish",
    ".config/git",
    ".config/systemd",
    ".local/bin",
)


def secrets(home: Path, workspace: Path) -> Iterator[Path]:
    yield from _within(home, _SECRETS, workspace)


def startup(home: Path, workspace: Path) -> Iterator[Path]:
    yield from _within(home, _STARTUP, workspace)


def _within(home: Path, names: tuple[str, ...], workspace: Path) -> Iterator[Path]:
    if home.is_relative_to(workspace):
        yield from (home / name for name in names if exists(home / name))
