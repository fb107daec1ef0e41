"""Workers on a Ray cluster: the one of RAY_ADDRESS, or one of this machine alone.

Nodes share no files with us. The source of the trees is put into Ray's object store once; each
node fetches and unpacks it once. What a run writes comes back as its result, and only the batch
itself stores it. So a worker that is cut off, or goes on without us, stores nothing.
"""

import asyncio
import logging
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import ray
from filelock import FileLock
from platformdirs import user_cache_path

import agentcli
from agentcli.features.batch.engine import (
    EVENTS,
    PATIENCE_S,
    PROGRESS,
    WorkerJob,
    WorkerLost,
    build_argv,
)
from agentcli.features.batch.trees import PackedSource, TaskTrees
from agentcli.system.environment import is_secret_name
from agentcli.types.errors import SettingsError

SHOWN_CHARS = 300
CONNECT_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeJob:
    """An attempt at a task, as it is sent to a node."""

    version: str
    name: str
    key: str
    source: tuple[Any]
    """A reference to the `PackedSource`. Ray fetches it when it is asked for, not before."""
    options: tuple[str, ...]
    files: Mapping[str, bytes]
    """Options whose value is a file, with its content."""
    stdin: bytes
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeResult:
    exit_code: int
    files: Mapping[str, bytes]


class RayEngine:
    def __init__(self, *, workers: int) -> None:
        """`workers` is the number that a cluster of this machine can run at once."""
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if os.environ.get("RAY_ADDRESS"):
            ray.init(**quiet)
        else:
            ray.init(num_cpus=workers, include_dashboard=False, **quiet)
        self._run_job = ray.remote(num_cpus=1, max_retries=0)(run_on_node)
        self._sources: dict[TaskTrees, asyncio.Task[tuple[str, Any]]] = {}

    async def run(self, job: WorkerJob, on_line: Callable[[bytes], None]) -> int:
        key, source = await self._share_source(job.trees)
        sent = NodeJob(
            version=agentcli.__version__,
            name=job.name,
            key=key,
            source=(source,),
            options=job.options,
            files={option: path.read_bytes() for option, path in job.files.items()},
            stdin=job.stdin,
            environ=find_shared_variables(os.environ),
        )
        promised = self._run_job.remote(sent)
        try:
            result: NodeResult = await asyncio.wrap_future(promised.future())
        except asyncio.CancelledError:
            ray.cancel(promised)
            ray.wait([promised], timeout=PATIENCE_S)
            raise
        except ray.exceptions.RayError as error:
            raise _name_loss(error) from error
        for name, content in result.files.items():
            path = job.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        for line in result.files[EVENTS].splitlines(keepends=True):
            on_line(line)
        return result.exit_code

    def close(self) -> None:
        ray.shutdown()

    async def _share_source(self, trees: TaskTrees) -> tuple[str, Any]:
        if trees not in self._sources:
            self._sources[trees] = asyncio.create_task(asyncio.to_thread(_put_source, trees))
        return await asyncio.shield(self._sources[trees])


def _put_source(trees: TaskTrees) -> tuple[str, Any]:
    source = trees.pack()
    return source.key, ray.put(source)


def _name_loss(error: ray.exceptions.RayError) -> Exception:
    """Return what became of the worker: its own fault, that of its node, or the whole cluster's."""
    match error:
        case ray.exceptions.RayTaskError():
            return WorkerLost(f"failed on its node: {_shorten(error.cause)}", is_by_task=True)
        case ray.exceptions.LocalRayletDiedError() | ray.exceptions.RaySystemError():
            hint = "run the same command again: it goes on with the tasks that are left"
            return SettingsError(f"the Ray cluster is gone: {_shorten(error)}", hint=hint)
        case ray.exceptions.WorkerCrashedError() | ray.exceptions.OutOfMemoryError():
            return WorkerLost(f"killed by {signal.SIGKILL.name}", is_by_task=True)
        case _:
            return WorkerLost("lost with its node", is_by_task=False)


def find_shared_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a node: settings and addresses, but nothing that is secret.

    Keys go by reference: a run on a node looks them up by their names, in the node's environment.
    """
    return {
        name: value
        for name, value in environ.items()
        if name.startswith("AGENTCLI_") or name.endswith(("_BASE_URL", "_HOST"))
        if not is_secret_name(name) and "@" not in value
    }


def build_ray_engine(*, workers: int) -> RayEngine:
    """Raise SettingsError if the cluster cannot be reached or started."""
    address = os.environ.get("RAY_ADDRESS", "")
    try:
        _check_port(address)
        return RayEngine(workers=workers)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = _shorten(error)
        if address:
            raise SettingsError(
                f"cannot reach the Ray cluster at {address} (RAY_ADDRESS): {reason}",
                hint=f"ray status --address {address}",
            ) from error
        raise SettingsError(
            f"cannot start Ray on this machine: {reason}", hint="--engine local"
        ) from error


def _shorten(error: BaseException) -> str:
    return " ".join(str(error).split())[:SHOWN_CHARS] or type(error).__name__


def _check_port(address: str) -> None:
    """Raise OSError if nobody listens at host:port. Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()


# On a node


def run_on_node(job: NodeJob) -> NodeResult:
    """Run the job on some node, in a tree that is removed afterwards. Raise SettingsError."""
    if job.version != agentcli.__version__:
        raise SettingsError(
            f"{socket.gethostname()} has agentcli {agentcli.__version__}, and the batch "
            f"{job.version}",
            hint="install the same version on every node",
        )
    # An attempt has a tree of its own. If a worker is killed, its run goes on until it writes to
    # nobody, and still uses its tree.
    trees = _open_source(job).with_output(Path(str(ray.get_runtime_context().get_task_id())))
    try:
        with TemporaryDirectory(prefix="agentcli-") as temporary:
            return _run_in_tree(job, trees.make(job.name), temporary=Path(temporary))
    finally:
        trees.remove(job.name)


_SOURCES: dict[str, TaskTrees] = {}
"""The sources that this process has used."""


def _open_source(job: NodeJob) -> TaskTrees:
    """Return the trees of the source, which is fetched and unpacked once for each node."""
    if job.key not in _SOURCES:
        directory = user_cache_path("agentcli", appauthor=False) / "nodes"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(directory / f"{job.key}.lock"):
            workspace = _unpack_source(job, directory)
        _SOURCES[job.key] = TaskTrees(workspace, out=directory)
    return _SOURCES[job.key]


def _unpack_source(job: NodeJob, directory: Path) -> Path:
    """Return the workspace that the trees are made from."""
    root = directory / job.key
    subdirectory = directory / f"{job.key}.subdirectory"
    if not subdirectory.exists():
        source: PackedSource = ray.get(job.source[0])
        shutil.rmtree(root, ignore_errors=True)  # half unpacked
        source.unpack(root)
        subdirectory.write_text(source.subdirectory, encoding="utf-8")
    return root / subdirectory.read_text(encoding="utf-8")


def _run_in_tree(job: NodeJob, tree: Path, *, temporary: Path) -> NodeResult:
    output = temporary / "output"
    output.mkdir()
    options = [*job.options]
    for option, content in job.files.items():
        (temporary / option).write_bytes(content)
        options.append(f"--{option}={temporary / option}")
    own = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    argv = build_argv(tree, output, options=options)
    code = _run_worker(argv, job.stdin, output=output, environ={**own, **job.environ})
    files = [path for path in sorted(output.rglob("*")) if path.is_file()]
    contents = {str(path.relative_to(output)): path.read_bytes() for path in files}
    return NodeResult(exit_code=code, files=contents)


def _run_worker(
    argv: tuple[str, ...], stdin: bytes, *, output: Path, environ: Mapping[str, str]
) -> int:
    """Return the exit code. The worker writes to a pipe, so it ends when nobody reads it."""
    with (output / PROGRESS).open("wb") as progress, (output / EVENTS).open("wb") as events:
        worker = subprocess.Popen(
            argv, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=progress
        )
        assert worker.stdin is not None and worker.stdout is not None
        Thread(target=_write_stdin, args=(worker, stdin), daemon=True).start()
        try:
            for line in worker.stdout:
                events.write(line)
            return worker.wait()
        finally:
            if worker.poll() is None:  # cancelled
                worker.terminate()
                worker.wait(PATIENCE_S)


def _write_stdin(worker: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert worker.stdin is not None
    with suppress(BrokenPipeError):  # it has ended already, and its output says why
        worker.stdin.write(data)
        worker.stdin.close()
