"""One private network for the commands of a session: what one of them serves, the next can reach.

It has nothing but its own loopback. Root makes one just so; anybody else is root of no more than
what belongs to the network, which is why bubblewrap is told who runs a command.
"""

import os
from pathlib import Path
from subprocess import DEVNULL, call

from agentcli.guard.sandbox import kernel
from agentcli.guard.sandbox.entrance import Entrance, namespaces_of
from agentcli.guard.sandbox.settling import wrap_command

_ROOT_THERE = ("--unshare-user", "--uid", "0", "--gid", "0")
_NETWORK_HOLDER = (*_ROOT_THERE, "--unshare-net", "--ro-bind", "/", "/")


def make_private_network(bubblewrap: Path) -> Entrance | None:
    """None: there cannot be one here, so that each command needs its own."""
    if os.geteuid() == 0:
        network = kernel.make_private_network()
        return None if network is None else Entrance(network=network)
    try:
        network, owner = namespaces_of([str(bubblewrap), *_NETWORK_HOLDER], "net", "user")
    except OSError:
        return None
    made = Entrance(owner=owner, network=network)
    if not _can_be_entered(made):
        made.close()
        return None
    return made


def _can_be_entered(network: Entrance) -> bool:
    handles = network.descriptors
    words = [*network.words, *wrap_command(["/bin/true"], descriptors=handles, most_tasks=64)]
    try:
        return call(words, pass_fds=network.descriptors, stderr=DEVNULL) == 0
    except OSError:
        return False
