"""File system views made once, in which many commands are started.

To mount everything takes longer than all the rest of a sandbox. So it is done once for all commands
that may reach the same, and each gets its own copy of the mounts, which the kernel makes in one
step. A room is left for a new one as soon as anything it was made of is not the same any more;
whoever is in it stays there.
"""

import os
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock

from agentcli.guard.sandbox.entrance import Entrance, namespaces_of
from agentcli.guard.sandbox.mounts import MountState, View
from agentcli.types.verdicts import Confinement

_MOST_ROOMS = 4
_CUT_OFF = ("/usr/bin/unshare", "--mount", "--propagation", "private")
"""What is mounted later on the machine would be there as it is: writable, and with its devices."""


class Rooms:
    """May be used from any thread."""

    def __init__(self, view: View, *, program: Path, network: Entrance | None) -> None:
        self._view = view
        self._program = program
        self._network = network or Entrance()
        self._made: OrderedDict[Confinement, tuple[MountState, int]] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def entrance(self, confinement: Confinement, mounted: MountState) -> Iterator[Entrance]:
        """To one that is as the machine was then; OSError if it cannot be made."""
        with self._lock:
            network = None if confinement.network else self._network.network
            mounts = self._room(confinement, mounted)
            yield replace(self._network, network=network, mounts=mounts)

    def close(self) -> None:
        with self._lock:
            while self._made:
                self._leave_one()

    def _room(self, confinement: Confinement, mounted: MountState) -> int:
        state, handle = self._made.pop(confinement, ((), -1))
        if handle >= 0 and state != mounted:
            os.close(handle)
        if state != mounted:
            (handle,) = self._built(self._view.room(confinement))
        self._made[confinement] = mounted, handle
        if len(self._made) > _MOST_ROOMS:
            self._leave_one()
        return handle

    def _leave_one(self) -> None:
        _, (_, handle) = self._made.popitem(last=False)
        os.close(handle)

    def _built(self, options: Sequence[str]) -> tuple[int, ...]:
        way = replace(self._network, network=None)
        words = [*way.words, *_CUT_OFF, str(self._program), *options]
        return namespaces_of(words, "mnt", pass_fds=way.descriptors)
