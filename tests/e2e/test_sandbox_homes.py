import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcli.sandbox.homes import open_home
from agentcli.types.grants import Grants
from tests.support.confined import LAYERS, Ran, confined
from tests.support.program import PROGRAM, agentcli, environment, script
from tests.support.registry import serve_registry

ONLINE = Grants(network=True)
OFFLINE = Grants()
Run = Callable[[str, Grants], Ran]


def needs(*programs: str) -> pytest.MarkDecorator:
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@pytest.fixture(params=LAYERS)
def run_in_new_session(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Run a command in a session of its own, with the lasting home of one workspace."""
    workspace = tmp_path / "workspace"
    number = iter(range(100))
    programs = (Path(sys.executable).parent, Path(sys.base_prefix, "bin"), os.environ["PATH"])
    environ = {**os.environ, "PATH": os.pathsep.join(map(str, programs))}

    def run(command: str, grants: Grants) -> Ran:
        opened = open_home(tmp_path / "homes", workspace)
        session = tmp_path / f"session{next(number)}"
        try:
            with confined(
                request.param, tmp_path, session=session, home=opened.path, environ=environ
            ) as place:
                return place.run(command, confinement=grants)
        finally:
            opened.close()

    return run


@pytest.mark.skipif(
    not any(Path(sys.base_prefix).glob("lib/python3*/site-packages/pip")), reason="no pip here"
)
def test_pip_downloads_once_for_all_sessions(run_in_new_session: Run) -> None:
    with serve_registry() as registry:
        install = (
            f"{sys.base_prefix}/bin/python3 -m pip install -qq --disable-pip-version-check --no-deps "
            f"--index-url {registry.url}/simple --trusted-host 127.0.0.1 --target "
        )
        first = run_in_new_session(f"{install} one tiny", ONLINE)
        assert (first.code, registry.downloads) == (0, 1), first.output
        second = run_in_new_session(f"{install} two tiny && cat two/tiny.py", ONLINE)
        assert (second.code, second.output, registry.downloads) == (0, "ANSWER = 42\n", 1)


@needs("uv")
def test_uv_installs_from_its_cache_without_network(run_in_new_session: Run) -> None:
    with serve_registry() as registry:
        install = f"uv pip install -q --index-url {registry.url}/simple tiny --target "
        first = run_in_new_session(f"{install} one", ONLINE)
        assert first.code == 0, first.output
    second = run_in_new_session(f"{install} two --offline && cat two/tiny.py", OFFLINE)
    assert (second.code, second.output) == (0, "ANSWER = 42\n")


@needs("npm", "node")
def test_npm_installs_from_its_cache_without_network(run_in_new_session: Run) -> None:
    with serve_registry() as registry:
        install = f"npm install -s --no-audit --no-fund --registry {registry.url} tiny"
        first = run_in_new_session(f"mkdir one && cd one && {install}", ONLINE)
        assert first.code == 0, first.output
    second = run_in_new_session(
        f"mkdir two && cd two && {install} --offline && node -p 'require(\"tiny\")'", OFFLINE
    )
    assert (second.code, second.output) == (0, "42\n")


@pytest.mark.parametrize(
    "check",
    [
        "ruff check -q --cache-dir ~/.cache/checker",
        pytest.param("mypy --cache-dir ~/.cache/checker", marks=pytest.mark.soak),
    ],
)
def test_pytest_and_checkers_find_what_they_stored(run_in_new_session: Run, check: str) -> None:
    check += " test_it.py && ls ~/.cache/checker"
    test = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 pytest -o cache_dir=$HOME/.cache/pytest"
    written = "printf 'def test_it() -> None:\\n    assert 0\\n' > test_it.py"
    first = run_in_new_session(f"{written}; {check} && {test}", OFFLINE)
    assert "1 failed" in first.output, first.output
    second = run_in_new_session(f"{check} && {test} --last-failed-no-failures none --lf", OFFLINE)
    assert "rerun previous 1 failure" in second.output


def test_two_sessions_at_once_share_it(tmp_path: Path, home: Path, workspace: Path) -> None:
    os.mkfifo(begun := workspace / "begun")
    os.mkfifo(seen := workspace / "seen")
    store = "mkdir -p ~/.cache; echo 1 > ~/.cache/one"
    wait = f"echo > {begun}; read < {seen}; ls ~/.cache"
    words = _words(tmp_path, workspace, f"{store}; {wait}", "first")
    with subprocess.Popen(
        [PROGRAM, *words], env=environment(home), cwd=home, stdout=subprocess.PIPE, text=True
    ) as first:
        begun.read_text()
        command = f"echo 2 > ~/.cache/two; cat ~/.cache/one; echo > {seen}"
        second = agentcli(*_words(tmp_path, workspace, command, "second"), home=home)
        assert second.code == 0
        assert first.wait() == 0
    assert _outputs(home) == {"1\n", "one\ntwo\n"}


def test_next_session_uses_it_after_a_kill(tmp_path: Path, home: Path, workspace: Path) -> None:
    os.mkfifo(begun := workspace / "begun")
    store = "mkdir -p ~/.cache; echo 1 > ~/.cache/one; echo x > ~/.gitconfig"
    words = _words(tmp_path, workspace, f"{store}; echo > {begun}; cat {begun}", "first")
    with subprocess.Popen([PROGRAM, *words], env=environment(home), cwd=home) as first:
        begun.read_text()
        first.send_signal(signal.SIGKILL)
    ran = agentcli(
        *_words(tmp_path, workspace, "cat ~/.cache/one; grep -c safe ~/.gitconfig", "second"),
        home=home,
    )
    assert ran.code == 0
    assert "1\n1\n" in _outputs(home)


def test_doctor_shows_the_caches_and_a_command_clears_them(
    tmp_path: Path, home: Path, workspace: Path
) -> None:
    def doctor() -> str:
        ran = agentcli("doctor", "-C", workspace, "--model", "script/x.json", home=home)
        (line,) = (one for one in ran.out.splitlines() if one[6:].startswith("caches"))
        return line

    assert doctor().endswith("none yet for commands of this workspace")
    command = "mkdir -p ~/.cache && head -c 3000000 /dev/urandom > ~/.cache/big"
    agentcli(*_words(tmp_path, workspace, command, "first"), home=home)
    assert "3 MB in the home of this workspace's commands" in doctor()

    (listed,) = json.loads(agentcli("caches", "list", "--json", home=home).out)
    assert (listed["workspace"], listed["size_bytes"] > 3_000_000) == (str(workspace), True)
    assert not Path(listed["home"]).is_relative_to(home / ".cache")
    cleared = agentcli("caches", "clear", "-C", workspace, home=home)
    assert (cleared.code, cleared.err) == (0, f"cleared 3 MB: {workspace}\n")
    assert not Path(listed["home"]).exists()
    assert agentcli("caches", "clear", "--all", home=home).err == "nothing to clear\n"


def test_session_works_where_no_home_can_last(tmp_path: Path, home: Path, workspace: Path) -> None:
    state = home / ".local/state/agentcli"
    state.mkdir(parents=True)
    (state / "homes").write_text("not a directory")
    ran = agentcli(*_words(tmp_path, workspace, "touch ~/x && echo made", "first"), home=home)
    assert ran.code == 0
    assert "what commands download is not kept after this session" in ran.err
    assert "made\n" in _outputs(home)


def _words(tmp_path: Path, workspace: Path, command: str, name: str) -> list[str]:
    model = script(tmp_path / f"{name}.json", [{"calls": [{"bash": {"command": command}}]}, "done"])
    return ["run", "-C", str(workspace), "--mode", "auto", "--model", model, "x"]


def _outputs(home: Path) -> set[str]:
    logs = home.glob(".local/state/agentcli/sessions/*/out/*.log")
    return {log.read_text() for log in logs}
