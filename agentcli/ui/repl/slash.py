"""Lines that begin with a slash: offered while they are typed, checked, and run."""

from typing import TYPE_CHECKING

from agentcli.types.errors import AgentError

if TYPE_CHECKING:
    from agentcli.ui.repl.repl import Repl

MISTAKE_S = 5.0
"""How long it is said that there is no such command."""


class Slash:
    """Implements the composer's `Menu`."""

    def __init__(self, repl: "Repl") -> None:
        self._repl = repl

    def offers(self, typed: str) -> list[tuple[str, str, int]]:
        registry = self._repl.engine.registry
        return registry.offers(typed, self._repl) if registry else []

    async def submit(self, line: str) -> None:
        """A line that was taken out of the input, and goes back there if it cannot be run."""
        repl = self._repl
        why_not = await self._why_not(line)
        if why_not is not None:
            repl.composer.put_before(line)
            repl.notice(why_not, seconds=MISTAKE_S)
            return
        repl.composer.remember(line)
        if (await repl.engine.loaded()).why_not(line):
            repl.turns.send(line, line)  # it is a prompt of a server's
        else:
            await self.run(line)

    async def run(self, line: str) -> None:
        """A command that there is."""
        self._repl.say(f"> {line}", "strong")
        await (await self._repl.engine.loaded()).run(line, self._repl)

    async def _why_not(self, line: str) -> str | None:
        """None: it can be run. Why there is no session is said where that was found out."""
        registry = await self._repl.engine.loaded()
        if registry.works_alone(line):
            return None
        try:
            session, _ = await self._repl.engine.opened()
        except AgentError:
            return ""
        return None if session.runs_prompt(line) else registry.why_not(line) or None
