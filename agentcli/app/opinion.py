"""The model that is asked for its opinion where a rule says `judge`, opened when one first does."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.agent.dispatch import Clean
from agentcli.app.model import ModelInUse
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit
from agentcli.types.verdicts import Verdict

if TYPE_CHECKING:
    from agentcli.guard.evaluator import Matter


class SecondOpinion:
    def __init__(
        self,
        *,
        model: ModelInUse,
        open_own: Callable[[], ModelInUse] | None,
        clean: Clean,
        tell: Emit,
    ) -> None:
        """`model`: the session's. `open_own`: another one for opinions; None: the session's."""
        self.model = model
        self._open_own = open_own
        self._own: ModelInUse | None = None
        self._clean = clean
        self._tell = tell

    async def __call__(self, matter: "Matter") -> Verdict:
        from agentcli.agent.unseen import Recorded
        from agentcli.guard.evaluator import Evaluator

        try:
            if self._open_own is not None and self._own is None:
                self._own = self._open_own()
        except SettingsError as error:
            reason = f"there is no model to ask: {error} ({matter.verdict.reason})"
            return replace(matter.verdict, reason=reason)
        asked = self._own or self.model
        wire = Recorded(asked.wire, tell=self._tell, price=asked.price)
        return await Evaluator(wire, model=asked.name, clean=self._clean)(matter)

    async def close(self) -> None:
        if self._own is not None:
            await self._own.wire.close()
