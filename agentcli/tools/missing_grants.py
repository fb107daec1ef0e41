"""Failures for want of a grant: what the sandbox kept from a command, and how to ask for it.

The model is told which entry of `needs` to add to the same command. That call is also what the user
is offered: only the model knows which parts of a line have run already and must not run twice.
What the proxy says of a host that it refused comes from `sandbox/proxy_route` (`advise`), and the
option for a run that cannot ask from `permissions/granting`.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from agentcli.system.files import exists, is_directory, locate_home
from agentcli.system.grants import covers_host, lies_in
from agentcli.system.hosts import HostPattern, is_localhost, parse_host
from agentcli.system.lazy import compile_later
from agentcli.system.temporary import TEMPORARY
from agentcli.types.grants import Grants

SCANNED_CHARS = 20_000
_MOST_NOTES = 3

_HOST = r"['\"‘(]?([A-Za-z0-9][\w.-]*\.[A-Za-z]{2,})"
_UNRESOLVED = tuple(
    compile_later(form)
    for form in (
        rf"[Cc]ould not resolve (?:host|hostname|proxy):? {_HOST}",
        rf"unable to resolve host address {_HOST}",
        rf"(?:ENOTFOUND|EAI_AGAIN) {_HOST}",
        rf"lookup {_HOST}",
        rf"[Ff]ailed to (?:resolve|connect to) {_HOST}",
        rf"HTTPS?ConnectionPool\(host={_HOST}",
        rf"ssh: connect to host {_HOST}",
        rf"[Tt]emporary failure (?:resolving|in name resolution).{{0,40}} {_HOST}",
    )
)
_OFFLINE = compile_later(
    r"[Nn]ame or service not known|[Tt]emporary failure in name resolution|Network is unreachable"
    r"|failed to lookup address|nodename nor servname"
)
_PATH = r"['\"‘(]?(?<![\w.~])(/[^'\"’:\n)]*[^'\"’:\n\s)])"
_READ_ONLY = (
    compile_later(rf"{_PATH}['\"’]?: Read-only file system"),
    compile_later(rf"Read-only file system:? {_PATH}"),
    compile_later(rf"EROFS: read-only file system, \w+ {_PATH}"),
)
_DENIED = (
    compile_later(rf"{_PATH}['\"’]?: Permission denied"),
    compile_later(rf"Permission denied:? {_PATH}"),
    compile_later(rf"EACCES: permission denied, \w+ {_PATH}"),
)
_ABSENT = (
    compile_later(rf"{_PATH}['\"’]?: No such file or directory"),
    compile_later(rf"No such file or directory:? {_PATH}"),
    compile_later(rf"ENOENT: no such file or directory, \w+ {_PATH}"),
)
_BUSY = (compile_later(rf"{_PATH}['\"’]?: Device or resource busy"),)
_ROOT = compile_later(
    r"\bsudo: (?:command )?not found|\bsudo: .*(?:effective uid|no new privileges)"
    r"|are you root\?|[Yy]ou (?:must|need to) be (?:root|superuser)"
    r"|has to be run under the root user|requires? (?:root|superuser) privileges"
    r"|cannot lock /etc/|RTNETLINK answers: Operation not permitted|su: Authentication failure"
    r"|changing ownership of .*: (?:Operation not permitted|Invalid argument)"
)
_SERVICES = compile_later(
    r"System has not been booted with systemd|Failed to connect to (?:system scope )?bus"
    r"|connection to server on socket \S+ failed|local \S+ server through socket"
)
_TRACED = compile_later(
    r"ptrace: Operation not permitted|PTRACE_(?:TRACEME|SEIZE|ATTACH)\b.*Operation not permitted"
    r"|Could not attach to process|failed to trace|process launch failed: .*ptrace"
)
_MAVEN = compile_later(r"Could not create local repository at (/\S+)")
_OWN_LOOPBACK = compile_later(
    r"(?:localhost|127\.0\.0\.1|::1)\b.{0,80}(?:onnection refused|ould(?:n't| not) connect)"
    r"|(?:[Cc]onnection refused|ECONNREFUSED).{0,80}(?:localhost|127\.0\.0\.1|::1)"
)
_DOCKER = compile_later(
    r"[Cc]annot connect to the Docker daemon|connect to the docker API|/(?:docker|podman)\.sock"
)
_AGENT = compile_later(
    r"connection to your authentication agent|Permission denied \(publickey"
    r"|Error connecting to agent"
)
_CREDENTIALS = {
    "git": compile_later(
        r"could not read (?:Username|Password) for|Authentication failed for 'https?:"
    ),
    "gh": compile_later(r"gh auth login|GH_TOKEN"),
    "npm": compile_later(r"ENEEDAUTH|npm (?:ERR!|error) code E401"),
}


def explain_failure(text: str, *, grants: Grants, workspace: Path) -> tuple[str, ...]:
    """Return notes for the model on what a failed command may have lacked.

    `text` is the end of its output, and `grants` is what it had."""
    if grants.outside:
        return ()
    text = text[-SCANNED_CHARS:]
    notes = dict.fromkeys(
        (
            *(() if grants.network else _explain_network(text, grants)),
            *_explain_paths(text, grants, workspace=workspace),
            *_explain_identity(text, grants),
            *_explain_machine(text),
        )
    )
    return tuple(notes)[:_MOST_NOTES]


def _explain_network(text: str, grants: Grants) -> Iterator[str]:
    hosts = dict.fromkeys(
        found for form in _UNRESOLVED for found in form.findall(text) if _is_asked_for(found)
    )
    shown = [host.lower().removesuffix(".") for host in hosts]
    for host in (host for host in shown if covers_host(grants, host)):
        yield f"[{host} is granted, but this program does not use the proxy that HTTPS_PROXY names]"
    if missing := [f"network:{host}" for host in shown if not covers_host(grants, host)]:
        yield _ask_for("commands reach no network", *missing)
    elif not shown and _OFFLINE.search(text) and not grants.hosts:
        yield _ask_for("commands reach no network", "network:HOST")
    elif not shown and _OWN_LOOPBACK.search(text):
        yield (
            "[sandbox: localhost is that of the commands, and none of them listens there; to reach "
            'a server of the user, ask with needs: "outside"]'
        )


def _is_asked_for(host: str) -> bool:
    try:
        HostPattern.parse(host)
        return not is_localhost(parse_host(host))
    except ValueError:
        return False


def _explain_paths(text: str, grants: Grants, *, workspace: Path) -> Iterator[str]:
    writable = (workspace, *grants.writable)
    for path in _find_paths(_READ_ONLY, text):
        if not lies_in(path, grants.writable):
            yield _explain_read_only(path, workspace)
    for path in _find_paths(_DENIED, text):
        if not lies_in(path, writable):
            yield _explain_closed(path)
    for path in _find_paths(_ABSENT, text):
        if not lies_in(path, (*writable, *grants.readable)):
            yield from _explain_absent(path)


def _explain_absent(path: Path) -> Iterator[str]:
    """Yield how to ask for what the user has, and commands do not see."""
    if path.is_relative_to(locate_home()):
        yield _ask_for(f"the user's home is hidden from commands, and so is {path}", f"read:{path}")
    elif lies_in(path, TEMPORARY):
        found = path if exists(path) else _find_existing(path)
        entry = f"read:{path}" if found == path else f"write:{found}"
        if found not in TEMPORARY:
            yield _ask_for(f"commands have a /tmp of their own, without {found}", entry)


def _explain_read_only(path: Path, workspace: Path) -> str:
    if path.is_relative_to(workspace):
        return f"[{path} is protected: commands cannot write it, and nothing can grant that]"
    if lies_in(path, TEMPORARY):
        return _explain_closed(path)
    return _ask_for(f"{path} is read-only for commands", f"write:{_find_existing(path)}")


def _explain_closed(path: Path) -> str:
    directory = _find_existing(path)
    if lies_in(path, TEMPORARY) and directory in TEMPORARY:
        return f"[{path} is closed to commands: their temporary files go to $TMPDIR]"
    entries = (f"write:{directory}", f"read:{directory}")
    return _ask_for(f"{path} is closed to commands", *entries, joined=" or ")


def _find_paths(forms: tuple[re.Pattern[str], ...], text: str) -> Iterator[Path]:
    found = dict.fromkeys(path for form in forms for path in form.findall(text))
    return (Path(os.path.normpath(path)) for path in found)


def _find_existing(path: Path) -> Path:
    """Return the directory to ask for: a grant is for what exists, and a file may be replaced."""
    return next((one for one in path.parents if is_directory(one)), path.parent)


def _explain_identity(text: str, grants: Grants) -> Iterator[str]:
    if _DOCKER.search(text):
        yield _ask_for("commands reach no socket of the user, so no docker", "outside")
    if "ssh-agent" not in grants.credentials and _AGENT.search(text):
        yield _ask_for("commands have no keys of the user for ssh", "credentials:ssh-agent")
    for name, form in _CREDENTIALS.items():
        if name not in grants.credentials and form.search(text):
            yield _ask_for(f"commands have no credentials for {name}", f"credentials:{name}")


def explain_unsaved_settings(text: str) -> tuple[str, ...]:
    """Return notes on settings that a command of git could not save. It takes that for no failure,
    and may even claim the opposite."""
    return tuple(dict.fromkeys(_explain_busy(text[-SCANNED_CHARS:])))


def _explain_busy(text: str) -> Iterator[str]:
    for path in _find_paths(_BUSY, text):
        if ".git" in path.parts:
            yield (
                f"[{path} is protected: commands cannot write it, and nothing can grant that; "
                "name remote and branch in each command, and give git other settings for one "
                "command with git -c NAME=VALUE]"
            )


def _explain_machine(text: str) -> Iterator[str]:
    yield from _explain_busy(text)
    if found := _MAVEN.search(text):
        own = "mvn -Dmaven.repo.local=$HOME/.m2/repository"
        yield f"[{found[1]} is closed to commands: {own} uses their own home]"
    if _ROOT.search(text):
        yield _ask_for("commands are not root, and change nothing of the system", "outside")
    if "Address family not supported" in text:
        yield _ask_for("this sandbox has no sockets of that kind, bubblewrap has", "outside")
    if _TRACED.search(text):
        yield _ask_for("commands trace no other programs, so no strace and no gdb", "outside")
    if _SERVICES.search(text):
        yield _ask_for("commands reach no services of the system", "outside")


def _ask_for(refused: str, *entries: str, joined: str = ", ") -> str:
    shown = joined.join(f'"{entry}"' for entry in entries)
    return f"[sandbox: {refused}; to ask the user, repeat only what failed with needs: {shown}]"
