"""Grants as users write them in rules and as models ask for them, checked the same way.

Every function raises ValueError with words that say what to write instead.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcli.system.files import expand_home
from agentcli.system.hosts import HostPattern
from agentcli.types.grants import CREDENTIALS, NO_GRANTS, Credential, GrantRequest, Grants

PRESETS: dict[str, tuple[str, ...]] = {
    "python": ("pypi.org", "files.pythonhosted.org"),
    "node": ("registry.npmjs.org", "registry.yarnpkg.com", "nodejs.org"),
    "rust": ("crates.io", "index.crates.io", "static.crates.io", "static.rust-lang.org"),
    "go": ("proxy.golang.org", "sum.golang.org", "go.dev", "dl.google.com"),
    "git": ("github.com", "codeload.github.com", "gitlab.com", "bitbucket.org"),
}
"""Hosts that users may name together. None of them is granted by default."""
_FORMS = (
    "network:HOST, network:all, write:PATH, read:PATH, credentials:NAME, outside or reason:TEXT"
)
_MOST_ENTRIES = 50
_MOST_REASON_CHARS = 300


def parse_hosts(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the hosts in the one spelling that each has."""
    return tuple(dict.fromkeys(str(HostPattern.parse(text.strip())) for text in texts))


def expand_hosts(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the hosts of a user, who may also name a preset."""
    named = (PRESETS.get(text.strip(), (text,)) for text in texts)
    return parse_hosts(host for hosts in named for host in hosts)


def parse_directory(text: str) -> Path:
    """Return an absolute path; `~` is the user's home. `/` would mean no sandbox."""
    path = Path(os.path.normpath(expand_home(text)))
    if "\0" in text or not path.is_absolute() or path == path.parent:
        raise ValueError(f"{json.dumps(text)} must be an absolute path, and not /")
    return path


def parse_credential(text: str) -> Credential:
    for known in CREDENTIALS:
        if text == known:
            return known
    raise ValueError(f"unknown credentials {json.dumps(text)}; there are {', '.join(CREDENTIALS)}")


def format_grants(grants: Grants) -> Sequence[str]:
    """Return the lines of a rule's table that give these grants."""
    fields = {
        "network": True if grants.network else list(grants.hosts),
        "writable": list(map(str, grants.writable)),
        "readable": list(map(str, grants.readable)),
        "credentials": list(grants.credentials),
        "outside": grants.outside,
    }
    return [f"{field} = {json.dumps(value)}" for field, value in fields.items() if value]


def parse_request(entries: Sequence[str]) -> GrantRequest:
    """Read what a model asks for, as `network:docs.example.org` or `write:/srv/data`."""
    if len(entries) > _MOST_ENTRIES:
        raise ValueError(f"at most {_MOST_ENTRIES} entries")
    asked, reasons = NO_GRANTS, []
    for entry in entries:
        kind, _, value = (part.strip() for part in entry.partition(":"))
        if kind == "reason":
            reasons.append(value)
        else:
            asked |= _parse_entry(kind, value, entry=entry)
    return GrantRequest(grants=asked, reason=" ".join(reasons)[:_MOST_REASON_CHARS])


def _parse_entry(kind: str, value: str, *, entry: str) -> Grants:
    match kind, value:
        case "outside", ("" | "true"):
            return Grants(outside=True)
        case "network", "all":
            return Grants(network=True)
        case "network", _ if value:
            return Grants(hosts=parse_hosts([value]))
        case "write", _ if value:
            return Grants(writable=(parse_directory(value),))
        case "read", _ if value:
            return Grants(readable=(parse_directory(value),))
        case "credentials", _ if value:
            return Grants(credentials=(parse_credential(value),))
    raise ValueError(f"{json.dumps(entry)} is none of {_FORMS}")


def flatten_request(value: Any) -> Any:
    """Return the entries of a request that came as one object; anything else as it is."""
    if not isinstance(value, Mapping):
        return value
    entries = []
    for kind, given in value.items():
        for one in given if isinstance(given, list | tuple) else (given,):
            if one is not False and one is not None:
                entries.append(kind if one is True else f"{kind}:{one}")
    return entries


# What of a request is not given yet


def find_missing(needed: Grants, given: Grants, *, workspace: Path) -> Grants:
    """Return what is needed and not given. Commands always reach the workspace."""
    if given.outside:
        return NO_GRANTS
    writable = (workspace, *given.writable)
    return Grants(
        network=needed.network and not given.network,
        hosts=tuple(host for host in needed.hosts if not covers_host(given, host)),
        writable=tuple(path for path in needed.writable if not lies_in(path, writable)),
        readable=tuple(
            path for path in needed.readable if not lies_in(path, (*writable, *given.readable))
        ),
        credentials=tuple(name for name in needed.credentials if name not in given.credentials),
        outside=needed.outside,
    )


def covers_host(given: Grants, host: str) -> bool:
    """Return whether a host, or all of a wildcard, can be reached with these grants."""
    needed = HostPattern.parse(host)
    return given.network or any(HostPattern.parse(one).covers(needed) for one in given.hosts)


def lies_in(path: Path, directories: Iterable[Path]) -> bool:
    """Return whether a path is one of the directories, or below one."""
    return any(path.is_relative_to(one) for one in directories)
