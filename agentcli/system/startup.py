"""The start of the process: signals that arrive while it is loaded, and when garbage is collected.

A run promises a result whatever ends it, and loading what writes the result takes a moment. So the
first signal is held until then. The second one ends the program at once.

Everything imported and set up lives as long as the process. Searching it for garbage again and
again took a tenth of the time to the first request.
"""

import gc
import os
import signal
from types import FrameType

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_held: list[int] = []


def prepare_start(*, holds_signals: bool) -> None:
    """Pause the search for garbage, and hold signals for a command that promises a result."""
    gc.set_threshold(_WHILE_STARTING_OBJECTS)
    if holds_signals:
        _hold_signals()


def _hold_signals() -> None:
    """Hold the signals that end a program, except those that are ignored."""
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hold)


def take_signal() -> str:
    """Return the name of the signal that was held, once; empty if there is none."""
    return signal.Signals(_held.pop()).name if _held else ""


def _hold(number: int, frame: FrameType | None) -> None:
    if _held:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    _held.append(number)


_WHILE_STARTING_OBJECTS = 200_000
"""More than any start allocates. Still a bound, for commands that never become a session."""
_AFTER_OBJECTS = 2_000
"""The most garbage in memory. A live session makes hundreds of objects with each turn."""


def resume_collection() -> None:
    """Collect garbage from now on, only among objects that are made from now on.

    Change nothing in a program that is not ours: it has not paused its collection."""
    if gc.get_threshold()[0] == _WHILE_STARTING_OBJECTS:
        gc.freeze()
        gc.set_threshold(_AFTER_OBJECTS)


def collect_now() -> None:
    """Collect garbage at a moment when nobody waits."""
    gc.collect()
