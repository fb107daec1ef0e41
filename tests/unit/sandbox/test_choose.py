import errno
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.sandbox import landlock_rules
from agentcli.sandbox.choose import (
    LayerFinding,
    Remedy,
    SandboxScope,
    _find_bubblewrap,
    choose_sandbox,
    describe_layers,
    explain_bubblewrap_failure,
    explain_missing_landlock,
    explain_unwritable_workspace,
    run_probe_alone,
)
from agentcli.sandbox.landlock import OLDEST_VERSION
from agentcli.types.errors import SettingsError
from agentcli.types.sandbox import PROBE_PASSED, Sandbox

linux = pytest.mark.skipif(sys.platform != "linux", reason="these layers are those of Linux")


def ground(base: Path) -> SandboxScope:
    (base / "ws").mkdir(exist_ok=True)
    return SandboxScope(workspace=base / "ws", private=base / "private")


def test_layer_that_does_not_exist_is_not_replaced_by_another(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no command is run"):
        choose_sandbox(ground(tmp_path), only="none")


def test_root_directory_is_no_workspace(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="root directory"):
        choose_sandbox(SandboxScope(workspace=Path("/"), private=tmp_path))


@linux
def test_chosen_layer_is_the_first_that_works(tmp_path: Path) -> None:
    findings = describe_layers(ground(tmp_path))
    assert [finding.layer for finding in findings] == ["bubblewrap", "landlock"]
    working = [finding.layer for finding in findings if finding.works]
    if not working:
        pytest.skip("no layer works here")
    sandbox = choose_sandbox(ground(tmp_path))
    sandbox.close()
    assert sandbox.name == working[0]
    assert list((tmp_path / "ws").iterdir()) == []


FULL_DISK = """
import resource, sys
from pathlib import Path
from agentcli.sandbox.choose import SandboxScope, choose_sandbox

def run_probe(sandbox, line, cwd):
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    return "echo: write error: No space left on device"

base = Path(sys.argv[1])
scope = SandboxScope(workspace=base / "ws", private=base / "private")
try:
    choose_sandbox(scope, only="landlock", run_probe=run_probe)
except Exception as error:
    print(error, error.hint, sep="\\n")
"""
"""From the probe on, no file can have a byte."""


@linux
def test_full_disk_is_named_and_no_reason_to_do_without_a_sandbox(tmp_path: Path) -> None:
    if landlock_rules.read_version() < OLDEST_VERSION:
        pytest.skip("this kernel has no Landlock")
    ground(tmp_path)
    ran = subprocess.run(
        [sys.executable, "-B", "-c", FULL_DISK, tmp_path],
        capture_output=True,
        text=True,
        check=True,
    )
    message, hint = ran.stdout.splitlines()
    assert message.startswith(f"cannot write {tmp_path}/private/")
    assert hint == "free some space, then run it again"


@linux
def test_layer_that_only_says_that_it_holds_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no command is run"):
        choose_sandbox(ground(tmp_path), run_probe=lambda sandbox, line, cwd: PROBE_PASSED)


@linux
def test_next_layer_is_tried_if_the_proof_of_one_fails(tmp_path: Path) -> None:
    tried: list[str] = []

    def run_probe(sandbox: Sandbox, line: str, cwd: Path) -> str:
        tried.append(sandbox.name)
        is_first = len(set(tried)) == 1
        return "no\n" if is_first else run_probe_alone(sandbox, line, cwd)

    if [one.works for one in describe_layers(ground(tmp_path))] != [True, True]:
        pytest.skip("needs two layers")
    broken: list[LayerFinding] = []
    sandbox = choose_sandbox(ground(tmp_path), run_probe=run_probe, broken=broken.append)
    sandbox.close()
    assert tried == ["bubblewrap", "bubblewrap", "landlock"]  # the first also without kept mounts
    assert (sandbox.name, [one.layer for one in broken]) == ("landlock", ["bubblewrap"])


@linux
@pytest.mark.skipif(os.geteuid() == 0, reason="root can hide keys by a view of the files")
@pytest.mark.skipif(landlock_rules.read_version() < OLDEST_VERSION, reason="needs Landlock")
def test_landlock_is_not_used_where_it_cannot_hide_keys(tmp_path: Path) -> None:
    scope = ground(tmp_path)
    home = {"HOME": str(scope.workspace), "PATH": os.environ["PATH"]}
    choose_sandbox(scope, environ=home, only="landlock").close()
    (scope.workspace / ".aws").mkdir()
    with pytest.raises(SettingsError, match="cannot hide your keys"):
        choose_sandbox(scope, environ=home, only="landlock")


@linux
def test_every_finding_says_what_is_wrong_or_what_is_open(tmp_path: Path) -> None:
    for finding in describe_layers(ground(tmp_path)):
        match finding:
            case LayerFinding(works=True, reason="", fix="", gaps=open_gaps):
                assert bool(open_gaps) == (finding.layer == "landlock")
            case LayerFinding(works=False, reason=reason):
                assert reason.endswith(".")


def test_bubblewrap_is_never_taken_from_the_workspace(tmp_path: Path) -> None:
    for directory in (tmp_path / "ws/bin", tmp_path / "tools"):
        directory.mkdir(parents=True)
        (directory / "bwrap").write_text("#!/bin/sh\n")
        (directory / "bwrap").chmod(0o755)
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/bwrap").symlink_to(tmp_path / "ws/bin/bwrap")
    path = f"{tmp_path}/ws/bin:.:bin:{tmp_path}/linked:{tmp_path}/tools"
    found = _find_bubblewrap({"PATH": path}, tmp_path / "ws")
    assert found is not None and tmp_path / "ws" not in found.resolve().parents
    assert found in (tmp_path / "tools/bwrap", Path("/usr/bin/bwrap"), Path("/usr/local/bin/bwrap"))


def settings(base: Path, **values: str) -> Path:
    for name, value in values.items():
        path = base / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return base


def test_apparmor_is_named_with_the_command_that_helps(tmp_path: Path) -> None:
    sysctl = settings(tmp_path, kernel__apparmor_restrict_unprivileged_userns="1")
    remedy = explain_bubblewrap_failure("bwrap: x", Path("/usr/bin/bwrap"), settings=sysctl)
    assert "AppArmor does not let bubblewrap make user namespaces" in remedy.reason
    assert "profile bwrap /usr/bin/bwrap flags=(unconfined)" in remedy.fix
    assert "sudo apparmor_parser -r /etc/apparmor.d/bwrap" in remedy.fix


def test_kernel_settings_are_named_with_the_command_that_helps(tmp_path: Path) -> None:
    clone = settings(tmp_path / "a", kernel__unprivileged_userns_clone="0")
    most = settings(tmp_path / "b", user__max_user_namespaces="0")
    fixes = [
        explain_bubblewrap_failure("", Path("/usr/bin/bwrap"), settings=path).fix
        for path in (clone, most)
    ]
    assert fixes == [
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        "sudo sysctl -w user.max_user_namespaces=15000",
    ]


def test_unknown_failure_is_told_in_its_own_words(tmp_path: Path) -> None:
    remedy = explain_bubblewrap_failure(
        "a\nbwrap: no luck\n", Path("/bin/bwrap"), settings=tmp_path
    )
    assert "bwrap: no luck" in remedy.reason


def test_workspace_without_room_is_told_as_that(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "ws/.agentcli"))
    assert explain_unwritable_workspace(full, tmp_path / "ws") == Remedy(
        f"The workspace cannot be written: No space left on device ({tmp_path}/ws/.agentcli).",
        f"df -h {tmp_path}/ws && df -i {tmp_path}/ws  # and make room there",
    )
    assert explain_unwritable_workspace(full, tmp_path / "other") is None
    assert explain_unwritable_workspace(OSError(errno.ENOSPC, "x"), tmp_path) is None


def test_old_landlock_is_told_from_none() -> None:
    assert explain_missing_landlock(0, 4) == Remedy(
        "This kernel has no Landlock, or it is not switched on (lsm=landlock,...)."
    )
    assert "version 3; 4 is needed" in explain_missing_landlock(3, 4).reason


@linux
@pytest.mark.layer("landlock")
def test_gaps_are_named_as_far_as_they_are_open(tmp_path: Path) -> None:
    (found,) = (one for one in describe_layers(ground(tmp_path)) if one.layer == "landlock")
    assert "After kill -9 of agentcli nothing is put back." in found.gaps
    has_view = os.geteuid() == 0
    is_open = "Commands can change times and attributes of your files anywhere." in found.gaps
    assert is_open or has_view
    is_open = "Commands can signal your other programs." in found.gaps
    assert is_open == (landlock_rules.read_version() < landlock_rules.SCOPE_VERSION)


@linux
def test_stronger_layer_that_fails_is_told(tmp_path: Path) -> None:
    usual = ground(tmp_path)
    if {"bubblewrap", "landlock"} - {one.layer for one in describe_layers(usual) if one.works}:
        pytest.skip("both layers have to work here")
    broken: list[LayerFinding] = []
    choose_sandbox(usual, broken=broken.append).close()
    assert broken == []
    without = replace(usual, readable=(tmp_path / "missing",))
    chosen = choose_sandbox(without, broken=broken.append)
    chosen.close()
    assert (chosen.name, [one.layer for one in broken]) == ("landlock", ["bubblewrap"])
