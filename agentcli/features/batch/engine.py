"""The engine of a batch: its workers, as processes of this machine or on another `BatchEngine`."""

import asyncio
import hashlib
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from platformdirs import user_cache_path

from agentcli.features.batch.tasks import Task, TaskLimits
from agentcli.log.lock import SessionInUse, SessionLock
from agentcli.system.git import NOT_INTO_OTHERS, add_worktree, run_git
from agentcli.system.process import run_to_completion, signal_of_death
from agentcli.types.errors import Ending, RunOutcome, SettingsError

LINE_LIMIT_BYTES = 64 * 1024 * 1024
PATIENCE_S = 30.0
"""The time a worker has to close its session after it was asked to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJob:
    argv: tuple[str, ...]
    stdin: bytes
    stdout_path: Path
    """The file for stdout."""
    stderr_path: Path
    """The file for stderr."""


class BatchEngine(Protocol):
    async def run(self, job: WorkerJob, on_line: Callable[[bytes], None]) -> int:
        """Call `on_line` with every line of stdout; return the exit code as Popen does.

        When cancelled, stop the worker.
        """
        ...

    def close(self) -> None: ...


class LocalEngine:
    async def run(self, job: WorkerJob, on_line: Callable[[bytes], None]) -> int:
        with job.stderr_path.open("wb") as progress, job.stdout_path.open("wb") as events:
            async with _start_worker(job, progress.fileno()) as worker:
                assert worker.stdout is not None
                async for line in worker.stdout:
                    events.write(line)
                    on_line(line)
                return await worker.wait()

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


@asynccontextmanager
async def _start_worker(job: WorkerJob, stderr: int) -> AsyncIterator[asyncio.subprocess.Process]:
    worker = await asyncio.create_subprocess_exec(
        *job.argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        limit=LINE_LIMIT_BYTES,
        start_new_session=True,  # Ctrl-C is for us: we stop the workers
    )
    try:
        assert worker.stdin is not None
        with suppress(ConnectionError):
            worker.stdin.write(job.stdin)
            await worker.stdin.drain()
        worker.stdin.close()
        yield worker
    finally:
        await run_to_completion(_stop_worker(worker))


async def _stop_worker(worker: asyncio.subprocess.Process) -> None:
    """Stop a worker that still runs: terminate it, then kill it if it does not end."""
    if worker.returncode is not None:
        return
    with suppress(ProcessLookupError):
        worker.terminate()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await worker.wait()
    except TimeoutError:
        worker.kill()
        await worker.wait()


# A directory for each task: a git worktree of one commit, or a copy without git.


class TaskTrees:
    def __init__(self, workspace: Path, *, out: Path) -> None:
        self._workspace = workspace
        self._out = out
        key = hashlib.sha256(os.fsencode(out)).hexdigest()[:12]
        self._directory = user_cache_path("agentcli", appauthor=False) / "trees" / key
        self._root, self.commit = _find_repository(workspace)

    @property
    def lacks_changes(self) -> bool:
        """True if the user has uncommitted changes, which are in none of the directories."""
        return bool(
            self.commit
            and run_git("status", "--porcelain", NOT_INTO_OTHERS, cwd=self._workspace).strip()
        )

    def make(self, name: str) -> Path:
        """Make a fresh directory, removing what an earlier attempt left.

        Raise SettingsError on failure.
        """
        self.remove(name)
        tree = self._directory / name
        try:
            tree.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.commit:
                add_worktree(tree, self.commit, root=self._root)
            else:
                shutil.copytree(self._workspace, tree, symlinks=True, ignore=self._ignore_names)
        except (OSError, shutil.Error) as error:
            raise SettingsError(f"cannot create {tree}: {error}", hint="free some space") from error
        return tree / self._workspace.relative_to(self._root)

    def remove(self, name: str) -> None:
        tree = self._directory / name
        if not tree.exists():
            return
        if self.commit:
            with suppress(SettingsError):  # one that is half made is removed as a plain directory
                run_git("worktree", "remove", "--force", "--force", str(tree), cwd=self._root)
        shutil.rmtree(tree, ignore_errors=True)
        if self.commit:
            run_git("worktree", "prune", cwd=self._root)

    def _ignore_names(self, directory: str, names: list[str]) -> list[str]:
        """Return the names not to copy: the batch's own output, and sockets and pipes."""
        paths = {name: Path(directory, name) for name in names}
        return [
            name
            for name, path in paths.items()
            if path == self._out
            or path == self._directory
            or not (path.is_symlink() or path.is_dir() or path.is_file())
        ]


def _find_repository(workspace: Path) -> tuple[Path, str]:
    """Return the repository's root and its commit; the workspace and "" if there is no commit."""
    try:
        root = Path(run_git("rev-parse", "--show-toplevel", cwd=workspace).rstrip("\n")).resolve()
        commit = run_git("rev-parse", "--verify", "HEAD^{commit}", cwd=workspace).strip()
        if workspace != root:
            run_git("ls-tree", "-d", f"{commit}:{workspace.relative_to(root).as_posix()}", cwd=root)
    except (SettingsError, ValueError):
        return workspace, ""
    return root, commit


# Many tasks on a few workers, each task in its own process, tree and session.


ATTEMPTS = 3
"""The attempts at a task whose worker died without a result."""

EngineName = Literal["local", "ray"]
ENGINES: tuple[EngineName, ...] = ("local", "ray")

Result = dict[str, Any]


class BatchListener(Protocol):
    """A listener for the progress of a batch. Must not raise."""

    def on_start(self, task: Task) -> None: ...

    def on_event(self, task: Task, event: Result) -> None:
        """Handle a line of the task's `stream-json`."""
        ...

    def on_crash(self, task: Task, how: str) -> None:
        """Handle a worker that ended without a result. The task is run again, but not for ever."""
        ...

    def on_wait(self, task: Task, wait_s: float) -> None:
        """Handle a task whose provider limits the rate: all workers wait, then it goes on."""
        ...

    def on_end(self, task: Task, result: Result) -> None: ...


class RateLimitGate:
    """Lets no worker start while a provider limits the rate."""

    def __init__(self) -> None:
        self._opens_at = 0.0

    def hold(self, wait_s: float) -> None:
        self._opens_at = max(self._opens_at, asyncio.get_running_loop().time() + wait_s)

    async def wait(self) -> None:
        left_s = self._opens_at - asyncio.get_running_loop().time()
        if left_s > 0:
            await asyncio.sleep(left_s)
            await self.wait()  # another task may have made it longer


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    workspace: Path
    out: Path
    options: tuple[str, ...] = ()
    """The options of `agentcli run` for all tasks."""
    workers: int = 2
    retries_failed: bool = False
    keeps_trees: bool = False


class Batch:
    def __init__(
        self,
        plan: BatchPlan,
        tasks: Sequence[Task],
        *,
        listener: BatchListener,
        engine: BatchEngine,
    ) -> None:
        """Raise SettingsError if another batch writes to the same directory."""
        self._plan = plan
        self._engine = engine
        self._tasks = tasks
        self._listener = listener
        self._lock = _lock_output(plan.out)
        self.trees = TaskTrees(plan.workspace, out=plan.out)
        self._trees_elsewhere: dict[Path, TaskTrees] = {}
        """Those of tasks that have a workspace of their own."""
        self._one_tree_at_a_time = asyncio.Lock()
        self._gate = RateLimitGate()
        self.results: dict[str, Result] = {}
        for task in tasks:
            if (stored := self._load_result(task)) is not None:
                self.results[task.id] = stored

    async def run(self) -> None:
        """Run the tasks.

        When cancelled, stop the workers, which close their sessions; leave the rest.
        """
        waiting = iter([task for task in self._tasks if task.id not in self.results])
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._plan.workers):
                    group.create_task(self._run_worker(waiting))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def close(self) -> None:
        self._lock.release()

    async def _run_worker(self, waiting: Iterable[Task]) -> None:
        for task in waiting:
            self._listener.on_start(task)
            result = await self._run_task(task)
            self.results[task.id] = result
            self._listener.on_end(task, result)

    async def _run_task(self, task: Task) -> Result:
        self._task_directory(task).mkdir(parents=True, exist_ok=True)
        result, attempts, tree = await self._run_with_retries(task)
        if result["status"] == "ok" and not self._plan.keeps_trees:
            async with self._one_tree_at_a_time:
                await asyncio.to_thread(self._find_trees(task).remove, task.id)
        result = {
            "id": task.id,
            "fingerprint": task.fingerprint,
            "attempts": attempts,
            "commit": self._find_trees(task).commit or None,
            "tree": str(tree) if tree.exists() else None,
            **{key: value for key, value in result.items() if key not in _STREAM_KEYS},
        }
        _write_json(self._task_directory(task) / "done.json", result)
        return result

    def _find_trees(self, task: Task) -> TaskTrees:
        if task.workspace is None:
            return self.trees
        if task.workspace not in self._trees_elsewhere:
            trees = TaskTrees(task.workspace, out=self._plan.out)
            self._trees_elsewhere[task.workspace] = trees
        return self._trees_elsewhere[task.workspace]

    async def _run_with_retries(self, task: Task) -> tuple[Result, int, Path]:
        """Run until there is a result, but not for ever. Return it with the last attempt's tree."""
        attempts = crashes = 0
        limits = TaskLimits((*self._plan.options, *task.options))
        while True:
            attempts += 1
            await self._gate.wait()
            async with self._one_tree_at_a_time:
                tree = await asyncio.to_thread(self._find_trees(task).make, task.id)
            result, how = await self._run_once(task, tree, options=limits.options)
            if result is None:
                crashes += 1
                self._listener.on_crash(task, how)
                if crashes == ATTEMPTS:
                    return _build_lost_result(f"{how}, {crashes} times"), attempts, tree
            elif (wait_s := limits.find_wait_s(result)) is None:
                return limits.add_earlier_cost(result), attempts, tree
            else:
                self._gate.hold(wait_s)
                self._listener.on_wait(task, wait_s)

    async def _run_once(
        self, task: Task, tree: Path, *, options: Sequence[str]
    ) -> tuple[Result | None, str]:
        """Return the result, or how the worker ended without one."""
        directory = self._task_directory(task)
        results: list[Result] = []

        def handle_line(line: bytes) -> None:
            event = _parse_event(line)
            self._listener.on_event(task, event)
            match event:
                case {"type": "result"}:
                    results.append(event)
                case {"type": "retry", "http": 429, "wait_s": float(wait_s)}:
                    self._gate.hold(wait_s)

        work = WorkerJob(
            argv=self._build_argv(task, tree, options),
            stdin=task.prompt.encode("utf-8", "replace"),
            stdout_path=directory / "events.jsonl",
            stderr_path=directory / "stderr.txt",
        )
        code = await self._engine.run(work, handle_line)
        if results and results[-1].get("status") != "interrupted":
            return results[-1], ""
        by = signal_of_death(code)
        return None, f"killed by {by}" if by else f"exited with code {code}"

    def _build_argv(self, task: Task, tree: Path, options: Sequence[str]) -> tuple[str, ...]:
        return (
            # -P: nothing is imported from the current directory.
            *(sys.executable, "-P", "-m", "agentcli", "run", "-", "-C", str(tree)),
            *(
                "-o",
                "stream-json",
                "--output-dir",
                str(self._task_directory(task)),
                "--no-annotations",
            ),
            *options,
        )

    def _task_directory(self, task: Task) -> Path:
        return self._plan.out / "tasks" / task.id

    def _load_result(self, task: Task) -> Result | None:
        """Return the stored result of a task that need not be run."""
        try:
            result: Result = json.loads((self._task_directory(task) / "done.json").read_bytes())
            is_same = result["fingerprint"] == task.fingerprint
            is_final = result["status"] == "ok" or not self._plan.retries_failed
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return result if is_same and is_final else None


_STREAM_KEYS = ("v", "seq", "ts", "type", "structured")


def _build_lost_result(message: str) -> Result:
    lost = RunOutcome(ending=Ending.INTERNAL)
    error = {"code": Ending.INTERNAL, "message": message}
    return {"status": lost.status, "exit_code": int(lost.exit_code), "error": error}


def build_engine(name: EngineName, *, workers: int) -> BatchEngine:
    """Raise SettingsError if the engine is not installed or not reached."""
    if name == "local":
        return LocalEngine()
    try:
        from agentcli.features.batch.ray_engine import build_ray_engine
    except ImportError as error:
        raise SettingsError(
            f"cannot use the engine {name}: {error}", hint="pip install ray"
        ) from error
    return build_ray_engine(workers=workers)


def _lock_output(out: Path) -> SessionLock:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / ".gitignore").write_text("*\n", encoding="utf-8")
        return SessionLock(out)
    except SessionInUse as error:
        raise SettingsError(
            f"another batch is writing to {out}", hint="wait for it, or use another --out"
        ) from error
    except OSError as error:
        raise SettingsError(f"cannot write to {out}: {error.strerror}", hint="--out DIR") from error


def _parse_event(line: bytes) -> Result:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _write_json(path: Path, value: Result) -> None:
    new = path.with_name(f".{path.name}.new")
    new.write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    new.replace(path)
