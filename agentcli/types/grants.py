"""Grants: what a command may reach beyond the workspace, as one value.

Rules and answers give it, the verdict carries it, the approval shows it, the log records it, and
the sandbox is made from it. A model can only ask for it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from agentcli.types.fast_dataclass import dataclass

Credential: TypeAlias = Literal["git", "gh", "npm", "ssh-agent"]
CREDENTIALS: tuple[Credential, ...] = ("git", "gh", "npm", "ssh-agent")

OUTSIDE = "no sandbox: runs as you, with all your files and the network"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grants:
    network: bool = False
    """The whole network, directly. Otherwise only `hosts` can be reached, through our proxy."""
    hosts: tuple[str, ...] = ()
    """Names of hosts, as `docs.example.org`, `*.example.com` or `localhost:8080`."""
    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    credentials: tuple[Credential, ...] = ()
    outside: bool = False
    """Run as the user, without a sandbox."""

    def __or__(self, other: "Grants") -> "Grants":
        """Return what either gives."""
        return Grants(
            network=self.network or other.network,
            hosts=_unite(self.hosts, other.hosts),
            writable=_unite(self.writable, other.writable),
            readable=_unite(self.readable, other.readable),
            credentials=_unite(self.credentials, other.credentials),
            outside=self.outside or other.outside,
        )

    def __and__(self, other: "Grants") -> "Grants":
        """Return what both give."""
        return Grants(
            network=self.network and other.network,
            hosts=_find_common_hosts(self, other),
            writable=_find_common(self.writable, other.writable),
            readable=_find_common(self.readable, other.readable),
            credentials=_find_common(self.credentials, other.credentials),
            outside=self.outside and other.outside,
        )

    def describe(self) -> str:
        """Return what a command with these grants may reach, in one line for the user."""
        if self.outside:
            return OUTSIDE
        is_offline = not (self.network or self.hosts)
        return ", ".join(["sandboxed", *["no network"] * is_offline, *self._describe_parts()])

    def describe_more(self) -> str:
        """Return only what these grants add to the sandbox; empty if they add nothing."""
        return OUTSIDE if self.outside else ", ".join(self._describe_parts())

    def _describe_parts(self) -> Iterator[str]:
        if self.network:
            yield "whole network"
        elif self.hosts:
            yield f"network: {' '.join(self.hosts)}"
        for what, names in (
            ("can also write", self.writable),
            ("can also read", self.readable),
            ("credentials:", self.credentials),
        ):
            if names:
                yield f"{what} {' '.join(map(str, names))}"


NO_GRANTS = Grants()
WITHOUT_SANDBOX = Grants(outside=True)
"""What every command has where there is no sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """What a model asks for with a command. It gives nothing by itself."""

    grants: Grants = NO_GRANTS
    reason: str = ""
    """The words of the model."""


NO_REQUEST = GrantRequest()


def _unite(one: tuple[T, ...], other: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*one, *other)))


def _find_common(one: tuple[T, ...], other: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(item for item in one if item in other)


def _find_common_hosts(one: Grants, other: Grants) -> tuple[str, ...]:
    """Return the hosts that both reach. One with the whole network reaches those of the other."""
    if one.network or other.network:
        return _unite(one.hosts if other.network else (), other.hosts if one.network else ())
    return _find_common(one.hosts, other.hosts)
