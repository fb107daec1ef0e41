"""Signals that arrive while the program is still being loaded.

A run promises a result whatever ends it, and loading what writes the result takes a moment. So the
first signal is held until then. The second one ends the program at once.
"""

import os
import signal
from types import FrameType

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_held: list[int] = []


def hold_signals() -> None:
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
