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
    from agentcli.guard.evaluator import EvaluationRequest


class CallEvaluator:
    def __init__(
        self,
        *,
        model: ModelInUse,
        open_own_model: Callable[[], ModelInUse] | None,
        clean: Clean,
        emit: Emit,
    ) -> None:
        """`model`: the session's. `open_own`: another one for opinions; None: the session's."""
        self.model = model
        self._open_own_model = open_own_model
        self._own_model: ModelInUse | None = None
        self._clean = clean
        self._emit = emit

    async def __call__(self, request: "EvaluationRequest") -> Verdict:
        from agentcli.agent.unseen import RecordingProvider
        from agentcli.guard.evaluator import ModelEvaluator

        try:
            if self._open_own_model is not None and self._own_model is None:
                self._own_model = self._open_own_model()
        except SettingsError as error:
            reason = f"there is no model to ask: {error} ({request.verdict.reason})"
            return replace(request.verdict, reason=reason)
        asked = self._own_model or self.model
        wire = RecordingProvider(asked.provider, emit=self._emit, price=asked.price)
        return await ModelEvaluator(wire, model=asked.name, clean=self._clean)(request)

    async def close(self) -> None:
        if self._own_model is not None:
            await self._own_model.provider.close()
