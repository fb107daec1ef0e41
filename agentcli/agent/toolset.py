"""The available tools, resolved by name, in the order built-in, plugin, MCP.

Declaring a tool needs its spec only. The tool itself is loaded when it is first called, because
its argument model imports pydantic, which the first request does not need.

A deferred tool is declared once it was found. Declared tools are only ever added at the end, so
that a provider's cached prompt stays valid. Any available tool can be called, declared or not; the
permission gate decides whether it may run.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from difflib import get_close_matches

from agentcli.types.errors import ToolError
from agentcli.types.tools import ErrorKind, Tool, ToolSpec

Load = Callable[[], Tool]

NAMES_SHOWN = 20
"""The number of tools listed in the error for a tool that does not exist."""


class Toolset:
    def __init__(self, offers: Iterable[tuple[ToolSpec, Load]]) -> None:
        """The first offer of a name wins: no foreign tool can replace a built-in one."""
        self._offers: dict[str, tuple[ToolSpec, Load]] = {}
        self._loaded: dict[str, Tool] = {}
        self._declared: tuple[ToolSpec, ...] = ()
        self._deferred: tuple[ToolSpec, ...] = ()
        self.add(offers)

    def add(self, offers: Iterable[tuple[ToolSpec, Load]]) -> None:
        """Add tools after the existing ones."""
        for spec, load in offers:
            if spec.name not in self._offers:
                self._offers[spec.name] = (spec, load)
                if spec.deferred:
                    self._deferred = (*self._deferred, spec)
                else:
                    self._declared = (*self._declared, spec)

    def declare(self, names: Iterable[str]) -> None:
        """Declare these tools from the next request on."""
        declared = {spec.name for spec in self._declared}
        for name in names:
            if name in self._offers and name not in declared:
                declared.add(name)
                spec = replace(self._offers[name][0], deferred=False)
                self._declared = (*self._declared, spec)

    @property
    def declared(self) -> tuple[ToolSpec, ...]:
        """The tools declared now; the same object until something is added."""
        return self._declared

    @property
    def deferred(self) -> tuple[ToolSpec, ...]:
        """The tools that can be found, found yet or not; the same object until one is added."""
        return self._deferred

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(spec for spec, _ in self._offers.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._offers)

    def resolve(self, name: str) -> Tool:
        if name not in self._offers:
            near = get_close_matches(name, self.names, n=1, cutoff=0.5)
            hint = f" Did you mean {near[0]}?" if near else ""
            known = [spec.name for spec in self._declared[:NAMES_SHOWN]]
            more = " …" if len(self._declared) > NAMES_SHOWN else ""
            raise ToolError(
                f"There is no tool {name!r}.{hint} The tools are {', '.join(known)}{more}.",
                kind=ErrorKind.UNKNOWN_TOOL,
            )
        if name not in self._loaded:
            self._loaded[name] = self._offers[name][1]()
        return self._loaded[name]

    def hash_specs(self) -> str:
        """Hash all that the model sees of its tools: a changed contract shows in the log."""
        declared = [[spec.name, spec.description, spec.schema] for spec in self.specs]
        text = json.dumps(declared, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
