import os
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

import pytest

from agentcli.sandbox.landlock import LandlockSandbox
from agentcli.sandbox.limits import CommandLimits
from agentcli.system.own_process import find_own_program
from agentcli.types.grants import Grants
from tests.support.confined import LAYERS, Confined, confined
from tests.support.program import agentcli, script


@pytest.fixture(params=LAYERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Confined]:
    with confined(request.param, tmp_path) as made:
        yield made


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def test_files_of_the_workspace_are_made_changed_and_run(place: Confined) -> None:
    ran = place.run(
        "mkdir -p a/b && printf '#!/bin/sh\\necho ran $1\\n' > a/b/script && chmod +x a/b/script && "
        "a/b/script one && ln -s a/b/script link && ./link two && ln a/b/script hard && mv a c && "
        "cat > here <<'END'\nheredoc\nEND\ncat here && rm -r c && ls"
    )
    assert (ran.code, ran.output) == (0, "ran one\nran two\nheredoc\nhard\nhere\nlink\n")


def test_temporary_files_and_the_home_directory_are_kept_between_commands(place: Confined) -> None:
    first = place.run('echo 1 > "$TMPDIR/a" && echo 2 > ~/b && mktemp > /dev/null && echo $HOME')
    second = place.run('cat "$TMPDIR/a" ~/b')
    assert (first.code, second.output) == (0, "1\n2\n")
    assert Path(first.output.strip()).is_relative_to(place.private)


def test_tmp_is_private(place: Confined) -> None:
    if place.sandbox.name != "bubblewrap":
        pytest.skip("without a mount namespace there is TMPDIR only")
    place.run("echo 1 > /tmp/agentcli-probe; echo 2 > /var/tmp/agentcli-probe2")
    assert place.run("cat /tmp/agentcli-probe /tmp/agentcli-probe2").output == "1\n2\n"
    assert not Path("/tmp/agentcli-probe").exists()


def test_kept_outputs_are_read(place: Confined) -> None:
    (place.kept / "1.log").write_text("kept")
    assert place.run(f"cat {place.kept}/1.log").output == "kept"


def test_program_in_a_directory_to_read_is_run(place: Confined) -> None:
    program = place.kept / "server"
    program.write_text("#!/bin/sh\necho served\n")
    program.chmod(0o755)
    assert place.run(str(program)).output == "served\n"


def test_granted_directory_is_written(place: Confined) -> None:
    granted = place.outside / "granted"
    granted.mkdir()
    confinement = Grants(writable=(granted, place.outside / "missing"))
    place.run(f"echo 1 > {granted}/a; echo 2 > {place.outside}/b", confinement=confinement)
    place.run(f"echo 3 > {granted}/c")
    assert sorted(path.name for path in place.outside.rglob("*")) == ["a", "granted", "secret.txt"]


def test_granted_tmp_is_the_machines(place: Confined) -> None:
    with TemporaryDirectory(dir="/tmp", prefix="agentcli-test-") as directory:
        granted = Grants(writable=(Path("/tmp"), Path("/")))
        ran = place.run(f"echo 1 > {directory}/a; echo 2 > b; echo 3 > /new", confinement=granted)
        assert (Path(directory, "a").read_text(), ran.code) == ("1\n", 1)
        assert (place.workspace / "b").read_text() == "2\n"


def test_granting_a_directory_above_does_not_open_what_is_protected(place: Confined) -> None:
    confinement = Grants(writable=(place.workspace.parent, place.workspace / ".agentcli"))
    place.run("mkdir -p .agentcli; echo x > .agentcli/settings.toml", confinement=confinement)
    assert not (place.workspace / ".agentcli").exists()


def test_granted_network_reaches_the_machine(place: Confined) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        port = server.getsockname()[1]
        ran = place.run(f"echo hello > /dev/tcp/127.0.0.1/{port}", confinement=Grants(network=True))
        connection, _ = server.accept()
        with connection:
            assert (ran.code, connection.recv(100)) == (0, b"hello\n")


LOOPBACK = """
import http.server, os, threading, urllib.request
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://localhost:{server.server_port}/hello").read().decode())
"""


def test_server_of_a_command_is_reached_by_it(place: Confined) -> None:
    if isinstance(place.sandbox, LandlockSandbox) and not place.sandbox.can_run_servers:
        pytest.skip("this machine does not let us connect for commands: a named gap")
    (place.workspace / "hello").write_text("hello")
    ran = place.python(LOOPBACK)
    assert (ran.code, ran.output.splitlines()[-1]) == (0, "hello")


UNIX = """
import multiprocessing, os, socket
left, right = socket.socketpair()
left.send(b"pair"); print(right.recv(9).decode())
"""


def test_processes_talk_to_each_other(place: Confined) -> None:
    assert place.python(UNIX).output == "pair\n"
    assert place.run("mkfifo p; (echo through > p &); cat p; echo a | cat - <(echo b)").output == (
        "through\na\nb\n"
    )


POOLS = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from multiprocessing.shared_memory import SharedMemory
if __name__ == '__main__':
    context = get_context("fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool: print(sum(pool.map(abs, range(-9, 0))))
    with context.Pool(2) as pool: print(sum(pool.map(abs, range(-9, 0))))
    memory = SharedMemory("agentcli-test-memory", create=True, size=6)
    memory.buf[:6] = b"shared"
    other = SharedMemory("agentcli-test-memory")
    print(bytes(other.buf[:6]).decode())
    other.close(), memory.close(), memory.unlink()
"""


def test_python_uses_all_its_processes(place: Confined) -> None:
    if isinstance(place.sandbox, LandlockSandbox) and not place.sandbox.has_shared_memory:
        pytest.skip("another program has shared memory here, which stays closed: a named gap")
    ran = place.python(POOLS)
    assert (ran.code, ran.output) == (0, "45\n45\nshared\n")
    assert not Path("/dev/shm/agentcli-test-memory").exists()


@pytest.mark.parametrize("layer", LAYERS)
def test_temporary_directory_has_a_short_path_and_ends_with_the_session(
    layer: str, tmp_path: Path
) -> None:
    with confined(layer, tmp_path) as place:
        ran = place.run('mktemp && mktemp -d && echo "$TMPDIR" && stat -c %a "$TMPDIR" && env')
        made, directory, temporary, mode, *variables = ran.output.splitlines()
        assert ran.code == 0
    assert Path(made).parent == Path(directory).parent == Path(temporary)
    assert (len(temporary) < 40, mode) == (True, "700")
    assert {f"{name}={temporary}" for name in ("TMPDIR", "TMP", "TEMP")} <= set(variables)
    assert not Path(made).exists()
    assert not Path(directory).exists()


@pytest.mark.parametrize("layer", LAYERS)
def test_shared_memory_of_others_is_not_reached(layer: str, tmp_path: Path) -> None:
    with NamedTemporaryFile(dir="/dev/shm", prefix="agentcli-segment-") as segment:
        segment.write(b"a secret")
        segment.flush()
        with confined(layer, tmp_path) as place:
            listed = place.run("ls /dev/shm 2>&1")
            ran = place.run(f"cat {segment.name}; echo x >> {segment.name}")
        assert "agentcli-segment-" not in listed.output
        assert "secret" not in ran.output
        assert Path(segment.name).read_bytes() == b"a secret"


def test_background_jobs_of_a_command_run_and_are_signalled(place: Confined) -> None:
    ran = place.run(
        "sleep 300 & kill $!; wait $!; echo $?; (sleep 0.1; echo later) & wait; "
        "timeout 0.2 sleep 300; echo $?; set -m; sleep 300 & kill %1; wait; echo end"
    )
    assert [line for line in ran.output.splitlines() if line.isalnum()] == [
        "143",
        "later",
        "124",
        "end",
    ]


def test_signal_and_exit_code_of_a_command_come_back(place: Confined) -> None:
    assert place.run("exit 7").code == 7
    # Bubblewrap tells a signal the way a shell does.
    assert place.run("kill -SEGV $$").code in (-11, 139)


def test_command_starts_where_it_shall(place: Confined) -> None:
    (place.workspace / "sub dir").mkdir()
    assert place.run("pwd", cwd="sub dir").output == f"{place.workspace / 'sub dir'}\n"


@needs("git")
def test_git_works(place: Confined) -> None:
    ran = place.run(
        "git init -q . && git config --get user.name; export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b "
        "GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; echo 1 > f && git add f && git commit -qm one && "
        "git checkout -qb side && echo 2 > f && git stash -q && git stash pop -q && git commit -qam two && "
        "git checkout -q - && git merge -q side && git rebase -q side && git gc -q && git status --short && "
        "git log --format=%s && git diff HEAD~1 --stat | tail -1 && git clone -q . copy && ls copy"
    )
    assert (ran.code, ran.told) == (0, ())
    assert ran.output.splitlines()[-4:] == [
        "two",
        "one",
        " 1 file changed, 1 insertion(+), 1 deletion(-)",
        "f",
    ]


def _wheel(directory: Path) -> None:
    with zipfile.ZipFile(directory / "tiny-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "ANSWER = 42\n")
        wheel.writestr(
            "tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
        )
        wheel.writestr(
            "tiny-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")


def test_virtual_environment_is_made_and_packages_are_installed(place: Confined) -> None:
    _wheel(place.workspace)
    ran = place.run(
        "python3 -m venv --without-pip .venv && python3 -m pip --version && "
        "python3 -m pip install -q --no-index --no-deps --disable-pip-version-check --target lib "
        "tiny-1.0-py3-none-any.whl && "
        "PYTHONPATH=lib .venv/bin/python -c 'import sys, tiny; print(tiny.ANSWER, sys.prefix)'"
    )
    if "No module named pip" in ran.output:
        pytest.skip("this Python comes without pip")
    assert (ran.code, ran.output.splitlines()[-1]) == (0, f"42 {place.workspace}/.venv")


def test_pytest_runs(place: Confined) -> None:
    (place.workspace / "test_it.py").write_text(
        "def test_it(tmp_path):\n    (tmp_path / 'a').touch()\n"
    )
    packages = Path(pytest.__file__).parent.parent
    shutil.copytree(
        packages,
        place.workspace / "lib",
        ignore=lambda directory, names: _not_needed(directory, names, packages),
    )
    ran = place.run("PYTHONPATH=lib python3 -m pytest -q -p no:cacheprovider test_it.py")
    assert (ran.code, "1 passed" in ran.output) == (0, True)


def _not_needed(directory: str, names: list[str], packages: Path) -> set[str]:
    if Path(directory) != packages:
        return set()
    return {
        name
        for name in names
        if not name.startswith(
            ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py.py")
        )
    } | {name for name in names if name.startswith(("pytest_", "pytest-"))}


@needs("node")
def test_node_runs_programs_of_its_own(place: Confined) -> None:
    ran = place.run(
        "node -e \"const {execSync} = require('child_process'); "
        "console.log(execSync('echo child').toString().trim(), require('os').tmpdir().length > 0)\""
    )
    assert (ran.code, ran.output) == (0, "child true\n")


@needs("npm")
def test_npm_runs_scripts(place: Confined) -> None:
    (place.workspace / "package.json").write_text(
        '{"name": "x", "version": "1.0.0", "scripts": {"hi": "echo hi"}}'
    )
    ran = place.run(
        "npm run -s hi && npm install --offline --no-audit --no-fund --silent && npm --version"
    )
    assert (ran.code, ran.output.splitlines()[0]) == (0, "hi")


@needs("gcc", "make")
def test_c_is_compiled(place: Confined) -> None:
    (place.workspace / "main.c").write_text(
        '#include <stdio.h>\nint main(void) { puts("compiled"); }\n'
    )
    (place.workspace / "Makefile").write_text("main: main.c\n\tgcc -O1 -o $@ $<\n")
    ran = place.run("make -s -j4 && ./main && gcc -fsanitize=address -o asan main.c && ./asan")
    assert (ran.code, ran.output) == (0, "compiled\ncompiled\n")


@needs("cargo")
def test_rust_is_compiled(place: Confined) -> None:
    version = place.run("cargo --version")
    if version.code != 0 and subprocess.run(["cargo", "--version"], capture_output=True).returncode:
        pytest.skip("cargo does not work here at all")
    ran = place.run("cargo init -q --vcs none --name x . && cargo run -q --offline")
    assert (version.code, ran.code, ran.output) == (0, 0, "Hello, world!\n")


def test_activated_environment_of_the_workspace_is_used(tmp_path: Path) -> None:
    program = tmp_path / "workspace/.venv/bin/mine"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)
    environ = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "VIRTUAL_ENV": str(program.parent.parent),
    }
    for layer in LAYERS:
        with confined(layer, tmp_path, environ=environ) as place:
            assert place.run("mine").output == "mine\n"


@pytest.mark.parametrize("layer", LAYERS)
def test_fork_bomb_is_stopped(layer: str, tmp_path: Path) -> None:
    with confined(layer, tmp_path, limits=CommandLimits(processes=150)) as place:
        # Bounded, should nobody stop it.
        ran = place.run("for i in $(seq 600); do sleep 20 & done; wait; echo survived")
        [told] = ran.told
        assert told.startswith("Stopped: it had more than ")
        assert "survived" not in ran.output


@pytest.mark.parametrize("layer", LAYERS)
def test_memory_bomb_is_stopped(layer: str, tmp_path: Path) -> None:
    limits = CommandLimits(memory_bytes=200 * 1024**2)
    with confined(layer, tmp_path, limits=limits) as place:
        ran = place.python(
            "import time\nkept = []\n"
            "for _ in range(60):\n    kept.append(bytearray(b'x') * 2**24)\n    time.sleep(0.02)\n"
            "print('survived')\n"
        )
        [told] = ran.told
        assert told == (
            "Stopped: it used more than 200 MiB of memory. The limit is the setting command_memory."
        )
        assert "survived" not in ran.output


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("target", ["big", "$TMPDIR/big"])
def test_command_that_fills_the_disk_is_stopped(layer: str, target: str, tmp_path: Path) -> None:
    limits = CommandLimits(disk_bytes=20 * 1024**2)
    with confined(layer, tmp_path, limits=limits) as place:
        # Bounded, should nobody stop it; but other programs may give space back meanwhile.
        step = f"head -c 4000000 /dev/urandom >> {target}; sleep 0.05"
        ran = place.run(f"for i in $(seq 250); do {step}; done; echo survived")
        [told] = ran.told
        assert told.startswith("Stopped: while it ran, programs used more than 20 MiB of disk.")
        assert "survived" not in ran.output


@pytest.mark.parametrize("layer", ["landlock"])  # in bubblewrap each command has its own /dev/shm
@pytest.mark.parametrize("target", ["home", "granted"])
def test_another_file_system_is_not_filled_either(layer: str, target: str, tmp_path: Path) -> None:
    if Path("/dev/shm").stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system to write to")
    limits = CommandLimits(disk_bytes=20 * 1024**2)
    with TemporaryDirectory(prefix="agentcli-test-", dir="/dev/shm") as other:
        directory = Path(other)
        home = directory if target == "home" else None
        grants = Grants(writable=() if home else (directory,))
        with confined(layer, tmp_path, limits=limits, home=home) as place:
            # Bounded, should nobody stop it.
            step = f"head -c 4000000 /dev/urandom >> {directory}/big; sleep 0.05"
            script = f"for i in $(seq 30); do {step}; done; echo survived"
            ran = place.run(script, confinement=grants)
        [told] = ran.told
        assert told.startswith("Stopped: while it ran, programs used more than 20 MiB of disk.")


def test_commands_run_side_by_side(place: Confined) -> None:
    started = [place.start(f"sleep 0.2; echo {number} > {number}") for number in range(8)]
    for process, output in started:
        assert process.wait(30) == 0
        assert place.sandbox.finish(process) == ()
        os.close(output)
    assert sorted(path.name for path in place.workspace.iterdir()) == [str(n) for n in range(8)]


def test_long_command_line_is_passed(place: Confined) -> None:
    assert place.run(f": {'x' * 100_000}; echo end").output == "end\n"


def test_python_of_the_tests_is_there(place: Confined) -> None:
    ran = place.run("python3 -c 'import sys; print(sys.version_info[:2])'")
    assert ran.output == f"{sys.version_info[:2]}\n"


@pytest.mark.parametrize("layer", LAYERS)
def test_own_ripgrep_is_found_last_and_not_replaced(layer: str, tmp_path: Path) -> None:
    if not find_own_program("rg").exists():
        pytest.skip("ripgrep is not installed beside agentcli")
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "sh", "cat", "git", "env", "dirname", "ln", "true"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("needle\n")
    commands = (
        "rg --no-heading needle > found",
        'ln -sf /bin/true "$(dirname "$(command -v rg)")/rg" || echo kept > kept',
    )
    calls = [{"calls": [{"name": "bash", "input": {"command": one}}]} for one in commands]
    ran = agentcli(
        *("run", "--mode", "auto", "--sandbox", layer),
        *("--model", script(tmp_path / "script.json", [*calls, {"text": "done"}]), "search"),
        home=tmp_path,
        cwd=workspace,
        env={"PATH": str(programs)},
    )
    if ran.code == 3:
        pytest.skip(f"{layer} does not work here")
    assert (workspace / "found").read_text() == "a.txt:needle\n", ran.err
    assert (workspace / "kept").exists()


@pytest.mark.parametrize("parent", ["/tmp", "/var/tmp"])
def test_workspace_right_below_a_temporary_directory_is_written(
    parent: str, tmp_path: Path
) -> None:
    model = script(
        tmp_path / "script.json",
        [{"calls": [{"name": "bash", "input": {"command": "echo 1 > made"}}]}, {"text": "done"}],
    )
    with TemporaryDirectory(dir=parent) as workspace:
        ran = agentcli(
            *("run", "--mode", "auto", "--model", model, "write it"),
            home=tmp_path,
            cwd=Path(workspace),
        )
        assert (Path(workspace, "made").read_text(), ran.code) == ("1\n", 0)
        assert "weaker sandbox" not in ran.err


@pytest.mark.parametrize("layer", LAYERS)
def test_scripts_of_the_users_own_skills_run_and_stay_as_they_are(
    layer: str, home: Path, workspace: Path
) -> None:
    skills, elsewhere = home / ".config/agentcli/skills", home / "dev/linked"
    for skill in (skills / "own", elsewhere):
        (skill / "scripts").mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\ndescription: It helps.\n---\n")
        (skill / "scripts/help.sh").write_text(f"echo {skill.name} > out; cat out\n")
    (skills / "linked").symlink_to(elsewhere)
    (home / "dev/secret.txt").write_text("secret")
    commands = [
        f"sh {skills}/own/scripts/help.sh; sh {skills}/linked/scripts/help.sh",
        f"echo x >> {skills}/own/scripts/help.sh; cat {home}/dev/secret.txt {home}/.config/*",
    ]
    calls = [{"calls": [{"bash": {"command": command}}]} for command in commands]
    model = script(home / "script.json", [*calls, "Done."])
    options = ("--model", model, "--mode", "auto", "--sandbox", layer, "-o", "stream-json")
    ran = agentcli("run", "-C", workspace, *options, "x", home=home)
    helped, kept = (row["model_text"] for row in ran.events if row["type"] == "tool.finished")
    assert helped == "own\nlinked\n[exit code 0]"
    assert "secret\n" not in kept and "[exit code 1]" in kept
    assert "echo x" not in (skills / "own/scripts/help.sh").read_text()
