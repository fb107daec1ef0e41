"""Workers on a Ray cluster: the one of RAY_ADDRESS, or one of this machine alone.

Its nodes must share the file system and have the same agentcli: trees and results are files.
"""

import asyncio
import logging
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from threading import Thread
from typing import Any

import ray

from agentcli.features.batch.engine import PATIENCE_S, WorkerJob
from agentcli.types.errors import SettingsError

SHOWN_CHARS = 300
CONNECT_S = 10.0


class RayEngine:
    def __init__(self, *, workers: int) -> None:
        """`workers` is the number that a cluster of this machine can run at once."""
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if os.environ.get("RAY_ADDRESS"):
            ray.init(**quiet)
        else:
            ray.init(num_cpus=workers, include_dashboard=False, **quiet)
        self._run_job = ray.remote(num_cpus=1, max_retries=0)(run_job)

    async def run(self, job: WorkerJob, on_line: Callable[[bytes], None]) -> int:
        promised = self._run_job.remote(job, dict(os.environ))
        try:
            code: int = await asyncio.wrap_future(promised.future())
        except ray.exceptions.RayError:
            return -signal.SIGKILL  # the worker, or its node, is gone
        except asyncio.CancelledError:
            ray.cancel(promised)
            ray.wait([promised], timeout=PATIENCE_S)
            raise
        for line in job.stdout_path.read_bytes().splitlines(keepends=True):
            on_line(line)
        return code

    def close(self) -> None:
        ray.shutdown()


def build_ray_engine(*, workers: int) -> RayEngine:
    """Raise SettingsError if the cluster cannot be reached or started."""
    address = os.environ.get("RAY_ADDRESS", "")
    try:
        _check_port(address)
        return RayEngine(workers=workers)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = " ".join(str(error).split())[:SHOWN_CHARS] or type(error).__name__
        if address:
            raise SettingsError(
                f"cannot reach the Ray cluster at {address} (RAY_ADDRESS): {reason}",
                hint=f"ray status --address {address}",
            ) from error
        raise SettingsError(
            f"cannot start Ray on this machine: {reason}", hint="--engine local"
        ) from error


def _check_port(address: str) -> None:
    """Raise OSError if nobody listens at host:port. Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()


def run_job(job: WorkerJob, environ: dict[str, str]) -> int:
    """Run the job on some node. The worker writes to a pipe, so it ends when nobody reads it."""
    with job.stderr_path.open("wb") as progress, job.stdout_path.open("wb") as events:
        worker = subprocess.Popen(
            job.argv,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=progress,
        )
        assert worker.stdin is not None and worker.stdout is not None
        Thread(target=_write_stdin, args=(worker, job.stdin), daemon=True).start()
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
    try:
        worker.stdin.write(data)
        worker.stdin.close()
    except BrokenPipeError:
        return  # it has ended already, and its output says why
