"""The environment of a sandboxed command: named variables of the user's, and no others.

An unknown variable may hold a secret, so variables are passed on by name only. Programs are never
found in the workspace or relative to it, unless the user activated a virtual environment there.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agentcli.system.kinds import is_directory

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

_PASSED = frozenset(
    {
        "LANG",
        "LANGUAGE",
        "TZ",
        "USER",
        "LOGNAME",
        "GIT_AUTHOR_NAME",
        "GIT_AUTHOR_EMAIL",
        "GIT_COMMITTER_NAME",
        "GIT_COMMITTER_EMAIL",
        "EMAIL",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "CONDA_DEFAULT_ENV",
        "PYENV_ROOT",
        "PYENV_VERSION",
        "NVM_DIR",
        "NVM_BIN",
        "VOLTA_HOME",
        "JAVA_HOME",
        "GOROOT",
        "GOFLAGS",
        "GOTOOLCHAIN",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "RUSTUP_TOOLCHAIN",
        "RUSTFLAGS",
        "SDKMAN_DIR",
        "CC",
        "CXX",
        "CFLAGS",
        "CXXFLAGS",
        "LDFLAGS",
        "MAKEFLAGS",
        "PKG_CONFIG_PATH",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
    }
)
_PASSED_PREFIX = "LC_"

_SET = {
    # Git hooks are read-only to commands, and `npm install` must not fail because of it.
    "HUSKY": "0",
    # Leak detection stops the program by ptrace, which commands may not use.
    "ASAN_OPTIONS": "detect_leaks=0",
}


def build_environment(
    environ: Mapping[str, str], *, workspace: Path, pass_env: Iterable[str] = ()
) -> dict[str, str]:
    """Build the environment. `pass_env` are names from the user; nobody else may add names."""
    names = _PASSED | set(pass_env)
    passed = {
        name: value
        for name, value in environ.items()
        if name in names or name.startswith(_PASSED_PREFIX)
    }
    return {**_SET, **passed, "PATH": clean_path(environ, workspace)}


def clean_path(environ: Mapping[str, str], workspace: Path) -> str:
    activated = environ.get("VIRTUAL_ENV", "")
    kept = dict.fromkeys(_filter_entries(environ.get("PATH", ""), Path(workspace), activated))
    return os.pathsep.join(kept) or _DEFAULT_PATH


def _filter_entries(search_path: str, workspace: Path, activated: str) -> Iterator[str]:
    root = os.path.realpath(workspace)
    for entry in search_path.split(os.pathsep):
        inside = Path(os.path.realpath(entry)).is_relative_to(root)
        is_activated = bool(activated) and Path(entry) == Path(activated, "bin")
        # A missing directory may later be created in a command's own /tmp, under any name.
        if Path(entry).is_absolute() and is_directory(Path(entry)) and (not inside or is_activated):
            yield entry
