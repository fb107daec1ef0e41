"""What a run amounts to, added up from its events: the figures of every face's last word."""

import time
from dataclasses import dataclass, field
from typing import Any

from agentcli.types.errors import EXIT_OF_ENDING, Exit
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Event,
    ModelReplied,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.messages import ToolCall, Usage
from agentcli.types.tools import Diff
from agentcli.types.verdicts import Verdict

STATUS_OF_EXIT: dict[Exit, str] = {
    Exit.DONE: "ok",
    Exit.DENIED: "denied",
    Exit.LIMIT: "limit",
    Exit.TIMEOUT: "limit",
    Exit.VERIFY_FAILED: "failed",
    Exit.REFUSED: "failed",
    Exit.SCHEMA_UNMET: "failed",
    Exit.HANGUP: "interrupted",
    Exit.INTERRUPTED: "interrupted",
    Exit.TERMINATED: "interrupted",
}
"""Every other code is an error."""


@dataclass(slots=True)
class Tally:
    began: float = field(default_factory=time.monotonic)
    turns: int = 0
    answer: str = ""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    model_s: float = 0.0
    failed_tools: int = 0
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    denials: list[tuple[ToolCall, Verdict]] = field(default_factory=list)
    ended: TurnEnded | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self.answer, self.ended = "", None
            case ModelReplied():
                self._replied(event)
            case CallJudged(call=call, verdict=verdict) if verdict.decision == "deny":
                self.denials.append((call, verdict))
            case CallFinished(result=result):
                self.failed_tools += result.status == "error"
                if isinstance(result.details, Diff) and result.status == "ok":
                    added, removed = self.changed.get(result.details.path, (0, 0))
                    self.changed[result.details.path] = (
                        added + result.details.added,
                        removed + result.details.removed,
                    )
            case TurnEnded():
                self.ended = event
            case _:
                pass

    def _replied(self, event: ModelReplied) -> None:
        self.turns += 1
        self.usage += event.message.usage
        self.model_s += event.duration_s
        if event.cost_usd is None:
            self.cost_usd = None
        elif self.cost_usd is not None:
            self.cost_usd += event.cost_usd
        self.answer = "" if event.message.tool_calls else event.message.text

    @property
    def exit_code(self) -> Exit:
        return Exit.INTERNAL if self.ended is None else EXIT_OF_ENDING[self.ended.ending]

    def result(self, exit_code: Exit, error: dict[str, str] | None) -> dict[str, Any]:
        """The `result` event of the JSON outputs."""
        return {
            "type": "result",
            "status": STATUS_OF_EXIT.get(exit_code, "error"),
            "exit_code": int(exit_code),
            "answer": self.answer,
            "error": error,
            "turns": self.turns,
            "duration_ms": round((time.monotonic() - self.began) * 1000),
            "api_ms": round(self.model_s * 1000),
            "usage": usage_json(self.usage),
            "cost_usd": self.cost_usd,
            "files_changed": [
                {"path": path, "added": added, "removed": removed}
                for path, (added, removed) in self.changed.items()
            ],
            "denials": [
                {"id": call.id, "tool": call.name, "input": call.input, "rule": verdict.rule}
                for call, verdict in self.denials
            ],
            "failed_tools": self.failed_tools,
        }


def usage_json(usage: Usage) -> dict[str, int]:
    return {
        "input": usage.prompt_tokens,
        "cached": usage.cache_read_tokens,
        "cache_written": usage.cache_write_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
    }
