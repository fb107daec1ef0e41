"""Commands of one session are started in one view of the file system, and yet do not meet."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcli.sandbox import bubblewrap
from agentcli.sandbox.bubblewrap import BubblewrapSandbox
from agentcli.types.grants import Grants
from tests.support.confined import Confined, confined


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Confined]:
    with confined("bubblewrap", tmp_path) as made:
        subprocess.run(["git", "init", "-q", made.workspace], check=True)
        if not keeps_mounts(made):
            pytest.skip("no mounts can be kept here")
        yield made


def keeps_mounts(place: Confined) -> bool:
    return isinstance(place.sandbox, BubblewrapSandbox) and place.sandbox.keeps_mounts


def test_only_the_view_is_mounted_for_a_command(place: Confined) -> None:
    lines = place.run("cat /proc/self/mountinfo").output.splitlines()
    fields = [line.split() for line in lines]
    assert [one[4] for one in fields if one[3] == "/" and "proc" in one[-3:]] == ["/proc"]
    flags = {one[4]: set(one[5].split(",")) for one in fields}
    assert {"ro", "nosuid", "nodev"} <= flags["/"] & flags["/usr"] & flags["/etc"] & flags["/proc"]
    assert all("nosuid" in one for one in flags.values())
    ran = place.run("cd /proc/1/root && ls -d view oldroot newroot 2>/dev/null; ls -d /usr")
    assert ran.output == "/usr\n"


def test_command_meets_no_other_in_the_same_mounts(place: Confined) -> None:
    other, output = place.start("echo mine > /dev/shm/mine; touch ready; exec sleep 300")
    try:
        ran = place.run(
            "until [ -e ready ]; do :; done; ls /dev/shm; pgrep sleep; kill -9 -1 2>/dev/null; true"
        )
        assert ran.output == ""
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
        place.sandbox.finish(other)
        os.close(output)


def test_what_a_person_replaced_is_held_for_the_next_command(place: Confined) -> None:
    config = place.workspace / ".git/config"
    for content in ("[core]\n", "[core]\n\tbare = false\n"):
        place.run("true")
        (place.workspace / "new").write_text(content)
        (place.workspace / "new").replace(config)
        place.run("echo '[alias]' >> .git/config; touch .git/hooks/pre-commit")
        assert config.read_text() == content
        assert not (place.workspace / ".git/hooks/pre-commit").exists()


def test_running_command_stays_where_it_is(place: Confined) -> None:
    process, output = place.start("touch ready; until [ -e go ]; do sleep 0.01; done; ls; pwd")
    place.run("until [ -e ready ]; do sleep 0.01; done")
    (place.workspace / "new").write_text("[core]\n")
    (place.workspace / "new").replace(place.workspace / ".git/config")
    place.run("touch go")
    assert process.wait() == 0
    place.sandbox.finish(process)
    with os.fdopen(output) as text:
        assert text.read() == f"go\nready\n{place.workspace}\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")
def test_what_is_mounted_later_is_there_for_the_next_command_alone(place: Confined) -> None:
    # A mount is news to the sandboxes of all other tests, so it is made in a namespace apart.
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [
            *("unshare", "--mount", sys.executable, "-m", "pytest", "-n", "0"),
            # Its own files: it would also remove those of earlier runs, which takes long.
            *("-p", "no:cacheprovider", "--basetemp", place.outside / "of the check"),
            *("-o", f"python_functions={check_what_is_mounted_later.__name__}", __file__),
        ],
        env=environ,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, "1 passed" in ran.stdout) == (0, True), ran.stdout


def check_what_is_mounted_later(place: Confined) -> None:
    inside = place.workspace / "mounted"
    inside.mkdir()
    running, output = place.start("touch ready; until [ -e go ]; do sleep 0.01; done; ls mounted")
    place.run("until [ -e ready ]; do sleep 0.01; done")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "dev,suid", "tmpfs", inside], check=True)
    try:
        (inside / "file").touch()
        subprocess.run(["mknod", inside / "zero", "c", "1", "5"], check=True)
        ran = place.run("ls mounted; head -c1 mounted/zero | wc -c; touch go")
        assert ran.output.splitlines()[:2] == ["file", "zero"]
        assert ran.output.splitlines()[-1] == "0"
        assert running.wait() == 0
    finally:
        place.sandbox.finish(running)
        subprocess.run(["umount", inside], check=True)
    with os.fdopen(output) as text:
        assert text.read() == ""


def test_no_library_of_a_command_is_loaded_outside(place: Confined) -> None:
    outside = place.outside / "loading"
    reader, writer = os.pipe()
    process = place.sandbox.start(
        ["/bin/sh", "-c", 'echo "$LD_DEBUG_OUTPUT"'],
        cwd=place.workspace,
        env={"PATH": "/usr/bin:/bin", "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(outside)},
        stdout=writer,
        grants=Grants(),
    )
    os.close(writer)
    with os.fdopen(reader) as text:
        assert str(outside) in text.read()
    process.wait()
    place.sandbox.finish(process)
    assert list(place.outside.iterdir()) == [place.secret]


def test_machine_that_keeps_no_mounts_confines_commands_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bubblewrap, "_CUT_OFF", ("/no/such/unshare",))
    with confined("bubblewrap", tmp_path) as place:
        assert not keeps_mounts(place)
        subprocess.run(["git", "init", "-q", place.workspace], check=True)
        ran = place.run(f"cat {place.secret}; touch here {place.outside}/there /usr/there; id -u")
        assert "the secret outside" not in ran.output
        assert ran.output.splitlines()[-1] == str(os.getuid())
        assert (place.workspace / "here").exists()
        assert list(place.outside.iterdir()) == [place.secret]
