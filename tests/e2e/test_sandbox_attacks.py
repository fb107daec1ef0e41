import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from agentcli.sandbox import landlock_rules
from tests.support.confined import LAYERS, Confined, confined


@pytest.fixture(params=LAYERS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Confined]:
    with confined(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(["sleep", "600"], env={"CANARY": "secret-of-another-process"})
    yield process
    process.kill()
    process.wait()


READS = {
    "by its path": "cat {secret}",
    "through a link": "ln -s {secret} link; cat link",
    "through a link to its directory": "ln -s {outside} link; cat link/secret.txt; ls link/",
    "through dots": "cat ../outside/secret.txt",
    "by a hard link": "ln {secret} hard; cat hard; ln -L ../outside/secret.txt hard2; cat hard2",
    "through its own root": "cat /proc/self/root/{secret} /proc/1/root/{secret}",
    "through its parent": "cat /proc/$PPID/root/{secret}; cat /proc/$PPID/cwd/{secret}",
    "through the old root": "cat /oldroot/{secret} /newroot/{secret}",
    "by a copy": "cp {secret} copy; mv {secret} moved; tar cf - {outside} | tr -d '\\0'",
    "by redirecting": "read line < {secret}; echo $line",
    "by git": "git hash-object -w --stdin < {secret}; git --no-pager diff --no-index /dev/null {secret}",
}


@pytest.mark.parametrize("how", READS)
def test_secret_outside_is_not_read(place: Confined, how: str) -> None:
    ran = place.run(READS[how].format(secret=place.secret, outside=place.outside))
    assert "the secret outside" not in ran.output
    found = [
        path for path in place.workspace.rglob("*") if path.is_file() and not path.is_symlink()
    ]
    assert not [path for path in found if b"the secret outside" in path.read_bytes()]
    assert place.secret.read_text() == "the secret outside"


WRITES = {
    "over it": "echo gone > {secret}",
    "truncating": "truncate -s 0 {secret}; : > {secret}",
    "through a link": "ln -s {secret} link; echo gone > link",
    "into its directory": "echo x > {outside}/new; mkdir {outside}/dir; mkfifo {outside}/fifo",
    "through a link to its directory": "ln -s {outside} link; echo x > link/new; rm -f link/secret.txt",
    "moving": "echo x > x; mv x {outside}/new; mv {secret} {outside}/moved",
    "removing": "rm -rf {outside}; rm -f {secret}",
    "linking": "echo x > x; ln x {outside}/new; ln -s x {outside}/new2",
    "moving the workspace": "cd ..; mv workspace workspace2; rm -rf workspace2 outside",
    "where everybody may": "echo x > {outside}/../new; touch {outside}/../new",
    "to kept outputs": "echo gone > {kept}/1.log; rm -f {kept}/1.log; touch {kept}/new",
    "beside the private places": "touch {private}/new {private}/../new",
}


@pytest.mark.parametrize("how", WRITES)
def test_nothing_outside_is_written(place: Confined, how: str) -> None:
    (place.kept / "1.log").write_text("kept")
    before = _tree(place.outside.parent, without=place.workspace)
    place.run(
        WRITES[how].format(
            secret=place.secret, outside=place.outside, kept=place.kept, private=place.private
        )
    )
    assert _tree(place.outside.parent, without=place.workspace) == before
    assert place.workspace.is_dir()


def test_planted_link_leads_nowhere(place: Confined) -> None:
    (place.workspace / "data").symlink_to(place.outside)
    (place.workspace / "file").symlink_to(place.secret)
    ran = place.run("cat file data/secret.txt; echo gone > file; echo x > data/new")
    assert "the secret outside" not in ran.output
    assert _tree(place.outside) == {"secret.txt": b"the secret outside"}


SWAP = """
import os, sys, time
end = time.monotonic() + 2
while time.monotonic() < end:
    os.symlink(sys.argv[1], "sub"); os.unlink("sub"); os.mkdir("sub"); os.rmdir("sub")
"""


def test_swapped_directory_leads_nowhere(place: Confined) -> None:
    (place.workspace / "swap.py").write_text(SWAP)
    process, output = place.start(f"python3 swap.py {place.outside}")
    while process.poll() is None:
        ran = place.run("for i in 1 2 3 4 5; do cat sub/secret.txt; echo x > sub/new; done")
        assert "the secret outside" not in ran.output
    place.sandbox.finish(process)
    os.close(output)
    assert _tree(place.outside) == {"secret.txt": b"the secret outside"}


@pytest.mark.parametrize("layer", LAYERS)
def test_nothing_is_mounted_through_what_a_command_left_in_its_temporary_directory(
    layer: str,
) -> None:
    with (
        TemporaryDirectory(dir="/tmp", prefix="agentcli-test-") as base,
        confined(layer, Path(base)) as place,
    ):
        for path in (
            base,
            f"$TMPDIR/{Path(base).name}",
            f"{place.private}/shared/tmp/{Path(base).name}",
        ):
            place.run(f"mv {path} {path}-away; rmdir {path}; ln -s {place.outside} {path}")
        ran = place.run("touch here; cat /tmp/*/secret.txt")
        assert "the secret outside" not in ran.output
        assert (place.workspace / "here").exists()
        assert _tree(place.outside) == {"secret.txt": b"the secret outside"}


def test_secrets_of_the_home_directory_are_not_there(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    for name in (".ssh/id_ed25519", ".aws/credentials", ".cargo/credentials.toml", ".netrc"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("the key")
    environ = {**os.environ, "HOME": str(home)}
    for layer in LAYERS:
        with confined(layer, tmp_path, environ=environ) as made:
            ran = made.run(
                f"cat ~/.ssh/* ~/.aws/* {home}/.ssh/* {home}/.aws/* {home}/.cargo/* {home}/.netrc;"
                f"grep -r 'the key' ~ {home} 2>/dev/null"
            )
            assert "the key" not in ran.output


def test_passwords_of_the_system_are_not_read_even_by_root(place: Confined) -> None:
    ran = place.run("cat /etc/shadow /etc/gshadow /etc/sudoers; ls -l /etc/ssl/private/ | wc -l")
    assert ":" not in "".join(
        line for line in ran.output.splitlines() if not line.startswith(("cat:", "ls:"))
    )


def test_environment_reaches_no_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-the-agent")
    monkeypatch.setenv("MY_COMPANY_SETTING", "key-of-the-agent")
    another = subprocess.Popen(["sleep", "600"])
    try:
        for layer in LAYERS:
            with confined(layer, tmp_path) as made:
                ran = made.run("env; cat /proc/*/environ /proc/*/task/*/environ")
                assert "key-of-the-agent" not in ran.output
    finally:
        another.kill()
        another.wait()


def test_no_file_is_inherited(place: Confined) -> None:
    with (place.outside / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        ran = place.run("ls -l /proc/$$/fd; true")
    assert str(place.outside) not in ran.output
    assert sorted(line.split()[8] for line in ran.output.splitlines()[1:]) == ["0", "1", "2"]


def test_devices_and_kernel_settings_are_out_of_reach(place: Confined) -> None:
    ran = place.run(
        "for path in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/power/state "
        "/proc/sys/kernel/hostname /sys/kernel/uevent_helper; do (echo x > $path) && echo wrote $path; done;"
        "for path in /dev/mem /dev/kmem /dev/sda /dev/vda /dev/kvm /dev/fuse /dev/net/tun /dev/kmsg "
        "/proc/kcore /proc/kmsg; do (head -c1 $path > got) 2>/dev/null && echo read $path; done;"
        "mknod disk b 8 0 && echo made disk; mknod null c 1 3 && echo made null; mkfifo pipe && echo fifo"
    )
    assert [
        line for line in ran.output.splitlines() if line.startswith(("wrote", "read", "made"))
    ] == []
    assert stat.S_ISFIFO((place.workspace / "pipe").stat().st_mode)


def test_programs_do_not_gain_rights(place: Confined) -> None:
    ran = place.run(
        "cp /bin/cat cat; chmod u+s cat; grep -E '^(NoNewPrivs|Seccomp|CapEff|CapPrm):' /proc/self/status;"
        "su -c true root; sudo -n true; unshare -r true; unshare -n true; nsenter -t 1 -m true; chroot / true"
    )
    status = dict(line.split(":\t") for line in ran.output.splitlines() if ":\t" in line)
    assert status == {
        "NoNewPrivs": "1",
        "Seccomp": "2",
        "CapEff": "0000000000000000",
        "CapPrm": "0000000000000000",
    }


CALLS = {
    "ptrace": "libc.ptrace(16, {pid}, 0, 0)",
    "process_vm_readv": "libc.process_vm_readv({pid}, None, 0, None, 0, 0)",
    "io_uring": "libc.syscall(425, 8, ctypes.create_string_buffer(200))",
    "keyctl": "libc.syscall({keyctl}, 0, -3, 1)",
    "add_key": "libc.syscall({add_key}, b'user', b'x', b'y', 1, -3)",
    "bpf": "libc.syscall({bpf}, 5, ctypes.create_string_buffer(200), 120)",
    "perf_event_open": "libc.syscall({perf}, ctypes.create_string_buffer(200), 0, -1, -1, 0)",
    "userfaultfd": "libc.syscall({userfaultfd}, 1)",
    "unshare": "libc.unshare(0x10000000)",
    "setns": "libc.setns(os.open('/proc/self/ns/net', 0), 0)",
    "mount": "libc.mount(b'none', b'/mnt', b'tmpfs', 0, None)",
    "move_mount": "libc.syscall(429, -100, b'/tmp', -100, b'/mnt', 0)",
    "fsopen": "libc.syscall(430, b'tmpfs', 0)",
    "open_tree": "libc.syscall(428, -100, b'/', 1)",
    "open_by_handle_at": "libc.syscall({open_by_handle_at}, -100, ctypes.create_string_buffer(200), 0)",
    "pidfd_getfd": "libc.syscall(438, os.pidfd_open(os.getpid()), 0, 0)",
    "kcmp": "libc.syscall({kcmp}, os.getpid(), os.getpid(), 0, 0, 0)",
    "clone with a user namespace": "libc.syscall({clone}, 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": "libc.syscall(435, ctypes.create_string_buffer(88), 88)",
    "TIOCSTI": "libc.ioctl(os.open('/dev/null', os.O_RDWR), 0x5412, b'x')",
    "AF_VSOCK": "libc.socket(40, 1, 0)",
    "AF_ALG": "libc.socket(38, 5, 0)",
    "AF_PACKET": "libc.socket(17, 3, 0)",
    "AF_BLUETOOTH": "libc.socket(31, 3, 0)",
    "netlink, but for routes": "libc.socket(16, 3, 15)",
    "chroot": "libc.chroot(b'/')",
}
X86, ARM = 0, 1
NUMBERS = {
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "perf": (298, 241),
    "userfaultfd": (323, 282),
    "open_by_handle_at": (304, 265),
    "kcmp": (312, 272),
    "clone": (56, 220),
}
REFUSALS = {1: "EPERM", 38: "ENOSYS", 97: "EAFNOSUPPORT"}


def test_calls_into_the_kernel_are_refused(
    place: Confined, sleeper: "subprocess.Popen[bytes]"
) -> None:
    machine = X86 if os.uname().machine == "x86_64" else ARM
    numbers = {name: both[machine] for name, both in NUMBERS.items()}
    lines = ["import ctypes, os", "libc = ctypes.CDLL(None, use_errno=True)"]
    for name, call in CALLS.items():
        made = call.format(pid=sleeper.pid, **numbers)
        lines += [
            "ctypes.set_errno(0)",
            f"print({name!r}, {made}, ctypes.get_errno(), sep=':')",
        ]
    ran = place.python("\n".join(lines))
    told = {line.split(":")[0]: line.split(":")[1:] for line in ran.output.splitlines()}
    expected = {name: ["-1", "1"] for name in CALLS}
    families = [name for name in CALLS if name.startswith(("AF_", "netlink"))]
    expected |= {name: ["-1", "97"] for name in families} | {"clone3": ["-1", "38"]}
    assert told == expected


def test_foreign_instruction_set_ends_the_process(place: Confined) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("32-bit calls are tried on x86_64")
    (place.workspace / "old.c").write_text(
        "int main(void) { int r; __asm__ volatile("
        '"int $0x80" : "=a"(r) : "a"(20)); return r > 0 ? 42 : 7; }'
    )
    ran = place.run("gcc -o old old.c && { ./old; echo code $?; }")
    if "code" not in ran.output:
        pytest.skip(f"no C compiler: {ran.output}")
    assert "code 159" in ran.output


def test_other_processes_are_left_alone(
    place: Confined, sleeper: "subprocess.Popen[bytes]"
) -> None:
    pid = sleeper.pid
    ran = place.run(
        f"cat /proc/{pid}/environ /proc/{pid}/mem; kill -9 {pid}; kill -TERM {pid}; kill -9 -{pid};"
        f"renice 19 -p {pid}; prlimit --nofile=1:1 --pid {pid}; gdb -p {pid} -batch; strace -p {pid};"
        f"ls -l /proc/{pid}/cwd/ /proc/{pid}/fd/; taskset -p 1 {pid}; ionice -c 3 -p {pid}; "
        f"(kill -9 -1) 2>/dev/null; true"
    )
    assert "secret-of-another-process" not in ran.output
    assert sleeper.poll() is None
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0)


LOOK_AT_TASKS = """
import os, sys
for task in os.listdir(f"/proc/{sys.argv[1]}/task"):
    for name in ("environ", "maps", "mem", "fd", "cwd", "root"):
        path = f"/proc/{sys.argv[1]}/task/{task}/{name}"
        try:
            print(name, len(os.readlink(path) if name in ("cwd", "root") else open(path).read(1)))
        except OSError:
            pass
    try:
        os.kill(int(task), 0)
        print("signalled")
    except OSError:
        pass
"""


def test_other_processes_are_seen_only_without_a_namespace(
    place: Confined, sleeper: "subprocess.Popen[bytes]"
) -> None:
    ran = place.run(f"test -e /proc/{sleeper.pid} && echo seen")
    assert place.sandbox.has_process_namespace == (ran.output == "")


def test_whoever_starts_commands_is_left_alone(place: Confined) -> None:
    place.run("true")
    ran = place.python(LOOK_AT_TASKS, os.getpid())
    assert ran.output == "" or (place.sandbox.name == "bubblewrap" and "No such file" in ran.output)


WAYS_TO_A_MODE = """
import ctypes, os, sys
path, libc = sys.argv[1].encode(), ctypes.CDLL(None, use_errno=True)
name, here = os.path.basename(path), os.open(os.path.dirname(path), os.O_PATH)
file = os.open(path, os.O_PATH)
os.symlink(path, b"link")
os.symlink(os.path.dirname(path), b"folder")
tries = [
    lambda: os.chmod(path, 0o777),
    lambda: os.chmod(name, 0o777, dir_fd=here),
    lambda: os.chmod(b"link", 0o777),
    lambda: os.chmod(b"folder/" + name, 0o777),
    lambda: os.chmod(b"/proc/self/fd/%d" % file, 0o777),
    lambda: os.chmod(b"/proc/thread-self/fd/%d" % file, 0o777),
    lambda: os.chmod(b"//proc//self/fd/%d" % file, 0o777),
    lambda: os.chmod(b"/dev/fd/%d" % file, 0o777),
    lambda: os.chmod(b"/proc/self/root" + path, 0o777),
    lambda: os.chmod(b"/proc/%d/fd/%d" % (os.getpid(), file), 0o777),
    lambda: libc.syscall(452, here, name, 0o777, 0),
    lambda: libc.syscall(452, file, b"", 0o777, 0x1000),
    lambda: libc.fchmod(here, 0o777),
    lambda: os.chown(path, -1, 65533),
    lambda: os.lchown(path, -1, 65533),
    lambda: os.chown(name, -1, 65533, dir_fd=here),
]
for one in tries:
    try:
        one()
    except OSError:
        pass
"""


def test_modes_and_owners_of_files_outside_stay(place: Confined) -> None:
    if place.sandbox.name == "landlock" and not getattr(place.sandbox, "protects_modes", True):
        pytest.skip("this machine does not let us make calls for commands: named as a gap")
    before, above = place.secret.stat(), place.outside.stat()
    place.run(f"chmod 777 {place.secret}; chmod -R a+rwx {place.outside}; chown 1:1 {place.secret}")
    place.python(WAYS_TO_A_MODE, place.secret)
    after = place.secret.stat()
    assert (after.st_mode, after.st_uid, after.st_gid, after.st_ctime_ns) == (
        *(before.st_mode, before.st_uid, before.st_gid, before.st_ctime_ns),
    )
    assert place.outside.stat().st_mode == above.st_mode


def test_program_does_not_get_the_rights_of_its_owner(place: Confined) -> None:
    """Whoever starts a set-user-id program, on the same machine, has its owner's rights."""
    place.run("cp /bin/true one; chmod 4755 one; install -m 4755 /bin/true two; chmod 755 one")
    place.python(
        """
import os, shutil
def attempt(change):
    try:
        change()
    except OSError:
        pass
shutil.copy("/bin/true", "three")
attempt(lambda: os.chmod("three", 0o6755))
handle = os.open("three", os.O_RDONLY)
attempt(lambda: os.fchmod(handle, 0o4755))
attempt(lambda: os.chmod("three", 0o4755, dir_fd=os.open(".", os.O_RDONLY)))
with open(os.open("four", os.O_CREAT | os.O_WRONLY, 0o4755), "wb") as file:
    file.write(open("/bin/true", "rb").read())
"""
    )
    modes = {path.name: path.stat().st_mode for path in place.workspace.iterdir()}
    assert {"one", "three", "four"} <= {*modes}
    assert {name: oct(mode) for name, mode in modes.items() if mode & stat.S_ISUID} == {}
    assert modes["one"] & 0o777 == 0o755


def test_path_that_is_swapped_during_the_call_changes_no_mode_outside(place: Confined) -> None:
    if place.sandbox.name == "landlock" and not getattr(place.sandbox, "protects_modes", True):
        pytest.skip("this machine does not let us make calls for commands: named as a gap")
    mode = place.secret.stat().st_mode
    place.python(
        """
import ctypes, os, sys, threading
mine, theirs = b"mine".ljust(300, b"\\0"), sys.argv[1].encode().ljust(300, b"\\0")
open("mine", "w").close()
buffer = ctypes.create_string_buffer(mine, 300)
libc = ctypes.CDLL(None, use_errno=True)
done = False
def swap():
    while not done:
        ctypes.memmove(buffer, theirs, 300)
        ctypes.memmove(buffer, mine, 300)
def relink():
    while not done:
        for target in ("mine", sys.argv[1]):
            os.symlink(target, "new")
            os.rename("new", "swapped")
threads = [threading.Thread(target=swap), threading.Thread(target=relink)]
[one.start() for one in threads]
for _ in range(300):
    libc.chmod(buffer, 0o777)
    libc.chmod(b"swapped", 0o777)
done = True
[one.join() for one in threads]
""",
        place.secret,
    )
    assert place.secret.stat().st_mode == mode


def test_modes_of_own_files_are_changed_by_every_way(place: Confined) -> None:
    ran = place.python(
        """
import os, stat, tempfile
def mode(path): return oct(stat.S_IMODE(os.stat(path).st_mode))
os.mkdir("d"); open("d/f", "w").close(); os.symlink("f", "d/l")
os.chmod("d/f", 0o711); print(mode("d/f"))
os.chmod(os.path.abspath("d/l"), 0o712); print(mode("d/f"))
d = os.open("d", os.O_RDONLY); os.chmod("f", 0o713, dir_fd=d); print(mode("d/f"))
f = os.open("d/f", os.O_RDONLY); os.fchmod(f, 0o714); print(mode("d/f"))
os.chmod(f"/proc/self/fd/{f}", 0o715); print(mode("d/f"))
os.chdir("d"); os.chmod("../d/f", 0o716); print(mode("f"))
os.chown("f", -1, os.getgid()); os.chown("l", -1, -1, follow_symlinks=False)
with tempfile.TemporaryFile() as gone: os.fchmod(gone.fileno(), 0o600)
os.fchmod(os.memfd_create("m"), 0o600); os.fchmod(os.pipe()[0], 0o600)
for wrong, code in (("missing", 2), ("", 2), ("f/x", 20), ("x" * 300, 36)):
    try: os.chmod(wrong, 0o600)
    except OSError as error: print(error.errno == code)
"""
    )
    modes = [f"0o71{number}" for number in range(1, 7)]
    assert ran.output.split() == [*modes, *["True"] * 4], ran.output


def test_times_of_files_outside_stay(place: Confined) -> None:
    if place.sandbox.name == "landlock" and os.geteuid() != 0:
        pytest.skip("Landlock has no right for times: named as a gap")
    before = place.secret.stat()
    place.run(f"touch -d 2000-01-01 {place.secret}")
    assert place.secret.stat().st_mtime_ns == before.st_mtime_ns


def test_nothing_outlives_its_command(place: Confined) -> None:
    if (
        place.sandbox.name != "bubblewrap"
        and landlock_rules.read_version() < landlock_rules.SCOPE_VERSION
    ):
        pytest.skip("without process namespace and scopes, whoever runs a command ends the rest")
    ran = place.run(
        "setsid sleep 313 & (sleep 314 &) ; nohup sleep 315 >/dev/null 2>&1 & "
        'python3 -c \'import os; os.fork() or os.setsid() or os.fork() or os.execlp("sleep", "sleep", "316")\';'
        "echo done"
    )
    assert ran.output == "done\n"
    listed = subprocess.run(["ps", "ax", "-o", "args="], capture_output=True, text=True, check=True)
    assert [line for line in listed.stdout.splitlines() if line.startswith("sleep 31")] == []


def _tree(directory: Path, *, without: Path | None = None) -> dict[str, bytes | None]:
    """Names and contents, but for one directory and what a sandbox keeps in its own."""
    own = {"shared"}
    found = {}
    for path in sorted(directory.rglob("*")):
        relative = path.relative_to(directory)
        if without and (path == without or without in path.parents):
            continue
        if relative.parts[0] == "private" and len(relative.parts) > 1 and relative.parts[1] in own:
            continue
        is_readable = path.is_file() and os.access(path, os.R_OK)
        found[str(relative)] = path.read_bytes() if is_readable else None
    return found
