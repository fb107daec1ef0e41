"""Many tasks on a few workers, each task in a process, a tree and a session of its own.

A task is done when its `done.json` is there: it is written last, at once, and by this process
alone, so whatever dies in between, no task is lost and none that is done is run again.
"""

import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from agentcli.app.batch.engine import Engine, LocalEngine, Work
from agentcli.app.batch.tasks import Task
from agentcli.app.batch.trees import Trees
from agentcli.machine.process import killer
from agentcli.record.lock import InUse, Lock
from agentcli.types.errors import Outcome, SettingsError
from agentcli.types.events import Ending

ATTEMPTS = 3
"""Of a task whose worker died without a word."""

EngineName = Literal["local", "ray"]
ENGINES: tuple[EngineName, ...] = ("local", "ray")

Result = dict[str, Any]


class Watcher(Protocol):
    """Somebody who looks on. Must not raise."""

    def began(self, task: Task) -> None: ...

    def heard(self, task: Task, event: Result) -> None:
        """A line of the task's `stream-json`."""
        ...

    def died(self, task: Task, how: str) -> None:
        """Its worker is gone without a result; it will be run again, but not for ever."""
        ...

    def ended(self, task: Task, result: Result) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    workspace: Path
    out: Path
    options: tuple[str, ...] = ()
    """Of `agentcli run`, for all tasks."""
    workers: int = 2
    retries_failed: bool = False
    keeps_trees: bool = False


class Batch:
    def __init__(
        self, plan: Plan, tasks: Sequence[Task], *, watcher: Watcher, engine: Engine
    ) -> None:
        """Raises SettingsError where another batch writes to the same place."""
        self._plan = plan
        self._engine = engine
        self._tasks = tasks
        self._watcher = watcher
        self._lock = _locked(plan.out)
        self.trees = Trees(plan.workspace, out=plan.out)
        self._one_tree_at_a_time = asyncio.Lock()
        self.results: dict[str, Result] = {}
        for task in tasks:
            if (kept := self._kept(task)) is not None:
                self.results[task.id] = kept

    async def run(self) -> None:
        """Cancelled, it stops the workers, which close their sessions, and leaves the rest."""
        waiting = iter([task for task in self._tasks if task.id not in self.results])
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._plan.workers):
                    group.create_task(self._work(waiting))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def close(self) -> None:
        self._lock.release()

    async def _work(self, waiting: Iterable[Task]) -> None:
        for task in waiting:
            self._watcher.began(task)
            result = await self._done(task)
            self.results[task.id] = result
            self._watcher.ended(task, result)

    async def _done(self, task: Task) -> Result:
        self._place(task).mkdir(parents=True, exist_ok=True)
        result, attempts, tree = await self._tried(task)
        if result["status"] == "ok" and not self._plan.keeps_trees:
            async with self._one_tree_at_a_time:
                await asyncio.to_thread(self.trees.remove, task.id)
        result = {
            "id": task.id,
            "fingerprint": task.fingerprint,
            "attempts": attempts,
            "commit": self.trees.commit or None,
            "tree": str(tree) if tree.exists() else None,
            **{key: value for key, value in result.items() if key not in _OF_THE_STREAM},
        }
        _write(self._place(task) / "done.json", result)
        return result

    async def _tried(self, task: Task) -> tuple[Result, int, Path]:
        """Until there is a result, but not for ever; with the tree of the last attempt."""
        attempts = 0
        while True:
            attempts += 1
            async with self._one_tree_at_a_time:
                tree = await asyncio.to_thread(self.trees.make, task.id)
            result, how = await self._attempt(task, tree)
            if result is not None:
                return result, attempts, tree
            self._watcher.died(task, how)
            if attempts == ATTEMPTS:
                error = {"code": Ending.INTERNAL, "message": f"{how}, {attempts} times"}
                lost = Outcome(ending=Ending.INTERNAL)
                return (
                    {"status": lost.status, "exit_code": int(lost.exit_code), "error": error},
                    attempts,
                    tree,
                )

    async def _attempt(self, task: Task, tree: Path) -> tuple[Result | None, str]:
        """The result, or how the worker ended without one."""
        place = self._place(task)
        results: list[Result] = []

        def heard(line: bytes) -> None:
            event = _event(line)
            self._watcher.heard(task, event)
            if event.get("type") == "result":
                results.append(event)

        work = Work(
            argv=self._argv(task, tree),
            stdin=task.prompt.encode("utf-8", "replace"),
            events=place / "events.jsonl",
            story=place / "stderr.txt",
        )
        code = await self._engine.run(work, heard)
        if results and results[-1].get("status") != "interrupted":
            return results[-1], ""
        by = killer(code)
        return None, f"killed by {by}" if by else f"left with exit code {code}"

    def _argv(self, task: Task, tree: Path) -> tuple[str, ...]:
        return (
            # -P: what lies in the current directory is not imported.
            *(sys.executable, "-P", "-m", "agentcli", "run", "-", "-C", str(tree)),
            *("-o", "stream-json", "--output-dir", str(self._place(task)), "--no-annotations"),
            *self._plan.options,
            *task.options,
        )

    def _place(self, task: Task) -> Path:
        return self._plan.out / "tasks" / task.id

    def _kept(self, task: Task) -> Result | None:
        """The result of a task that need not be run."""
        try:
            kept: Result = json.loads((self._place(task) / "done.json").read_bytes())
            is_same = kept["fingerprint"] == task.fingerprint
            is_final = kept["status"] == "ok" or not self._plan.retries_failed
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return kept if is_same and is_final else None


_OF_THE_STREAM = ("v", "seq", "ts", "type", "structured", "claims")


def open_engine(name: EngineName, *, workers: int) -> Engine:
    """Raises SettingsError where it is not installed."""
    if name == "local":
        return LocalEngine()
    try:
        from agentcli.app.batch.ray_engine import RayEngine
    except ImportError as error:
        raise SettingsError(
            f"the engine {name} cannot be used: {error}", hint="pip install 'agentcli[ray]'"
        ) from error
    return RayEngine(workers=workers)


def _locked(out: Path) -> Lock:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / ".gitignore").write_text("*\n", encoding="utf-8")
        return Lock(out)
    except InUse as error:
        raise SettingsError(
            f"another batch is writing to {out}", hint="wait for it, or name another --out"
        ) from error
    except OSError as error:
        raise SettingsError(f"cannot write to {out}: {error.strerror}", hint="--out DIR") from error


def _event(line: bytes) -> Result:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _write(path: Path, value: Result) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    new.replace(path)
