"""When the interpreter looks for garbage: not while it starts, and never in what stays anyway.

What is imported and set up lives as long as the process. To search it again and again took a tenth
of the time to the first request.
"""

import gc

_WHILE_STARTING_OBJECTS = 200_000
"""More than any start makes; a bound all the same, for commands that never become a session."""
_AFTER_OBJECTS = 2_000
"""So much garbage is in memory at most. A live session makes hundreds of objects with each turn."""


def pause_collection() -> None:
    gc.set_threshold(_WHILE_STARTING_OBJECTS)


def resume_collection() -> None:
    """From now on garbage is looked for, in what is made from now on."""
    if not gc.get_freeze_count():
        gc.freeze()
        gc.set_threshold(_AFTER_OBJECTS)


def collect_now() -> None:
    """For a moment at which nobody waits."""
    gc.collect()


def skip_final_collection() -> None:
    """Or else all there is would be searched before the process ends."""
    gc.freeze()
