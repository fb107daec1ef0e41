"""A batch while it runs: a line for every task that ended, and on a terminal one that moves."""

import shutil
from typing import Any

from agentcli.app.batch.tasks import Task
from agentcli.machine.plain import visible
from agentcli.types.messages import ToolCall
from agentcli.ui.lines import duration, shortened, target
from agentcli.ui.streams import err_is_terminal, write_err

CLEAR = "\r\x1b[K"


class Progress:
    """Implements `app.batch.work.Watcher` on stderr."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._doing: dict[str, str] = {}
        """What each running task is at."""
        self._moves = err_is_terminal()

    def skip(self, count: int) -> None:
        """These were done before."""
        self._done += count
        write_err(f"{count} of {self._total} tasks are done already\n")

    def began(self, task: Task) -> None:
        self._doing[task.id] = "starting"
        self._move()

    def heard(self, task: Task, event: dict[str, Any]) -> None:
        match event:
            case {"type": "tool.requested", "tool": str(name), "input": given}:
                about = target(ToolCall(id="", name=name, input=given))
                self._doing[task.id] = f"{name} {about}"
            case {"type": "turn.started"}:
                self._doing[task.id] = "thinking"
            case _:
                return
        self._move()

    def died(self, task: Task, how: str) -> None:
        self._line(f"{task.id}: its worker was {how}; nothing of it is kept")

    def ended(self, task: Task, result: dict[str, Any]) -> None:
        self._doing.pop(task.id, None)
        self._done += 1
        width = len(str(self._total))
        self._line(f"[{self._done:>{width}}/{self._total}] {summary(task.id, result)}")

    def leave(self) -> None:
        """The line that moved is gone."""
        if self._moves:
            write_err(CLEAR)

    def _line(self, text: str) -> None:
        self.leave()
        write_err(f"{visible(text)}\n")
        self._move()

    def _move(self) -> None:
        if not self._moves:
            return
        running = "  ".join(f"{name}: {doing}" for name, doing in self._doing.items())
        columns = shutil.get_terminal_size().columns
        text = visible(f"{self._done} of {self._total} done  {running}")
        write_err(f"{CLEAR}{shortened(text, max(columns - 1, 20))}")


def summary(name: str, result: dict[str, Any]) -> str:
    """One line: how it went, what it took, and why it failed."""
    took = duration((result.get("duration_ms") or 0) / 1000)
    cost = result.get("cost_usd")
    spent = f", {about(result)}${cost:.4f}" if cost else ""
    error = result.get("error") or {}
    why = f": {error.get('message')}" if error.get("message") else ""
    return f"{result['status']:<6} {name} ({took}{spent}){why}"


def about(result: dict[str, Any]) -> str:
    """Before a task's cost, where a part of it is estimated."""
    return "about " if result.get("cost_is_estimate") else ""
