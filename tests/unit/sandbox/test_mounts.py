from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.sandbox.mounts import MountView
from agentcli.sandbox.paths import SandboxPaths, ignore_loss, ignore_undone
from agentcli.sandbox.protect import GuardedPath, Protection
from agentcli.types.grants import Grants

NEW = (0, 11, 0)


@pytest.fixture
def places(tmp_path: Path) -> SandboxPaths:
    for name in ("ws/.git", "private", "kept", "tools/bin", "granted"):
        (tmp_path / name).mkdir(parents=True)
    return SandboxPaths(
        workspace=tmp_path / "ws",
        private=tmp_path / "private",
        home=tmp_path / "private/shared/home",
        readable=(tmp_path / "kept",),
        system=(Path("/usr"),),
        hidden=(Path("/usr/secret"),),
        unreadable=frozenset(),
        protected=(),
        unwritable=(),
        find_denied=None,
        own_environment=None,
        records=(),
        toolchains=(tmp_path / "tools/bin",),
        variables={},
        is_home=False,
        report_loss=ignore_loss,
        report_undone=ignore_undone,
        rejected=tmp_path / "rejected",
        needs_override=False,
    )


def view(places: SandboxPaths, *guarded: GuardedPath, version: tuple[int, ...] = NEW) -> MountView:
    return MountView(places, protection=Protection(guarded=guarded), version=version)


def mounted(options: tuple[str, ...]) -> list[tuple[str, str]]:
    """Which option put what at which place, in order."""
    binds = ("--bind", "--ro-bind")
    return [(options[at], options[at + 2]) for at in range(len(options)) if options[at] in binds]


def test_guarded_places_are_mounted_over_the_workspace_with_their_parents(
    places: SandboxPaths,
) -> None:
    ws = places.workspace
    guarded = GuardedPath(ws / ".git/hooks", "directory")
    made = mounted(view(places, guarded).find_mounts(Grants()).options)
    inside = [(option, at) for option, at in made if at.startswith(str(ws))]
    assert inside == [
        ("--bind", str(ws)),
        ("--bind", str(ws / ".git")),
        ("--ro-bind", str(ws / ".git/hooks")),
    ]


def test_parents_are_mounted_before_what_is_below(places: SandboxPaths) -> None:
    ws = places.workspace
    guarded = [
        GuardedPath(ws / "a/b/.git/hooks", "directory"),
        GuardedPath(ws / ".agentcli", "directory"),
    ]
    made = [at for _, at in mounted(view(places, *guarded).find_mounts(Grants()).options)]
    for number, at in enumerate(made):
        assert not any(Path(later) in Path(at).parents for later in made[number + 1 :])


def test_only_granted_places_are_writable(places: SandboxPaths, tmp_path: Path) -> None:
    base = {str(places.workspace), str(places.shared), "/tmp"}
    base |= {"/var/tmp"} if Path("/tmp") in tmp_path.parents else set()  # in use, so another is
    granted = Grants(writable=(tmp_path / "granted", tmp_path / "missing", Path("/")))
    for confinement, more in ((Grants(), set()), (granted, {str(tmp_path / "granted")})):
        made = mounted(view(places).find_mounts(confinement).options)
        assert {at for option, at in made if option == "--bind"} == base | more


def test_hidden_places_are_covered_by_nothing(places: SandboxPaths) -> None:
    options = view(places).find_mounts(Grants()).options
    at = options.index("/usr/secret")
    assert options[at - 2 : at] == ("--ro-bind", str(places.empty_file))


def test_network_is_unshared_unless_granted(places: SandboxPaths) -> None:
    assert "--unshare-net" in view(places).find_mounts(Grants()).options
    assert "--unshare-net" not in view(places).find_mounts(Grants(network=True)).options


def test_old_bubblewrap_gets_only_options_it_knows(places: SandboxPaths) -> None:
    old = view(places, version=(0, 4, 1)).find_mounts(Grants()).options
    assert not {"--disable-userns", "--size"} & set(old)
    new = view(places).find_mounts(Grants()).options
    assert {"--disable-userns", "--size"} <= set(new)


def test_temporary_directory_is_where_nothing_else_is_mounted(places: SandboxPaths) -> None:
    elsewhere = Path("/srv/agentcli")
    moved = replace(
        places,
        workspace=elsewhere,
        private=elsewhere / "p",
        home=elsewhere / "p/shared/home",
        readable=(),
        toolchains=(),
    )
    assert view(moved).temporary == Path("/tmp")
    in_tmp = replace(moved, workspace=Path("/tmp/x/ws"))
    assert view(in_tmp).temporary == Path("/var/tmp")
    in_both = replace(in_tmp, readable=(Path("/var/tmp/x/y"),))
    assert view(in_both).temporary == in_both.temporary


def test_directories_on_the_way_in_tmp_are_fresh_and_sealed(places: SandboxPaths) -> None:
    in_tmp = replace(places, workspace=Path("/tmp/x/y/ws"))
    options = view(in_tmp).find_mounts(Grants()).options
    assert options[options.index("/tmp/x") - 1] == "--tmpfs"
    sealed = [options[at + 1] for at, word in enumerate(options) if word == "--remount-ro"]
    assert {"/dev", "/tmp/x"} <= set(sealed)
    assert sealed[-2:] == ["/", "/proc"]


def test_namespace_has_all_mounts_below_its_view_and_a_command_there_only_its_own(
    places: SandboxPaths,
) -> None:
    guarded = GuardedPath(places.workspace / ".git/hooks", "directory")
    made = view(places, guarded).find_mounts(Grants())
    alone, kept = mounted(made.options), mounted(made.namespace_options)
    assert [(option, f"/view{at}") for option, at in alone] == kept[-len(alone) :]
    options = made.options_kept
    assert mounted(options) == []
    assert options[options.index("--dev-bind") :][:3] == ("--dev-bind", "/view", "/")
    assert set(made.options) >= set(options) - {"--dev-bind", "/view"}


def test_root_keeps_one_right_in_the_files_of_others(places: SandboxPaths) -> None:
    assert "CAP_DAC_OVERRIDE" not in view(places).find_mounts(Grants()).options
    options = view(replace(places, needs_override=True)).find_mounts(Grants()).options
    assert "CAP_DAC_OVERRIDE" in options and "--unshare-user" not in options
