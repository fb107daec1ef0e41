"""The last step before a command, in its sandbox already: a shell that becomes the command.

It closes the handles by which the sandbox was entered, and has the kernel count processes, where
that counts those of a user namespace alone; it does not count root's. The watch comes first: this
holds when it is kept from running.
"""

import os
import platform
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_BASH = Path("/bin/bash")


def wrap_command(argv: Sequence[str], *, descriptors: Sequence[int], most_tasks: int) -> list[str]:
    """The command with that step before it, if there is anything to do."""
    steps = [f"exec {one}<&-" for one in descriptors]
    if os.geteuid() != 0 and _counts_by_namespace() and _BASH.exists():
        steps.append(f"ulimit -u {most_tasks}")
    if not steps:
        return list(argv)
    # Privileged: it shall run nothing that the environment names.
    return [str(_BASH), "-p", "-c", " && ".join((*steps, 'exec "$@"')), "bash", *argv]


@cache
def _counts_by_namespace() -> bool:
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (5, 14)
