"""A batch while it runs: a line for every task that ended, and on a terminal one that moves."""

import shutil
from typing import Any

from agentcli.app.batch.tasks import Task
from agentcli.machine.plain import show_controls
from agentcli.types.messages import ToolCall
from agentcli.ui.lines import format_duration, format_target, shorten_middle
from agentcli.ui.streams import err_is_terminal, write_err

CLEAR = "\r\x1b[K"


class BatchProgress:
    """Implements `app.batch.work.Watcher` on stderr."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._doing: dict[str, str] = {}
        """What each running task is at."""
        self._draws = err_is_terminal()

    def skip(self, count: int) -> None:
        """These were done before."""
        self._done += count
        write_err(f"{count} of {self._total} tasks are done already\n")

    def on_start(self, task: Task) -> None:
        self._doing[task.id] = "starting"
        self._draw_line()

    def on_event(self, task: Task, event: dict[str, Any]) -> None:
        match event:
            case {"type": "tool.requested", "tool": str(name), "input": given}:
                about = format_target(ToolCall(id="", name=name, input=given))
                self._doing[task.id] = f"{name} {about}"
            case {"type": "turn.started"}:
                self._doing[task.id] = "thinking"
            case _:
                return
        self._draw_line()

    def on_crash(self, task: Task, how: str) -> None:
        self._write_line(f"{task.id}: its worker was {how}; nothing of it is kept")

    def on_end(self, task: Task, result: dict[str, Any]) -> None:
        self._doing.pop(task.id, None)
        self._done += 1
        width = len(str(self._total))
        self._write_line(f"[{self._done:>{width}}/{self._total}] {format_result(task.id, result)}")

    def clear_line(self) -> None:
        """The line that moved is gone."""
        if self._draws:
            write_err(CLEAR)

    def _write_line(self, text: str) -> None:
        self.clear_line()
        write_err(f"{show_controls(text)}\n")
        self._draw_line()

    def _draw_line(self) -> None:
        if not self._draws:
            return
        running = "  ".join(f"{name}: {doing}" for name, doing in self._doing.items())
        columns = shutil.get_terminal_size().columns
        text = show_controls(f"{self._done} of {self._total} done  {running}")
        write_err(f"{CLEAR}{shorten_middle(text, max(columns - 1, 20))}")


def format_result(name: str, result: dict[str, Any]) -> str:
    """One line: how it went, what it took, and why it failed."""
    took = format_duration((result.get("duration_ms") or 0) / 1000)
    cost = result.get("cost_usd")
    spent = f", {format_estimate(result)}${cost:.4f}" if cost else ""
    error = result.get("error") or {}
    why = f": {error.get('message')}" if error.get("message") else ""
    return f"{result['status']:<6} {name} ({took}{spent}){why}"


def format_estimate(result: dict[str, Any]) -> str:
    """Before a task's cost, where a part of it is estimated."""
    return "about " if result.get("cost_is_estimate") else ""
