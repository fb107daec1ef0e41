"""Runs a suite: prepares each task, runs the attempts as a batch, then checks what they left.

Setup and checks run code that a suite or a model wrote. So each of them is a run of agentcli whose
model says one scripted word: the command runs in the sandbox, with its limits and its log.
"""

import asyncio
import glob
import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from agentcli.features.eval.measure import Attempt, FailureClass, TaskScore
from agentcli.features.eval.suite import FileSet, Suite, SuiteTask, list_files, write_files
from agentcli.log.lock import lock_output
from agentcli.system.files import remove_tree, write_private_json
from agentcli.system.git import add_worktree, run_git
from agentcli.system.strict_json import parse_object
from agentcli.types.errors import SettingsError, UsageError

Play = Literal["solution", "wrong"]
"""The files that a scripted model writes instead of a real one's."""

NOT_STARTED = (126, 127)
"""The exit codes of a shell that cannot start a command."""
SETUP_TIMEOUT_S = 600.0
Json = dict[str, Any]


def parse_play(word: str | None) -> Play | None:
    """Raise UsageError if there are no such files."""
    match word:
        case None | "solution" | "wrong":
            return word
        case _:
            raise UsageError(f"--play cannot be {word!r}", hint="--play takes solution or wrong")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalPlan:
    suite: Suite
    out: Path
    repeats: int = 1
    workers: int = 2
    options: tuple[str, ...] = ()
    """Options of `agentcli batch` for all tasks."""
    sandbox: str | None = None
    play: Play | None = None

    def __post_init__(self) -> None:
        """Raise UsageError if no rule could keep the checks from the model."""
        for path in self.unreadable:
            if set("{}\\") & set(str(path)):
                raise UsageError(
                    f"{path} has a brace or a backslash, which rules for paths cannot have",
                    hint="name another directory with --out, or rename that of the suite",
                )

    @property
    def unreadable(self) -> tuple[Path, Path]:
        """The directories that the model must not read."""
        return self.suite.path, self.out


class Evaluation:
    def __init__(self, plan: EvalPlan) -> None:
        """Raise SettingsError if another evaluation writes to the same directory."""
        self._plan = plan
        self._lock = lock_output(plan.out, "evaluation")
        self._slots = asyncio.Semaphore(plan.workers)
        self._failed_setups: dict[str, str] = {}
        self._ready = plan.out / "ready.json"
        write_private_json(self._ready, {"replies": ["Ready."], "afterwards": "Ready."})

    def close(self) -> None:
        self._lock.release()

    async def run(self) -> tuple[TaskScore, ...]:
        """Run what was not run before, and return the scores of all tasks."""
        await _run_all(self._prepare(task) for task in self._plan.suite.tasks)
        tasks = [one for one in self._plan.suite.tasks if one.id not in self._failed_setups]
        if tasks:
            await self._run_batch(tasks)
        found = [(task, number) for task in tasks for number in self._numbers]
        checked = await _run_all(self._check(task, number) for task, number in found)
        names = [_name_attempt(task, number) for task, number in found]
        attempts = dict(zip(names, checked, strict=True))
        return tuple(
            TaskScore(
                id=task.id,
                fingerprint=task.fingerprint,
                language=task.language,
                attempts=tuple(self._collect(task, attempts)),
            )
            for task in self._plan.suite.tasks
        )

    @property
    def _numbers(self) -> range:
        return range(1, self._plan.repeats + 1)

    def _collect(self, task: SuiteTask, attempts: dict[str, Attempt | None]) -> Iterator[Attempt]:
        if (why := self._failed_setups.get(task.id)) is not None:
            failed = Attempt(passed=False, failure="setup failed", message=why, cost_usd=0.0)
            yield from (failed for _ in self._numbers)
            return
        found = (attempts[_name_attempt(task, number)] for number in self._numbers)
        yield from (attempt for attempt in found if attempt is not None)

    # The tree that every attempt at a task begins with

    def _get_base(self, task: SuiteTask) -> Path:
        return self._plan.out / "bases" / task.key

    async def _prepare(self, task: SuiteTask) -> None:
        base, is_ready = self._get_base(task), self._get_base(task).with_suffix(".ready")
        try:
            if self._plan.play:
                self._write_script(task)
            if is_ready.exists():
                return
            remove_tree(base)
            await asyncio.to_thread(_write_base, task, base)
            write_files(task.hidden, self._get_hidden_path(task))
        except (OSError, ValueError, SettingsError) as error:
            self._failed_setups[task.id] = str(error)
            return
        if task.setup:
            ran = await self._run_command(task.setup, base, timeout_s=SETUP_TIMEOUT_S)
            if ran.exit_code != 0:
                self._failed_setups[task.id] = ran.describe(SETUP_TIMEOUT_S)
                remove_tree(base)  # it may have filled the disk
                return
        is_ready.touch()

    def _get_hidden_path(self, task: SuiteTask) -> Path:
        return self._plan.out / "hidden" / task.key

    # The attempts

    async def _run_batch(self, tasks: Sequence[SuiteTask]) -> None:
        plan = self._plan
        file = plan.out / "tasks.jsonl"
        rows = [self._build_row(task, number) for task in tasks for number in self._numbers]
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        argv = (
            *(sys.executable, "-P", "-m", "agentcli", "batch", str(file), "--keep"),
            *("--out", str(plan.out / "batch"), "--workers", str(plan.workers)),
            *("-C", str(plan.out), *plan.options),
        )
        async with _start(argv, stdout=asyncio.subprocess.DEVNULL) as batch:
            await batch.wait()

    def _build_row(self, task: SuiteTask, number: int) -> Json:
        played = {"model": f"script/{self._get_script_path(task)}"} if self._plan.play else {}
        return {
            "id": _name_attempt(task, number),
            "prompt": task.prompt,
            "workspace": str(self._get_base(task)),
            "timeout": task.timeout_s,
            "deny": [f"read({glob.escape(str(path))}/**)" for path in self._plan.unreadable],
            **task.limits,
            **played,
        }

    def _get_script_path(self, task: SuiteTask) -> Path:
        return self._plan.out / "scripts" / f"{task.key}.json"

    def _write_script(self, task: SuiteTask) -> None:
        """Write the replies of a model that only writes the files of the solution."""
        files: FileSet = task.solution if self._plan.play == "solution" else task.wrong
        texts = list_files(files)
        reads = [{"read_file": {"path": path}} for path in texts]  # or nothing may be replaced
        writes = [{"write_file": {"path": path, "content": text}} for path, text in texts.items()]
        replies = [*({"calls": calls} for calls in (reads, writes) if calls), "Done."]
        script = self._get_script_path(task)
        script.parent.mkdir(exist_ok=True)
        write_private_json(script, {"replies": replies, "afterwards": "Done."})

    # What an attempt left

    async def _check(self, task: SuiteTask, number: int) -> Attempt | None:
        """Return the attempt, or None if it was not made."""
        name = _name_attempt(task, number)
        stored = self._plan.out / "attempts" / f"{name}.json"
        try:
            done = json.loads((self._plan.out / "batch/tasks" / name / "done.json").read_bytes())
        except (OSError, ValueError):
            return None
        key = f"{task.fingerprint} {done.get('fingerprint')} {done.get('session')}"
        if (known := _load_attempt(stored, key)) is not None:
            return known
        attempt = await self._check_tree(task, done)
        if done.get("tree") and not _lacks_changes(done):  # first: it may have filled the disk
            remove_tree(Path(done["tree"]))
        stored.parent.mkdir(exist_ok=True)
        write_private_json(stored, {"key": key, **asdict(attempt)})
        return attempt

    async def _check_tree(self, task: SuiteTask, done: Json) -> Attempt:
        tree = Path(done.get("tree") or "/nonexistent")
        if not await asyncio.to_thread(tree.is_dir):
            message = _find_error(done) or "its directory is gone"
            return _build_attempt(done, failure="error", message=message)
        ran = await self._run_command(
            f"export CHECK={shlex.quote(str(self._get_hidden_path(task)))}\n{task.check}",
            tree,
            timeout_s=task.check_timeout_s,
            reads=self._get_hidden_path(task),
        )
        if ran.exit_code == 0:
            return _build_attempt(done)
        message = ran.describe(task.check_timeout_s)
        if ran.exit_code is None or ran.exit_code in NOT_STARTED:
            return _build_attempt(done, failure=ran.failure, message=message)
        if done["status"] in ("ok", "failed"):
            return _build_attempt(done, failure="wrong", message=message)
        return _build_attempt(done, failure=done["status"], message=_find_error(done))

    async def _run_command(
        self, command: str, directory: Path, *, timeout_s: float, reads: Path | None = None
    ) -> "CommandRun":
        """Run a command in the sandbox, as the check of a run whose model does nothing."""
        argv = (
            *(sys.executable, "-P", "-m", "agentcli", "run", "Check.", "-C", str(directory)),
            *("--model", f"script/{self._ready}", "--mode", "auto", "--max-turns", "1"),
            *("--verify", command, "--tool-timeout", str(timeout_s)),
            *(["--add-dir", f"{reads}:ro"] if reads else []),
            *(["--sandbox", self._plan.sandbox] if self._plan.sandbox else []),
            *("-o", "stream-json", "-q", "--no-annotations"),
        )
        # Their sessions are no sessions of the user.
        env = {**os.environ, "XDG_STATE_HOME": str(self._plan.out / "state")}
        pipe = asyncio.subprocess.PIPE
        async with self._slots, _start(argv, stdout=pipe, stderr=pipe, env=env) as process:
            out, err = await process.communicate()
        return _read_run(out, err)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRun:
    exit_code: int | None
    """None if the command did not start or did not end."""
    failure: FailureClass = "check did not start"
    """Why there is no exit code."""
    message: str = ""

    def describe(self, timeout_s: float) -> str:
        if self.failure == "check timed out":
            return f"no result after {timeout_s:g} s"
        code = "" if self.exit_code is None else f"exit code {self.exit_code}"
        return ": ".join(part for part in (code, self.message) if part)


def _read_run(out: bytes, err: bytes) -> CommandRun:
    checks = [row for row in map(parse_object, out.splitlines()) if row.get("type") == "verify"]
    if not checks:
        lines = err.decode("utf-8", "replace").strip().splitlines()
        return CommandRun(exit_code=None, message=lines[0] if lines else "it did not start")
    ran = checks[-1]
    if ran["exit_code"] is not None:
        return CommandRun(exit_code=ran["exit_code"], message=_read_last_line(ran.get("log")))
    # The last lines of the output say how the command ended.
    how = [line.strip("[]") for line in ran["output"].splitlines() if line.startswith("[")]
    if ran["duration_ms"] == 0:
        return CommandRun(exit_code=None, message=how[-1] if how else "it did not start")
    if ran["timed_out"]:
        return CommandRun(exit_code=None, failure="check timed out")
    return CommandRun(exit_code=None, failure="check was stopped", message=": ".join(how[-2:]))


def _read_last_line(log: str | None) -> str:
    try:
        text = Path(log or "").read_bytes()[-2000:].decode("utf-8", "replace")
    except OSError:
        return ""
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else ""


def _build_attempt(
    done: Json, *, failure: FailureClass | None = None, message: str = ""
) -> Attempt:
    usage = done.get("usage") or {}
    return Attempt(
        passed=failure is None,
        failure=failure,
        message=message,
        ending=done.get("ending") or "",
        turns=done.get("turns") or 0,
        input_tokens=usage.get("input", 0),
        output_tokens=usage.get("output", 0),
        cost_usd=done.get("cost_usd"),
        duration_s=(done.get("duration_ms") or 0) / 1000,
        session=done.get("session") or "",
    )


def _lacks_changes(done: Json) -> bool:
    """Return whether the batch has told the user to look in the directory, not in the patch."""
    return done["status"] == "ok" and bool(done.get("not_in_patch"))


def _find_error(done: Json) -> str:
    error = done.get("error") or {}
    return str(error.get("message") or "")


def _load_attempt(path: Path, key: str) -> Attempt | None:
    try:
        stored = json.loads(path.read_bytes())
        return Attempt(**stored) if stored.pop("key") == key else None
    except (OSError, ValueError, KeyError, TypeError):
        return None  # another version may have written it: it is checked again


def _write_base(task: SuiteTask, base: Path) -> None:
    """Write the files that the task begins with. Raise OSError or SettingsError."""
    if task.repository is None:
        write_files(task.tree, base)
        return
    base.parent.mkdir(parents=True, exist_ok=True)
    work = base.with_suffix(".work")
    try:
        add_worktree(work, task.commit, root=task.repository)
        # Without its history: the commit that solves the task may be in it.
        shutil.copytree(work, base, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    finally:
        with suppress(SettingsError):
            run_git("worktree", "remove", "--force", str(work), cwd=task.repository)
    write_files(task.tree, base)


def _name_attempt(task: SuiteTask, number: int) -> str:
    return f"{task.id}.{number}"


async def _run_all(works: Any) -> list[Any]:
    """Run coroutines at the same time and return their results in order."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


@asynccontextmanager
async def _start(
    argv: Sequence[str],
    *,
    stdout: int,
    stderr: int | None = None,
    env: dict[str, str] | None = None,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start agentcli. If the body is left early, ask it to stop and wait for it."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            await process.wait()
