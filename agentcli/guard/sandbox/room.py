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
from agentcli.guard.sandbox.mounts import MountState, MountView
from agentcli.types.verdicts import Grants

_MOST_ROOMS = 4
_CUT_OFF = ("/usr/bin/unshare", "--mount", "--propagation", "private")
"""What is mounted later on the machine would be there as it is: writable, and with its devices."""


class MountNamespaceCache:
    """May be used from any thread."""

    def __init__(self, view: MountView, *, program: Path, network: Entrance | None) -> None:
        self._view = view
        self._program = program
        self._network = network or Entrance()
        self._made: OrderedDict[Grants, tuple[MountState, int]] = OrderedDict()
        self._lock = Lock()

    @contextmanager
    def entrance(self, grants: Grants, mounted: MountState) -> Iterator[Entrance]:
        """To one that is as the machine was then; OSError if it cannot be made."""
        with self._lock:
            network = None if grants.network else self._network.network
            mounts = self._find_namespace(grants, mounted)
            yield replace(self._network, network=network, mounts=mounts)

    def close(self) -> None:
        with self._lock:
            while self._made:
                self._drop_oldest()

    def _find_namespace(self, grants: Grants, mounted: MountState) -> int:
        state, handle = self._made.pop(grants, ((), -1))
        if handle >= 0 and state != mounted:
            os.close(handle)
        if state != mounted:
            (handle,) = self._build(self._view.room(grants))
        self._made[grants] = mounted, handle
        if len(self._made) > _MOST_ROOMS:
            self._drop_oldest()
        return handle

    def _drop_oldest(self) -> None:
        _, (_, handle) = self._made.popitem(last=False)
        os.close(handle)

    def _build(self, options: Sequence[str]) -> tuple[int, ...]:
        way = replace(self._network, network=None)
        words = [*way.words, *_CUT_OFF, str(self._program), *options]
        return namespaces_of(words, "mnt", pass_fds=way.descriptors)
