import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcli.sandbox.bubblewrap import MountNamespaceCache, make_private_network
from agentcli.sandbox.mounts import MountCheck, MountState, MountView
from agentcli.sandbox.paths import SandboxScope, survey_paths
from agentcli.sandbox.protect import Protection
from agentcli.types.grants import Grants

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")

ALONE, ONLINE = Grants(), Grants(network=True)
HELD = MountCheck([])
BEFORE = MountState(1, HELD, ())
AFTER = MountState(2, HELD, ())


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[MountNamespaceCache]:
    program = shutil.which("bwrap")
    if program is None:
        pytest.skip("bubblewrap is not installed")
    (tmp_path / "ws").mkdir()
    places = survey_paths(
        SandboxScope(workspace=tmp_path / "ws", private=tmp_path / "private"),
        {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    network = make_private_network(Path(program))
    view = MountView(places, protection=Protection(guarded=()), version=(0, 4, 0))
    made = MountNamespaceCache(view, program=Path(program), network=network)
    try:
        entered(made, ALONE, BEFORE)
    except OSError as error:
        pytest.skip(f"no mounts can be kept here: {error}")
    yield made
    made.close()
    if network:
        network.close()


def entered(cache: MountNamespaceCache, confinement: Grants, state: MountState) -> int:
    """Which mounts these are: the number that the kernel gave them."""
    with cache.open_entrance(confinement, state) as entrance:
        assert entrance.mounts is not None
        return os.fstat(entrance.mounts).st_ino


def handles() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_namespace_is_the_same_until_something_it_was_made_of_changes(
    cache: MountNamespaceCache,
) -> None:
    first, online = entered(cache, ALONE, BEFORE), entered(cache, ONLINE, BEFORE)
    assert len({Path("/proc/self/ns/mnt").stat().st_ino, first, online}) == 3
    assert entered(cache, ALONE, BEFORE) == first
    with cache.open_entrance(ALONE, BEFORE) as entrance:
        assert entrance.mounts is not None
        kept = os.dup(entrance.mounts)  # or its number is given to the next
    assert entered(cache, ALONE, AFTER) != first
    assert entered(cache, ONLINE, BEFORE) == online
    os.close(kept)


def test_only_namespaces_of_late_are_kept(cache: MountNamespaceCache, tmp_path: Path) -> None:
    with cache.open_entrance(ALONE, BEFORE) as entrance:
        assert entrance.mounts is not None
        first = os.dup(entrance.mounts)  # or its number is given to the next
    kept = handles()
    for number in range(5):
        entered(cache, Grants(writable=(tmp_path / str(number),)), BEFORE)
    assert handles() == kept + 3
    assert entered(cache, ALONE, BEFORE) != os.fstat(first).st_ino
    cache.close()
    assert handles() == kept - 1
    os.close(first)


def test_namespace_without_the_network_of_the_machine_leads_into_the_private_one(
    cache: MountNamespaceCache,
) -> None:
    with cache.open_entrance(ALONE, BEFORE) as alone:
        pass
    with cache.open_entrance(ONLINE, BEFORE) as online:
        pass
    assert alone.network is not None and online.network is None
    assert alone.owner == online.owner
    assert (alone.words == ()) == (os.geteuid() == 0)


def test_why_a_namespace_cannot_be_made_is_told_in_the_words_of_bubblewrap(
    cache: MountNamespaceCache, tmp_path: Path
) -> None:
    granted = tmp_path / "granted"
    granted.mkdir()
    confinement = Grants(writable=(granted,))
    entered(cache, confinement, BEFORE)
    granted.rmdir()
    open_before = handles()
    with pytest.raises(OSError, match=f"bwrap: .*{granted}"):
        entered(cache, confinement, AFTER)
    assert handles() == open_before - 1
