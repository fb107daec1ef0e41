"""The environment of a sandboxed command: named variables of the user's, and no others.

An unknown variable may hold a secret, so variables are passed on by name only. Programs are never
found in the workspace or relative to it, unless the user activated a virtual environment there.
"""

import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from agentcli.system.files import is_directory
from agentcli.system.hosts import HostPattern

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"

_PASSED = frozenset(
    {
        *("LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "EMAIL"),
        *("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION"),
        *("NVM_DIR", "NVM_BIN", "VOLTA_HOME", "JAVA_HOME", "SDKMAN_DIR"),
        *("GOROOT", "GOFLAGS", "GOTOOLCHAIN", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "RUSTFLAGS"),
        *("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "MAKEFLAGS", "PKG_CONFIG_PATH"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
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
    return _clean_path(
        environ.get("PATH", ""), Path(workspace), activated=environ.get("VIRTUAL_ENV", "")
    )


@lru_cache(maxsize=4)
def _clean_path(search_path: str, workspace: Path, *, activated: str) -> str:
    kept = dict.fromkeys(_filter_entries(search_path, workspace, activated=activated))
    return os.pathsep.join(kept) or _DEFAULT_PATH


def _filter_entries(search_path: str, workspace: Path, *, activated: str) -> Iterator[str]:
    root = os.path.realpath(workspace)
    for entry in search_path.split(os.pathsep):
        inside = Path(os.path.realpath(entry)).is_relative_to(root)
        is_activated = bool(activated) and Path(entry) == Path(activated, "bin")
        # A missing directory may later be created in a command's own /tmp, under any name.
        if Path(entry).is_absolute() and is_directory(Path(entry)) and (not inside or is_activated):
            yield entry


# The variables by which the usual programs find the proxy of granted hosts.


_PROXY_USER = "agentcli"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CONNECT_SCRIPT = """\
exec 3<>/dev/tcp/127.0.0.1/$AGENTCLI_PROXY_PORT || exit
printf 'CONNECT %s:%s HTTP/1.1\\r\\nProxy-Authorization: Basic %s\\r\\n\\r\\n' \
  "$1" "$2" "$AGENTCLI_PROXY_LOGIN" >&3
read -r _ status _ <&3
while IFS= read -r line <&3 && [ "$line" != $'\\r' ]; do :; done
[ "$status" = 200 ] || { echo "agentcli: $1:$2 was refused" >&2; exit 1; }
cat <&3 & reader=$!
trap : HUP
exec >&-
cat >&3
kill $reader 2>&-
"""
"""Connects ssh through the proxy with nothing but bash. The password is not in its arguments.

ssh hangs up at its end, and the reader must not outlive that: the server may not close."""
_KEY_CHECKING = "-o StrictHostKeyChecking=accept-new"
"""Nobody can be asked about a new server. One whose key has changed is refused."""
_THROUGH_PROXY = "-o 'ProxyCommand=bash -c \"$AGENTCLI_SSH_CONNECT\" bash %h %p'"


def _build_ssh_command(*known: str, is_proxied: bool = True) -> str:
    """Return the command by which git starts ssh. A new server is known until the session ends.

    ssh itself would look into the user's home, which is hidden."""
    files = " ".join(f'\\"{file}\\"' for file in (*known, "$HOME/.ssh_known_hosts"))
    named = f'-o "UserKnownHostsFile={files}"'
    return " ".join(("ssh", _KEY_CHECKING, named, *[_THROUGH_PROXY] * is_proxied))


def build_proxy_variables(port: int, *, token: str, hosts: Iterable[str]) -> dict[str, str]:
    """Return the variables. A loopback name among the hosts means the user's own loopback."""
    url = f"http://{_PROXY_USER}:{token}@127.0.0.1:{port}"
    granted = {HostPattern.parse(host).host for host in hosts}
    own = ",".join(name for name in _LOOPBACK if name not in granted)
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    return {
        **{variant: url for name in names for variant in (name, name.lower())},
        **dict.fromkeys(("NO_PROXY", "no_proxy"), own),
        "NODE_USE_ENV_PROXY": "1",
        "YARN_HTTP_PROXY": url,
        "YARN_HTTPS_PROXY": url,
        "GIT_SSH_COMMAND": _build_ssh_command(),
        "AGENTCLI_SSH_CONNECT": _CONNECT_SCRIPT,
        **_build_login(port, token),
    }


def _build_login(port: int, token: str) -> dict[str, str]:
    return {
        "AGENTCLI_PROXY_PORT": str(port),
        "AGENTCLI_PROXY_LOGIN": b64encode(f"{_PROXY_USER}:{token}".encode()).decode(),
    }


# The variables by which git asks for the user's credentials, if the command may have them.


CREDENTIALS_HOST = "credentials.agentcli"
"""A name that no host has: a request to it is answered by us."""
_ASK_SCRIPT = f"""\
[ "$1" = get ] || exit 0
LC_ALL=C
asked=$(cat)
exec 3<>/dev/tcp/127.0.0.1/$AGENTCLI_PROXY_PORT || exit
printf 'POST http://{CREDENTIALS_HOST}/ HTTP/1.1\\r\\n' >&3
printf 'Proxy-Authorization: Basic %s\\r\\nContent-Length: %s\\r\\n\\r\\n%s' \
  "$AGENTCLI_PROXY_LOGIN" "${{#asked}}" "$asked" >&3
read -r _ status _ <&3
while IFS= read -r line <&3 && [ "$line" != $'\\r' ]; do :; done
[ "$status" = 200 ] || exec >&2
cat <&3
"""
"""Asks with nothing but bash. What git would have stored or erased is left as it is."""
_GIT_SETTINGS = (
    ("credential.helper", ""),  # no other helper: it might keep what we give
    ("credential.helper", '!bash -c "$AGENTCLI_GIT_CREDENTIAL" bash'),
    ("credential.useHttpPath", "true"),
)


def build_git_variables(port: int, *, token: str) -> dict[str, str]:
    """Return the variables. They hold no credentials, only the way to ask for them."""
    built = {**_build_login(port, token), "AGENTCLI_GIT_CREDENTIAL": _ASK_SCRIPT}
    for number, (key, value) in enumerate(_GIT_SETTINGS):
        built |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {**built, "GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS))}


# The variables by which ssh asks the user's agent, if the command may do that.


def build_agent_variables(at: Path, *, known_hosts: Path, is_proxied: bool) -> dict[str, str]:
    """Return the variables. `known_hosts` are the servers that the user knows."""
    return {
        "SSH_AUTH_SOCK": str(at),
        "GIT_SSH_COMMAND": _build_ssh_command(str(known_hosts), is_proxied=is_proxied),
    }
