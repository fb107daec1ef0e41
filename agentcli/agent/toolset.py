"""The available tools, resolved by name, in the order built-in, the user's own, MCP.

Declaring a tool needs its spec only. The tool itself is loaded when it is first called: what calls
need, the first request does not.

A deferred tool is declared once it was found. Declared tools are only ever added at the end, so
that a provider's cached prompt stays valid. Any available tool can be called, declared or not; the
permission gate decides whether it may run.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeAlias

from agentcli.system.text import to_printable
from agentcli.types.errors import ToolError
from agentcli.types.own_tools import find_own_tools, to_plain
from agentcli.types.tools import ErrorKind, Tool, ToolSpec

Load: TypeAlias = Callable[[], Tool]
Offer: TypeAlias = tuple[ToolSpec, Load]
"""A tool that can be declared now and is loaded at its first call."""

SEARCH_TOOL = "search_tools"
NAMES_SHOWN = 20
"""The number of tools listed in the error for a tool that does not exist."""


_MISSPELT = 0.85
"""The least likeness of a misspelt name; two names of real tools may be 0.78 alike."""

_TO_DO_OTHERWISE = {
    **dict.fromkeys(
        ("todowrite", "todoread", "updateplan", "todo", "exitplanmode"),
        " Keep a plan in your own text.",
    ),
    **dict.fromkeys(("deletefile", "removefile"), " bash does that, with rm."),
    **dict.fromkeys(("movefile", "renamefile", "rename"), " bash does that, with mv."),
    **dict.fromkeys(("mkdir", "createdirectory"), " write_file makes the directories of a file."),
    **dict.fromkeys(("python", "codeinterpreter"), " bash does that, with python3."),
    "parallel": " Make the calls themselves, several in one reply.",
}
"""What to do instead of calling tools that no tool of ours is like."""


_ASKING = frozenset(("askuser", "askuserquestion", "askfollowupquestion", "requestuserinput"))
"""The names of a tool that asks the user, which is not there if nobody can be asked."""
NOBODY_TO_ASK = (
    "Denied: nobody can be asked in this run. Decide yourself, and say in your answer what you "
    "assumed."
)


def _find_meant(name: str, names: Sequence[str]) -> str | None:
    """Return the tool of these names that is meant by a name, or None if none is close."""
    plain = {to_plain(one): one for one in reversed(names)}
    asked = to_plain(name)
    if meant := plain.get(asked) or next(find_own_tools(name, names), None):
        return meant
    of_servers = [one for one in names if one.endswith(f"__{name}")]
    if len(of_servers) == 1:
        return of_servers[0]
    near = get_close_matches(asked, plain, n=1, cutoff=_MISSPELT)
    return plain[near[0]] if near else None


class Toolset:
    def __init__(self, offers: Iterable[Offer]) -> None:
        """The first offer of a name wins: no foreign tool can replace a built-in one."""
        self._offers: dict[str, Offer] = {}
        self._loaded: dict[str, Tool] = {}
        self.declared: tuple[ToolSpec, ...] = ()
        """The tools declared now; the same object until something is added."""
        self.deferred: tuple[ToolSpec, ...] = ()
        """The tools that can be found, found yet or not; the same object until one is added.

        There are none without the tool that finds them."""
        self._hidden: tuple[ToolSpec, ...] = ()
        self.add(offers)

    def add(self, offers: Iterable[Offer]) -> None:
        """Add tools after the existing ones."""
        for spec, load in offers:
            if spec.name not in self._offers:
                self._offers[spec.name] = (spec, load)
                if spec.deferred:
                    self._hidden = (*self._hidden, spec)
                else:
                    self.declared = (*self.declared, spec)
        if SEARCH_TOOL in self._offers:
            self.deferred = self._hidden

    def declare(self, names: Iterable[str]) -> None:
        """Declare these tools from the next request on."""
        declared = {spec.name for spec in self.declared}
        for name in names:
            if name in self._offers and name not in declared:
                declared.add(name)
                spec = replace(self._offers[name][0], deferred=False)
                self.declared = (*self.declared, spec)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(spec for spec, _ in self._offers.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._offers)

    def resolve(self, name: str) -> Tool:
        if name not in self._offers:
            if to_plain(name) in _ASKING:
                raise ToolError(NOBODY_TO_ASK, kind=ErrorKind.DENIED)
            near = _find_meant(name, self.names)
            hint = f" Did you mean {near}?" if near else _TO_DO_OTHERWISE.get(to_plain(name), "")
            known = [spec.name for spec in self.declared[:NAMES_SHOWN]]
            more = " …" if len(self.declared) > NAMES_SHOWN else ""
            raise ToolError(
                f"There is no tool '{to_printable(name)}'.{hint} "
                f"The tools are {', '.join(known)}{more}.",
                kind=ErrorKind.UNKNOWN_TOOL,
            )
        if name not in self._loaded:
            _, load = self._offers[name]
            self._loaded[name] = load()
        return self._loaded[name]

    def build_terms(self) -> dict[str, Any]:
        """Return what the first fact of a session says of its tools.

        The hash is of all that the model sees of them: a changed contract shows in the log."""
        declared = [[spec.name, spec.description, spec.schema] for spec in self.specs]
        text = json.dumps(declared, ensure_ascii=False, separators=(",", ":"))
        return {"tools": self.names, "tools_sha256": hashlib.sha256(text.encode()).hexdigest()}
