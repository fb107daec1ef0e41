"""Which tools there are: resolved by name, in the order built-in, plugin, MCP.

Declaring a tool needs its spec only. The tool itself is loaded when it is first called, because
its argument model brings pydantic, which the way to the first request does not need.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from difflib import get_close_matches

from agentcli.types.errors import ToolError
from agentcli.types.tools import ErrorKind, Tool, ToolSpec

Load = Callable[[], Tool]


class Toolset:
    def __init__(self, offers: Iterable[tuple[ToolSpec, Load]]) -> None:
        """The first offer of a name wins: nothing foreign can stand in for a built-in tool."""
        self._offers: dict[str, tuple[ToolSpec, Load]] = {}
        self._loaded: dict[str, Tool] = {}
        for spec, load in offers:
            self._offers.setdefault(spec.name, (spec, load))

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
            raise ToolError(
                f"There is no tool {name!r}.{hint} The tools are {', '.join(self.names)}.",
                kind=ErrorKind.UNKNOWN_TOOL,
            )
        if name not in self._loaded:
            self._loaded[name] = self._offers[name][1]()
        return self._loaded[name]

    def sha256(self) -> str:
        """Of everything a model is told about its tools: a change of contract shows in the log."""
        declared = [[spec.name, spec.description, spec.schema] for spec in self.specs]
        text = json.dumps(declared, ensure_ascii=False, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()
