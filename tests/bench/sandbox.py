"""What a sandbox adds to one command.

Starts `true` bare and in every layer that works here, in turn, each with everything a command
costs: start, wait, finish. The repository in the workspace has hooks to look after. As within the
turn of a session, another command waits meanwhile; one without any is the first of a turn.
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from agentcli.sandbox.choose import SandboxScope, choose_sandbox, describe_layers
from agentcli.types.grants import Grants
from agentcli.types.sandbox import Sandbox
from tests.bench.figures import Figure, in_turns, wall_ms

RUNS = 100
FIRST_RUNS = 20
COMMAND = ["/bin/true"]
CONFINEMENT = Grants()


def bare(workspace: Path) -> None:
    subprocess.Popen(
        COMMAND,
        cwd=workspace,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ).wait()


def confined(sandbox: Sandbox, workspace: Path) -> None:
    process = sandbox.start(
        COMMAND,
        cwd=workspace,
        env={},
        stdout=subprocess.DEVNULL,
        grants=CONFINEMENT,
    )
    if process.wait() != 0:
        raise SystemExit(f"{sandbox.name}: the command failed")
    sandbox.finish(process)


def figures() -> Iterator[Figure]:
    with TemporaryDirectory() as base:
        workspace = Path(base, "workspace")
        subprocess.run(["git", "init", "-q", workspace], check=True)
        ground = SandboxScope(workspace=workspace, private=Path(base, "private"))
        layers = [finding.layer for finding in describe_layers(ground) if finding.works]
        boxes = {layer: choose_sandbox(ground, only=layer) for layer in layers}
        firsts = in_turns(
            {name: partial(_confined_ms, box, workspace) for name, box in boxes.items()},
            runs=FIRST_RUNS,
        )
        with ExitStack() as waiting:
            for box in boxes.values():
                waiting.enter_context(_other_command(box, workspace))
            taken = in_turns(
                {
                    "bare": lambda: wall_ms(partial(bare, workspace)),
                    **{name: partial(_confined_ms, box, workspace) for name, box in boxes.items()},
                },
                runs=RUNS,
            )
        for box in boxes.values():
            box.close()
    for layer in layers:
        for what, value in (("true", taken[layer]), ("the first true of a turn", firsts[layer])):
            yield Figure(
                what=f"{what} in {layer}",
                value=value,
                floor=taken["bare"],
                floor_is="bare subprocess",
            )


@contextmanager
def _other_command(sandbox: Sandbox, workspace: Path) -> Iterator[None]:
    process = sandbox.start(
        ["/bin/cat"],
        cwd=workspace,
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        grants=CONFINEMENT,
    )
    yield
    process.communicate()
    sandbox.finish(process)


def _confined_ms(sandbox: Sandbox, workspace: Path) -> float:
    return wall_ms(partial(confined, sandbox, workspace))
