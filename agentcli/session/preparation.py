"""What the first calls need, loaded and built while the model thinks.

Tools, rules and the sandbox are not needed for the first request, and take longer to make than most
commands to run. A reply that comes at once finds nothing started, and pays nothing. What fails here
is tried again by the call that needs it, which reports it.
"""

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from threading import Event as Signal
from threading import Thread

from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.checkpoints import Checkpoints
from agentcli.types.deltas import RequestSent
from agentcli.types.events import Event, ModelReplied, TurnEnded

AFTER_S = 0.05
"""The wait for a reply before anything is loaded. A model thinks longer than that."""
_SWITCH_S = 0.0005
"""How long one thread may hold up another. Python's default is ten times as long."""
_USUAL_SWITCH_S = sys.getswitchinterval()

COMMANDS = (
    "agentcli.tools.bash",
    "agentcli.permissions.judge",
    "agentcli.permissions.denied_paths",
    "agentcli.permissions.provenance",
    "agentcli.sandbox.choose",
    "agentcli.sandbox.environment",
    "agentcli.sandbox.proxy",
    "agentcli.tools.shells",
    "agentcli.system.process_table",
    "agentcli.permissions.readonly",
)
"""The modules of a first command, which is the most likely call."""
FILES = (
    "agentcli.tools.read_file",
    "agentcli.log.checkpoint.keep",
    "agentcli.tools.search.ignore",
    "agentcli.tools.edit_file",
    "agentcli.session.edit_checks",
    "agentcli.sandbox.reading",
    "agentcli.tools.grep",
    "agentcli.tools.write_file",
    "agentcli.tools.find_files",
)
"""The modules of other first calls, in the order in which models call."""
FIRST_CALLS = (*COMMANDS, *FILES)

Step = Callable[[], object]

log = logging.getLogger(__name__)


class Preparation:
    """A listener that runs steps in a thread, once, after the first request was sent."""

    def __init__(self, steps: Sequence[Step], *, after_s: float = AFTER_S) -> None:
        self._steps = steps
        self._after_s = after_s
        self._due: asyncio.TimerHandle | None = None
        self._thread: Thread | None = None
        self.closing = Signal()
        """Set when no further step may begin."""

    def __call__(self, event: Event) -> None:
        match event:
            case RequestSent() if self._thread is None and self._due is None:
                loop = asyncio.get_running_loop()
                self._due = loop.call_later(self._after_s, self._start)
            case ModelReplied() | TurnEnded():
                self._cancel()

    def close(self) -> None:
        """Stop before the next step, and wait for the present one."""
        self.closing.set()
        self._cancel()
        if self._thread is not None:
            self._thread.join()

    def _cancel(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _start(self) -> None:
        self._thread = Thread(target=self._run_steps, name="preparation", daemon=True)
        self._thread.start()

    def _run_steps(self) -> None:
        with switch_often():
            for step in self._steps:
                if self.closing.is_set():
                    return
                self._run_step(step)

    def _run_step(self, step: Step) -> None:
        try:
            step()
        except Exception:  # the call that needs it fails in the same way, and reports it
            log.debug("a preparation failed", exc_info=True)


@contextmanager
def switch_often() -> Iterator[None]:
    """Let no thread wait long for another: for the reply, or the end of a process.

    Within another one it changes nothing."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        if before_s == _USUAL_SWITCH_S:
            sys.setswitchinterval(_USUAL_SWITCH_S)


def load_command_modules() -> None:
    for name in COMMANDS:
        import_module(name)


class SessionPreparation(Preparation):
    """Loads the modules of the first calls, starts shells, and reads the state of the workspace."""

    def __init__(self, builtin_tools: BuiltinTools, checkpoints: Checkpoints) -> None:
        super().__init__(
            (
                *(partial(import_module, name) for name in COMMANDS),
                builtin_tools.prepare_shells,
                *(partial(import_module, name) for name in FILES),
                lambda: checkpoints.prepare(self.closing.is_set),
            )
        )
