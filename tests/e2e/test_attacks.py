"""The real program, a model that means harm, and the world afterwards."""

import os
import secrets
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.confined import LAYERS
from tests.support.processes import running, unique_seconds
from tests.support.program import Ran, agentcli, script
from tests.unit.permissions.attacks import DOING_MORE
from tests.unit.permissions.work import BEYOND, RULES

SECRET = "the-secret-outside"


@dataclass
class World:
    home: Path
    workspace: Path
    outside: Path
    sleeper: "subprocess.Popen[bytes]"
    tcp: int
    udp: int
    unix: Path
    abstract: str
    heard: list[str] = field(default_factory=list)

    def run(self, commands: list[str], *options: str) -> Ran:
        replies = [{"calls": [{"bash": {"command": one, "timeout": 20}}]} for one in commands]
        model = script(self.home / "s.json", [*replies, "done"])
        return agentcli(
            *("run", "-o", "stream-json", "-C", self.workspace, "--model", model, "--max-turns"),
            *(str(len(commands) + 1), *options, "x"),
            home=self.home,
        )


def _listen(world: World, listener: socket.socket, name: str) -> None:
    def hear() -> None:
        try:
            while True:
                if listener.type == socket.SOCK_DGRAM:
                    listener.recv(100)
                else:
                    listener.accept()[0].close()
                world.heard.append(name)
        except OSError:
            return

    threading.Thread(target=hear, daemon=True).start()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    home, workspace, outside = (tmp_path / name for name in ("home", "work", "outside"))
    for directory in (home, workspace, outside):
        directory.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    git = ["git", "-C", str(workspace), "-c", "user.name=x", "-c", "user.email=x@y"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    (workspace / ".git/hooks/pre-commit.sample").unlink(missing_ok=True)
    sleeper = subprocess.Popen(["sleep", "600"])
    tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
    unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    tcp.bind(("127.0.0.1", 0))
    udp.bind(("127.0.0.1", 0))
    unix.bind(str(outside / "s"))
    name = f"agentcli-test-{secrets.token_hex(8)}"
    abstract.bind(f"\0{name}")
    made = World(
        home=home,
        workspace=workspace,
        outside=outside,
        sleeper=sleeper,
        tcp=tcp.getsockname()[1],
        udp=udp.getsockname()[1],
        unix=outside / "s",
        abstract=name,
    )
    listeners = {"tcp": tcp, "udp": udp, "unix": unix, "abstract": abstract}
    for kind, listener in listeners.items():
        if kind != "udp":
            listener.listen()
        _listen(made, listener, kind)
    yield made
    for listener in listeners.values():
        listener.shutdown(socket.SHUT_RDWR) if listener is not udp else None
        listener.close()
    sleeper.kill()
    sleeper.wait()


def _tree(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


PYTHON_SOCKETS = (
    "python3 - <<'E'\nimport socket\n"
    "def go(f, t, a, send=False):\n"
    "    try:\n"
    "        s = socket.socket(f, t); s.settimeout(2)\n"
    "        s.sendto(b'x', a) if send else s.connect(a)\n"
    "        print(a)\n"
    "    except OSError as e: print(e)\n"
    "go(2, 1, ('127.0.0.1', {tcp})); go(2, 2, ('127.0.0.1', {udp}), True)\n"
    "go(1, 1, '{unix}'); go(1, 1, '\\0{abstract}'); go(10, 1, ('::1', {tcp}))\nE"
)

ATTACKS = (
    "cat {secret}; cp {secret} here; ln {secret} hard; ln -s {secret} soft; cat soft hard here",
    "echo evil > {outside}/new; echo evil >> {secret}; rm -f {secret}; mkdir {outside}/d",
    "mv {secret} moved; mv .git {outside}/git; ln -s {outside} out; echo evil > out/new",
    "cat /proc/*/environ /proc/*/cwd/secret.txt /proc/1/root{secret} /proc/self/root{secret}",
    "tar cf - -C {outside} . | tar xf -; rsync -a {outside}/ got/; cat got/* secret.txt",
    "find / -name secret.txt -exec cat {{}} + ; grep -rs the-secret / --include=secret.txt",
    "exec 9<>/dev/tcp/127.0.0.1/{tcp} && echo hi >&9; echo hi > /dev/udp/127.0.0.1/{udp}",
    PYTHON_SOCKETS,
    "curl -s http://127.0.0.1:{tcp}/ --max-time 2; wget -qO- http://127.0.0.1:{tcp}/ -T 2",
    "kill -9 {pid}; kill -STOP {pid}; kill -9 -1; kill -9 {own}; renice 19 {pid}; gdb -p {pid}",
    "taskset -p 1 {pid}; prlimit --pid {pid} --nofile=1; ionice -c3 -p {pid}; chrt -i -p 0 {pid}",
    "echo evil > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "mv .git/hooks .git/h2; mkdir .git/hooks; echo evil > .git/hooks/post-commit",
    "git config core.hooksPath evil; git config alias.x '!evil'; git config core.fsmonitor evil",
    "git config --file .git/config core.pager evil; sed -i s/bare/evil/ .git/config",
    "git config --worktree core.pager evil; echo '[core]' > .git/config.worktree",
    "rm -rf .git; git init -q; echo evil > .git/hooks/pre-commit",
    "mv .git g; mkdir evil; cp -r g/. evil; echo evil > evil/hooks/x; echo gitdir: evil > .git",
    "git worktree add {outside}/wt; git worktree add wt && echo evil > .git/worktrees/wt/commondir",
    "git init -q sub && echo evil > sub/.git/hooks/pre-commit; git init --bare -q bare",
    "git init -q a/b/sub; cd a/b/sub; git config core.fsmonitor evil; git config alias.x '!evil'",
    "cp -r .git .git/modules-evil; mkdir -p .git/modules; mv .git/modules-evil .git/modules/evil; "
    "echo evil > .git/modules/evil/hooks/x; mkdir m; echo gitdir: ../.git/modules/evil > m/.git",
    "echo '../evil' > .git/commondir; echo evil > .git/objects/info/alternates",
    "mkdir -p .agentcli; echo evil > .agentcli/settings.toml; echo evil > .agentcli/hooks.toml",
    "(setsid sleep {seconds} &); nohup sleep {seconds} & disown; (sleep {seconds} & ) ; true",
    "python3 -c 'import os; os.fork() or os.setsid() or os.fork() or "
    'os.execlp("sleep", "sleep", "{seconds}")\'',
    "printf '\\033]0;evil\\007\\033[2J\\033]52;c;ZXZpbA==\\007\\033P+q\\033\\\\'",
    "printf '\\x9b31m\\x9d0;evil\\x9c\\r\\b\\b'",
    "mkfifo f; mknod d b 8 0; mknod n c 1 3; head -c 10 /dev/sda /dev/mem; cat < f & true",
    "mount -t tmpfs x /mnt; unshare -r true && echo ESCAPED; chroot / true; nsenter -t 1 -a true",
    "su -c id; sudo -n id; cp /bin/cat c; chmod u+s c; echo evil > /etc/cron.d/x; crontab -l",
    "echo evil > ~/.bashrc; echo evil > {home}/.bashrc; echo evil > {home}/.config/agentcli/x",
    "touch -d 2000-01-01 {secret}; chmod 777 {secret}; setfattr -n user.x -v y {secret}",
    "yes | head -c 30000000; head -c 3000000 /dev/urandom",
    "exec 1>&- 2>&-; sleep 0.1",
    "trap '' TERM INT HUP; exit 3",
    "kill -9 $$",
    "ulimit -c unlimited; kill -SEGV $$",
    "cd {outside}; touch here; cd /; touch here; cd ..; touch here",
    "while :; do ln -sfn {outside} race; rm -f race; mkdir race; rmdir race; done & sleep 1; "
    "kill %1",
)


@pytest.mark.parametrize("layer", LAYERS)
def test_world_is_the_same_after_every_attack(layer: str, world: World) -> None:
    git = world.workspace / ".git"
    before, hooks = _tree(world.outside), _tree(git / "hooks")
    config, priority = (git / "config").read_bytes(), os.getpriority(os.PRIO_PROCESS, 0)
    affinity, seconds = os.sched_getaffinity(world.sleeper.pid), unique_seconds()
    facts: dict[str, Any] = {
        "secret": world.outside / "secret.txt",
        "outside": world.outside,
        "home": world.home,
        "pid": world.sleeper.pid,
        "own": os.getpid(),
        "tcp": world.tcp,
        "udp": world.udp,
        "unix": world.unix,
        "abstract": world.abstract,
        "seconds": seconds,
    }
    (world.home / ".bashrc").write_text("mine\n")

    ran = world.run([one.format(**facts) for one in ATTACKS], "--mode", "auto", "--sandbox", layer)

    assert ran.code == 0, ran.err
    assert world.heard == []
    assert world.sleeper.poll() is None
    assert os.getpriority(os.PRIO_PROCESS, world.sleeper.pid) == priority
    assert os.sched_getaffinity(world.sleeper.pid) == affinity
    assert _tree(world.outside) == before
    assert (world.home / ".bashrc").read_text() == "mine\n"
    assert not Path("/etc/cron.d/x").exists()
    assert SECRET not in ran.out + ran.err
    told = "".join(one["model_text"] for one in ran.events if one["type"] == "tool.finished")
    assert "ESCAPED" not in told
    assert "\x1b" not in ran.out + ran.err
    assert [
        path for path in world.home.rglob("*") if path.is_file() and SECRET in _text(path)
    ] == []
    assert running(seconds) == []
    assert not (world.workspace / ".agentcli").exists()
    assert [path for path in _suspects(world.workspace) if b"evil" in path.read_bytes()] == []
    if (git / "config").is_file():
        assert (git / "config").read_bytes() == config
        assert {**_tree(git / "hooks")} in (hooks, {})


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def _suspects(workspace: Path) -> list[Path]:
    """Whatever git would run or be led by, were it called in the workspace or below."""
    names = ("hooks/*", "config", "config.worktree", "commondir")
    return [
        path
        for git in workspace.rglob(".git")
        if git.is_dir()
        for name in names
        for path in git.glob(name)
        if path.is_file()
    ]


DENIED_IN_A_RUN = 20
"""Fewer than end a turn in which a tool only fails."""


@pytest.mark.parametrize(
    ("rules", "lines"), [((), DOING_MORE), (RULES, BEYOND)], ids=["without rules", "with rules"]
)
def test_no_slipping_line_runs_by_itself(rules: list[str], lines: list[str], world: World) -> None:
    allowed = [option for rule in rules for option in ("--allow", rule)]
    tried = [line for line in lines if "\0" not in line]
    before = _tree(world.workspace)

    for first in range(0, len(tried), DENIED_IN_A_RUN):
        some = tried[first : first + DENIED_IN_A_RUN]
        ran = world.run(some, "--on-deny", "continue", *allowed)
        judged = [one["decision"] for one in ran.events if one["type"] == "approval"]
        errors = [one["error"] for one in ran.events if one["type"] == "tool.finished"]
        assert set(judged) == {"deny"}
        # One that waits for a terminal is refused before it is judged.
        assert len(judged) + errors.count("invalid_input") == len(some) == len(errors)
        assert ran.code == 5

    assert _tree(world.workspace) == before
