"""Lines that begin with a slash: offered while they are typed, checked, and run."""

from typing import TYPE_CHECKING

from agentcli.types.errors import AgentError

if TYPE_CHECKING:
    from agentcli.ui.repl.repl import Repl

MISTAKE_S = 5.0
"""How long it is said that there is no such command."""


class SlashCommandRunner:
    """Implements the composer's `Menu`."""

    def __init__(self, repl: "Repl") -> None:
        self._repl = repl

    def list_completions(self, typed: str) -> list[tuple[str, str, int]]:
        registry = self._repl.sessions.registry
        return registry.list_completions(typed, self._repl) if registry else []

    async def submit(self, line: str) -> None:
        """A line that was taken out of the input, and goes back there if it cannot be run."""
        repl = self._repl
        why_not = await self._find_fault(line)
        if why_not is not None:
            repl.composer.prepend_text(line)
            repl.show_notice(why_not, seconds=MISTAKE_S)
            return
        repl.composer.remember(line)
        if (await repl.sessions.wait_for_registry()).find_fault(line):
            repl.turns.send(line, line)  # it is a prompt of a server's
        else:
            await self.run(line)

    async def run(self, line: str) -> None:
        """A command that there is."""
        self._repl.say(f"> {line}", "strong")
        await (await self._repl.sessions.wait_for_registry()).run(line, self._repl)

    async def _find_fault(self, line: str) -> str | None:
        """None: it can be run. Why there is no session is said where that was found out."""
        registry = await self._repl.sessions.wait_for_registry()
        if registry.works_alone(line):
            return None
        try:
            session, _ = await self._repl.sessions.wait_for_session()
        except AgentError:
            return ""
        return None if session.runs_prompt(line) else registry.find_fault(line) or None
