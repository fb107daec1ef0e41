"""When the interpreter collects garbage: not while it starts, and never in what stays anyway.

Everything imported and set up lives as long as the process. Searching it again and again took a
tenth of the time to the first request.
"""

import gc

_WHILE_STARTING_OBJECTS = 200_000
"""More than any start allocates. Still a bound, for commands that never become a session."""
_AFTER_OBJECTS = 2_000
"""The most garbage in memory. A live session makes hundreds of objects with each turn."""


def pause_collection() -> None:
    gc.set_threshold(_WHILE_STARTING_OBJECTS)


def resume_collection() -> None:
    """Collect garbage from now on, only among objects that are made from now on.

    Change nothing in a program that is not ours: it has not paused its collection."""
    if gc.get_threshold()[0] == _WHILE_STARTING_OBJECTS:
        gc.freeze()
        gc.set_threshold(_AFTER_OBJECTS)


def pause_again() -> None:
    """Pause until `resume_collection`, while parts are loaded that stay."""
    if gc.get_threshold()[0] == _AFTER_OBJECTS:
        pause_collection()


def collect_now() -> None:
    """Collect garbage at a moment when nobody waits."""
    gc.collect()
