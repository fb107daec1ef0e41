"""The engine of a batch: its workers, as processes of this machine or on another `BatchEngine`."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from agentcli.features.batch.tasks import Task, TaskLimits
from agentcli.features.batch.trees import TaskTrees
from agentcli.log.lock import lock_output
from agentcli.system.extras import build_extra_command, build_install_command
from agentcli.system.files import write_private_json
from agentcli.system.process import name_death_signal, run_to_completion
from agentcli.system.strict_json import parse_object
from agentcli.types.errors import Ending, RunOutcome, SettingsError

if TYPE_CHECKING:
    from agentcli.features.batch.store import ResultStore

LINE_LIMIT_BYTES = 64 * 1024 * 1024
PATIENCE_S = 30.0
"""The time a worker has to close its session after it was asked to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJob:
    """One attempt at a task."""

    name: str
    trees: TaskTrees
    options: tuple[str, ...]
    """The options of `agentcli run`."""
    stdin: bytes
    directory: Path
    """The directory for what the run writes, with its stdout and stderr."""
    files: Mapping[str, Path]
    """Options whose value is a file of this machine."""


EVENTS, PROGRESS = "events.jsonl", "stderr.txt"
"""The files for stdout and stderr."""


class WorkerLost(Exception):
    """A worker ended without a result, in a way that an exit code does not say."""

    def __init__(self, reason: str, *, is_by_task: bool) -> None:
        """`is_by_task` is false if the machine was lost: it counts as no attempt."""
        super().__init__(reason)
        self.is_by_task = is_by_task


class BatchEngine(Protocol):
    async def run(self, job: WorkerJob, on_line: Callable[[bytes], None]) -> int:
        """Make the tree, call `on_line` with every line of stdout, and return the exit code.

        The code is that of Popen. When cancelled, stop the worker. Raise WorkerLost.
        """
        ...

    def close(self) -> None: ...


def build_argv(tree: Path, directory: Path, *, options: Sequence[str]) -> tuple[str, ...]:
    return (
        # -P: nothing is imported from the current directory.
        *(sys.executable, "-P", "-m", "agentcli", "run", "-", "-C", str(tree)),
        *("-o", "stream-json", "--output-dir", str(directory), "--no-annotations"),
        *options,
    )


class LocalEngine:
    async def run(self, job: WorkerJob, on_line: Callable[[bytes], None]) -> int:
        tree = await asyncio.to_thread(job.trees.make, job.name)
        files = (f"--{option}={path}" for option, path in job.files.items())
        argv = build_argv(tree, job.directory, options=(*job.options, *files))
        output = job.directory
        with (output / PROGRESS).open("wb") as progress, (output / EVENTS).open("wb") as events:
            async with _start_worker(argv, job.stdin, stderr=progress.fileno()) as worker:
                assert worker.stdout is not None
                async for line in worker.stdout:
                    events.write(line)
                    on_line(line)
                return await worker.wait()

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


@asynccontextmanager
async def _start_worker(
    argv: Sequence[str], stdin: bytes, *, stderr: int
) -> AsyncIterator[asyncio.subprocess.Process]:
    worker = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        limit=LINE_LIMIT_BYTES,
        start_new_session=True,  # Ctrl-C is for us: we stop the workers
    )
    try:
        assert worker.stdin is not None
        with suppress(ConnectionError):
            worker.stdin.write(stdin)
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


# Many tasks on a few workers, each task in its own process, tree and session.


ATTEMPTS = 3
"""The attempts at a task whose worker died without a result."""
LOST_MACHINES = 20
"""The most machines that may be lost under one task."""

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
    files: Mapping[str, Path] = field(default_factory=dict)
    """Of these, the options whose value is a file."""
    workers: int = 2
    retries_failed: bool = False
    keeps_trees: bool = False
    store_url: str | None = None
    """An object store that gets all results, too."""


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
        self._lock = lock_output(plan.out, "batch")
        self.trees = TaskTrees(plan.workspace, out=plan.out)
        self._trees_elsewhere: dict[Path, TaskTrees] = {}
        """Those of tasks that have a workspace of their own."""
        self._gate = RateLimitGate()
        self.results: dict[str, Result] = {}
        self._store = _open_store(plan.store_url) if plan.store_url else None
        self._in_store = self._store.find_done() if self._store else set()
        for task in tasks:
            self._fetch(task)
            if (stored := self._load_result(task)) is not None:
                self.results[task.id] = stored

    async def run(self) -> None:
        """Run the tasks.

        When cancelled, stop the workers, which close their sessions; leave the rest.
        """
        waiting = iter([task for task in self._tasks if task.id not in self.results])
        for name in self.results.keys() - self._in_store:  # stopped before it was stored
            await self._put(name)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._plan.workers):
                    group.create_task(self._run_worker(waiting))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    def put_reports(self) -> None:
        if self._store:
            self._store.put_reports(self._plan.out)

    def close(self) -> None:
        self._lock.release()

    async def _run_worker(self, waiting: Iterable[Task]) -> None:
        for task in waiting:
            self._listener.on_start(task)
            result = await self._run_task(task)
            self.results[task.id] = result
            self._listener.on_end(task, result)

    async def _run_task(self, task: Task) -> Result:
        self._get_directory(task.id).mkdir(parents=True, exist_ok=True)
        if self._store and task.id in self._in_store:
            await asyncio.to_thread(self._store.drop, task.id)
        result, attempts = await self._run_with_retries(task)
        trees = self._find_trees(task)
        not_in_patch = await asyncio.to_thread(_list_omissions, result, trees, name=task.id)
        is_wanted = self._plan.keeps_trees or bool(not_in_patch)
        if result["status"] == "ok" and not is_wanted:
            await asyncio.to_thread(trees.remove, task.id)
        tree = trees.get_workspace(task.id)
        result = {
            "id": task.id,
            "fingerprint": task.fingerprint,
            "attempts": attempts,
            "commit": trees.commit or None,
            "tree": str(tree) if tree.exists() else None,
            **{key: value for key, value in result.items() if key not in _STREAM_KEYS},
            "not_in_patch": not_in_patch,
        }
        write_private_json(self._get_directory(task.id) / "done.json", result)
        await self._put(task.id)
        return result

    def _fetch(self, task: Task) -> None:
        """Fetch a result that the store has: the last one, maybe made on another machine."""
        if self._store and task.id in self._in_store:
            self._store.fetch(task.id, self._get_directory(task.id))

    async def _put(self, name: str) -> None:
        if self._store:
            await asyncio.to_thread(self._store.put, name, self._get_directory(name))

    def _find_trees(self, task: Task) -> TaskTrees:
        if task.workspace is None:
            return self.trees
        if task.workspace not in self._trees_elsewhere:
            trees = TaskTrees(task.workspace, out=self._plan.out)
            self._trees_elsewhere[task.workspace] = trees
        return self._trees_elsewhere[task.workspace]

    async def _run_with_retries(self, task: Task) -> tuple[Result, int]:
        """Run until there is a result, but not for ever. Return it with the number of attempts."""
        attempts = crashes = losses = 0
        limits = TaskLimits((*self._plan.options, *task.options))
        while True:
            attempts += 1
            await self._gate.wait()
            try:
                result = await self._run_once(task, options=limits.options)
            except WorkerLost as lost:
                self._listener.on_crash(task, str(lost))
                crashes, losses = crashes + lost.is_by_task, losses + (not lost.is_by_task)
                if crashes == ATTEMPTS or losses == LOST_MACHINES:
                    times = crashes if crashes == ATTEMPTS else losses
                    return _build_lost_result(f"{lost}, {times} times"), attempts
                continue
            if (wait_s := limits.find_wait_s(result)) is None:
                return limits.add_earlier_cost(result), attempts
            self._gate.hold(wait_s)
            self._listener.on_wait(task, wait_s)

    async def _run_once(self, task: Task, *, options: tuple[str, ...]) -> Result:
        """Raise WorkerLost if the worker ended without a result."""
        results: list[Result] = []

        def handle_line(line: bytes) -> None:
            event = parse_object(line)
            self._listener.on_event(task, event)
            match event:
                case {"type": "result"}:
                    results.append(event)
                case {"type": "retry", "http": 429, "wait_s": float(wait_s)}:
                    self._gate.hold(wait_s)

        job = WorkerJob(
            name=task.id,
            trees=self._find_trees(task),
            options=options,
            stdin=task.prompt.encode("utf-8", "replace"),
            directory=self._get_directory(task.id),
            files=self._plan.files,
        )
        code = await self._engine.run(job, handle_line)
        if results and results[-1].get("status") != "interrupted":
            return results[-1]
        by = name_death_signal(code)
        raise WorkerLost(f"killed by {by}" if by else f"exited with code {code}", is_by_task=True)

    def _get_directory(self, name: str) -> Path:
        return self._plan.out / "tasks" / name

    def _load_result(self, task: Task) -> Result | None:
        """Return the stored result of a task that need not be run."""
        try:
            result: Result = json.loads((self._get_directory(task.id) / "done.json").read_bytes())
            is_same = result["fingerprint"] == task.fingerprint
            is_final = result["status"] == "ok" or not self._plan.retries_failed
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return result if is_same and is_final else None


def _list_omissions(result: Result, trees: TaskTrees, *, name: str) -> list[dict[str, str]]:
    """Return what would be lost with the directory of a task, since its patch does not have it."""
    found = [one for one in result.get("not_in_patch") or () if not Path(one["path"]).is_absolute()]
    commit = trees.find_own_commit(name)
    own = [{"path": ".", "reason": f"it has commits, the last is {commit[:12]}"}] if commit else []
    made = ({"path": path, "reason": REPOSITORY} for path in trees.find_repositories(name))
    unstored = ({"path": path, "reason": NEVER_STORED} for path in trees.find_unstored(name))
    return [*found, *own, *made, *unstored]


REPOSITORY = "a repository of its own"
NEVER_STORED = "in a directory that is never stored"
"""Why a patch does not have a path."""
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
            f"cannot use the engine {name}: {error}", hint=build_extra_command("ray")
        ) from error
    return build_ray_engine(workers=workers)


def _open_store(url: str) -> "ResultStore":
    """Raise SettingsError if it cannot be opened."""
    try:
        from agentcli.features.batch.store import ResultStore
    except ImportError as error:
        raise SettingsError(
            f"cannot open {url}: {error}", hint=build_install_command("fsspec")
        ) from error
    return ResultStore(url)
