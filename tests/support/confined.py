"""Real commands in a real sandbox of one layer, and the world around them to look at afterwards."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentcli.sandbox.choose import SandboxScope, choose_sandbox
from agentcli.sandbox.environment import build_environment
from agentcli.sandbox.limits import CommandLimits, kill_tree
from agentcli.sandbox.paths import ReportLoss, ignore_loss
from agentcli.types.errors import SettingsError
from agentcli.types.grants import Grants
from agentcli.types.sandbox import Sandbox
from tests.support.layers import LAYERS as LAYERS

LIMIT_S = 60.0
ALONE = Grants()


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    output: str
    told: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Confined:
    """A workspace with a sandbox around it, and what lies beside it."""

    sandbox: Sandbox
    workspace: Path
    outside: Path
    """Not for commands: a secret, a file to leave alone, a place for sockets."""
    private: Path
    kept: Path
    """For commands to read: the session's outputs."""
    environ: Mapping[str, str]

    @property
    def secret(self) -> Path:
        return self.outside / "secret.txt"

    def run(self, script: str, *, confinement: Grants = ALONE, cwd: str = ".") -> Ran:
        process, output = self.start(script, confinement=confinement, cwd=cwd)
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            process.wait()
        told = self.sandbox.finish(process)
        with os.fdopen(output, encoding="utf-8", errors="replace") as text:
            return Ran(process.returncode, text.read(), told)

    def start(
        self, script: str, *, confinement: Grants = ALONE, cwd: str = "."
    ) -> tuple["subprocess.Popen[bytes]", int]:
        """The process, and a file to read its output from; it does not hold a pipe open."""
        reader, writer = _file()
        try:
            process = self.sandbox.start(
                ["/bin/bash", "-c", script],
                cwd=self.workspace / cwd,
                env=build_environment(self.environ, workspace=self.workspace),
                stdout=writer,
                grants=confinement,
            )
        finally:
            os.close(writer)
        return process, reader

    def python(self, program: str, *arguments: object, confinement: Grants = ALONE) -> Ran:
        path = self.workspace / "attack.py"
        path.write_text(program, encoding="utf-8")
        words = " ".join(f"'{argument}'" for argument in arguments)
        return self.run(f"python3 attack.py {words}", confinement=confinement)


def _file() -> tuple[int, int]:
    """Two handles of one nameless file, one at its start and one that writes."""
    writer = os.memfd_create("output")
    return os.open(f"/proc/self/fd/{writer}", os.O_RDONLY), writer


@contextmanager
def confined(
    layer: str,
    base: Path,
    *,
    environ: Mapping[str, str] | None = None,
    limits: CommandLimits | None = None,
    session: Path | None = None,
    unreadable: Sequence[str] = (),
    unwritable: Sequence[str] = (),
    home: Path | None = None,
    report_loss: ReportLoss = ignore_loss,
) -> Iterator[Confined]:
    """Skips the test where the layer does not work, and says why."""
    base = base.resolve()
    session = session or base
    workspace, outside = base / "workspace", base / "outside"
    private, kept = session / "private", session / "kept"
    for directory in (workspace, outside, private, kept):
        directory.mkdir(parents=True, exist_ok=True)
    (outside / "secret.txt").write_text("the secret outside", encoding="utf-8")
    environ = environ or {
        **os.environ,
        "PATH": f"{sys.base_prefix}/bin:{os.environ['PATH']}",
    }
    ground = SandboxScope(
        workspace=workspace,
        private=private,
        home=home,
        report_loss=report_loss,
        readable=(kept,),
        limits=limits or CommandLimits(),
        unreadable=tuple(workspace / name for name in unreadable),
        unwritable=tuple(workspace / name for name in unwritable),
    )
    try:
        sandbox = choose_sandbox(ground, environ=environ, only=layer)
    except SettingsError as error:
        pytest.skip(f"{layer} does not work here: {error}")
    try:
        yield Confined(sandbox, workspace, outside, private, kept, environ)
    finally:
        sandbox.close()
