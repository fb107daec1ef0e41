import asyncio
import os
import shutil
import signal
import subprocess
from pathlib import Path
from subprocess import Popen

import pytest

from agentcli.sandbox import landlock_rules
from agentcli.sandbox.choose import SandboxScope, choose_sandbox, describe_layers
from agentcli.tools import shells
from agentcli.types.grants import Grants
from agentcli.types.sandbox import PROBE_PASSED, Sandbox
from tests.support.bash import Session, details, in_session, text
from tests.support.processes import running, until

LAYERS = ("bubblewrap", "landlock")
TAKING_DOWN = (
    LAYERS if landlock_rules.read_version() >= landlock_rules.SCOPE_VERSION else LAYERS[:1]
)


async def waiting(session: Session) -> "list[Popen[bytes]]":
    await asyncio.sleep(0)  # they are made when there is nothing else to do
    return [started.result().child for started in session.shells._waiting]


def confined(tmp_path: Path, layer: str) -> Sandbox:
    workspace, private = tmp_path / "workspace", tmp_path / "private"
    (tmp_path / "out").mkdir()
    subprocess.run(["git", "init", "-q", workspace], check=True)
    ground = SandboxScope(workspace=workspace, private=private, readable=(tmp_path / "out",))
    works = {finding.layer for finding in describe_layers(ground) if finding.works}
    if layer not in works:
        pytest.skip(f"{layer} does not work on this machine")
    return choose_sandbox(ground, only=layer)


def test_next_command_runs_in_a_shell_that_waited(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("true")
        waited = [child.pid for child in await waiting(session)]
        ran = [text(await session.run("echo $$")) for _ in waited]
        assert ran == [f"{pid}\n[exit code 0]" for pid in waited]

    in_session(tmp_path, scenario)


def test_shell_that_waited_shows_nothing_of_it(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        cold = await session.run(
            "cat; echo $((SECONDS / 30)) ${REPLY-unset} $#; declare -F; trap -p"
        )
        ready = await session.run(
            "cat; echo $((SECONDS / 30)) ${REPLY-unset} $#; declare -F; trap -p"
        )
        assert text(ready).replace(".2.", ".1.") == text(cold).replace(".2.", ".1.")
        assert text(ready).startswith("0 unset 0\n")

    in_session(tmp_path, scenario)


def test_shells_wait_where_the_last_command_ended(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("mkdir sub")
        await session.run("cd sub")
        waited = [child.pid for child in await waiting(session)]
        output = await session.run("pwd")
        assert text(output) == f"{session.workspace / 'sub'}\n[exit code 0]"
        await session.run("true")
        assert set(waited) & {child.pid for child in await waiting(session)} == set()

    in_session(tmp_path, scenario)


def test_shell_in_a_directory_that_was_replaced_is_not_used(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("mkdir sub; cd sub")
        await waiting(session)
        sub = session.workspace / "sub"
        sub.rename(session.workspace / "old")
        sub.mkdir()
        await session.run("touch here")
        assert (sub / "here").exists()

    in_session(tmp_path, scenario)


def test_shell_that_was_killed_is_not_used(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("true")
        for child in await waiting(session):
            os.kill(child.pid, signal.SIGKILL)
            await asyncio.to_thread(child.wait)
        assert text(await session.run("echo a")) == "a\n[exit code 0]"

    in_session(tmp_path, scenario)


def test_one_shell_waits_after_the_first_command_and_two_after_others(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        counts = []
        for _ in range(3):
            await session.run("true")
            counts.append(len(await waiting(session)))
        assert counts == [1, 2, 2]

    in_session(tmp_path, scenario)


def test_nothing_waits_while_nobody_works(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("true")
        await session.run("true")
        children = await waiting(session)
        assert len(children) == 2
        session.shells.stop_spares()
        await until(lambda: all(child.returncode == 126 for child in children))
        assert text(await session.run("echo a")) == "a\n[exit code 0]"

    in_session(tmp_path, scenario)


def test_nothing_waits_outside_the_sandbox_or_with_credentials(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        for grants in (Grants(outside=True), Grants(credentials=("git",))):
            await session.run("true", grants=grants)
            assert await waiting(session) == []

    in_session(tmp_path, scenario)


@pytest.mark.parametrize("layer", LAYERS)
def test_first_command_runs_in_a_shell_that_was_started_while_it_was_judged(
    tmp_path: Path, layer: str
) -> None:
    async def scenario(session: Session) -> None:
        session.shells.prepare_first(session.workspace, Grants(outside=True))
        assert await waiting(session) == []
        session.shells.prepare_first(session.workspace, Grants())
        (started,) = await waiting(session)
        await session.run("true", grants=Grants())
        assert started.returncode == 0

    in_session(tmp_path, scenario, sandbox=confined(tmp_path, layer))


@pytest.mark.parametrize("layer", LAYERS)
def test_first_command_runs_in_the_shell_that_proved_its_sandbox(
    tmp_path: Path, layer: str
) -> None:
    async def scenario(session: Session) -> None:
        assert session.shells.prove("echo", session.workspace) == PROBE_PASSED
        session.shells.prepare_first(session.workspace, Grants())
        (proven,) = await waiting(session)
        assert text(await session.run("echo a", grants=Grants())) == "a\n[exit code 0]"
        assert proven.returncode == 0

    in_session(tmp_path, scenario, sandbox=confined(tmp_path, layer))


@pytest.mark.parametrize("layer", LAYERS)
def test_shell_that_did_not_prove_its_sandbox_is_not_used(tmp_path: Path, layer: str) -> None:
    async def scenario(session: Session) -> None:
        assert session.shells.prove("echo no; exit 3", session.workspace) == "no\n"
        assert await waiting(session) == []

    in_session(tmp_path, scenario, sandbox=confined(tmp_path, layer))


@pytest.mark.parametrize("layer", LAYERS)
def test_shell_that_proved_the_sandbox_gets_no_command_with_more_grants(
    tmp_path: Path, layer: str
) -> None:
    async def scenario(session: Session) -> None:
        granted = Grants(writable=(tmp_path / "granted",))
        granted.writable[0].mkdir()
        session.shells.prove("echo", session.workspace)
        (proven,) = await waiting(session)
        session.shells.prepare_first(session.workspace, granted)
        assert proven not in await waiting(session)
        await session.run(f"touch {granted.writable[0]}/a", grants=granted)
        assert (granted.writable[0] / "a").exists()
        await until(lambda: proven.returncode == 126)

    in_session(tmp_path, scenario, sandbox=confined(tmp_path, layer))


def test_placeholders_do_not_wait_long_for_a_first_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(session: Session) -> None:
        placeholder = session.workspace / ".agentcli"
        session.shells.prove("echo", session.workspace)
        assert placeholder.exists()
        session.shells.stop_unused()
        await until(lambda: not placeholder.exists())
        output = text(await session.run("touch .agentcli/a", grants=Grants()))
        assert output.startswith("touch: cannot touch '.agentcli/a': Read-only file system")

    monkeypatch.setattr(shells, "_FIRST_S", 0.0)
    in_session(tmp_path, scenario, sandbox=confined(tmp_path, "bubblewrap"))


def test_nothing_is_started_before_a_first_command_without_a_sandbox(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        session.shells.prepare_first(session.workspace, Grants())
        assert await waiting(session) == []

    in_session(tmp_path, scenario)


def test_shell_ends_with_whoever_would_have_let_it_go(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("true")
        await session.run("true")
        assert len(await waiting(session)) == 2
        names = [started.result().handle.command_file.name for started in session.shells._waiting]
        await until(lambda: [len(running(name)) for name in names] == [1, 1])
        for started in session.shells._waiting:
            started.result().handle.close()
            started.result().child.wait(20)
            assert started.result().child.returncode == 126
            os.close(started.result().output)
        session.shells._waiting.clear()

    in_session(tmp_path, scenario)


# Only shells of this session: others on the machine have a file of their own there.
FORGE = """
mkdir {evil}
while sleep 0.01; do
    for script in {out}/*sh; do
        name=$(basename "$script" sh)
        printf '%s\\0' {evil} | tee {out}/cwd/"$name" {out}/"$name" >/dev/null
        for shell in /proc/[0-9]*; do
            [ "$shell/cwd" -ef {work} ] || [ "$shell/cwd" -ef {work}/sub ] || continue
            printf '%s\\0' {evil} >> "$shell/fd/98"
        done
    done
done 2>/dev/null
"""


@pytest.mark.parametrize("layer", [*LAYERS, "none"])
def test_command_in_the_background_cannot_tell_the_directory_of_another(
    tmp_path: Path, layer: str
) -> None:
    async def scenario(session: Session) -> None:
        evil = session.workspace / "evil"
        forged = FORGE.format(out=session.out_dir, evil=evil, work=session.workspace)
        await session.run("mkdir sub")
        await session.run(forged, background=True)
        await until(evil.exists)
        await session.run("cd sub; exec sleep 0.3")
        assert session.directory.path == session.workspace
        await session.run("cd sub; sleep 0.1; kill -9 $$")
        assert session.directory.path == session.workspace
        await session.run("cd sub; sleep 0.1")
        assert session.directory.path == session.workspace / "sub"

    sandbox = None if layer == "none" else confined(tmp_path, layer)
    in_session(tmp_path, scenario, sandbox)
    if sandbox:
        sandbox.close()


@pytest.mark.parametrize("layer", LAYERS)
def test_confined_command_in_a_shell_that_waited_is_looked_after(
    tmp_path: Path, layer: str
) -> None:
    async def scenario(session: Session) -> None:
        await session.run("true")
        await waiting(session)
        await session.run("echo '[alias]' > .git/config; touch .git/hooks/pre-commit")
        assert "[alias]" not in (session.workspace / ".git/config").read_text()
        assert not (session.workspace / ".git/hooks/pre-commit").exists()
        output = await session.run("sleep 600 >/dev/null 2>&1 & echo started")
        assert details(output).left_running == () or layer not in TAKING_DOWN

    sandbox = confined(tmp_path, layer)
    in_session(tmp_path, scenario, sandbox)
    sandbox.close()


@pytest.mark.parametrize("layer", LAYERS)
def test_command_whose_workspace_the_person_removes_is_told_to_its_end(
    tmp_path: Path, layer: str
) -> None:
    async def scenario(session: Session) -> None:
        running_on = asyncio.ensure_future(session.run("echo out; sleep 0.3"))
        await until(lambda: session.told)
        await asyncio.to_thread(shutil.rmtree, session.workspace)
        # With the workspace goes what bubblewrap holds in it, and then the command is stopped.
        why = "Stopped: " if layer == "bubblewrap" else "the working directory is gone; "
        assert text(await running_on).startswith(f"out\n[{why}")

    sandbox = confined(tmp_path, layer)
    in_session(tmp_path, scenario, sandbox)
    sandbox.close()


def test_guarded_file_that_was_replaced_meanwhile_stays_guarded(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("true")
        await waiting(session)
        config = session.workspace / ".git/config"
        new = session.workspace / ".git/new"
        shutil.copy(config, new)
        new.rename(config)
        before = config.read_text()
        assert "Read-only" in text(await session.run("echo '[alias]' >> .git/config"))
        assert config.read_text() == before

    sandbox = confined(tmp_path, "bubblewrap")
    in_session(tmp_path, scenario, sandbox)
    sandbox.close()
