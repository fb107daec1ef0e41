import asyncio
import os
import re
import shutil
import stat
import time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from agentcli.system.process_table import ProcessTable
from agentcli.tools.bash import Bash, BashArgs
from agentcli.types.errors import ToolError
from agentcli.types.tools import Command, Effect, ErrorKind, ToolContext
from tests.support.bash import Session, details, in_session, names, ran, shells_in, text


def test_result_has_all_the_model_and_people_need(tmp_path: Path) -> None:
    output = ran(tmp_path, "echo out; echo err >&2; exit 3")
    workspace = tmp_path / "workspace"
    assert text(output) == "out\nerr\n[exit code 3]"
    assert (output.error, output.truncated) == (None, False)
    assert details(output).duration_s > 0
    assert replace(details(output), duration_s=0) == Command(
        command="echo out; echo err >&2; exit 3",
        cwd=str(workspace),
        exit_code=3,
        output_bytes=8,
        output_lines=2,
        shown_lines=2,
        head="out\nerr",
        log_path=str(tmp_path / "out/1.log"),
        output_sha256=sha256(b"out\nerr\n").hexdigest(),
    )
    assert (tmp_path / "out/1.log").read_bytes() == b"out\nerr\n"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("true", "[no output]\n[exit code 0]"),
        ("printf 'no newline'", "no newline\n[exit code 0]"),
        ("grep x /dev/null", "[no output]\n[exit code 1]"),
        ("nosuch", "bash: line 1: nosuch: command not found\n[exit code 127]"),
        ("cat; read line; echo $?", "1\n[exit code 0]"),
        (r"printf '\033[31mred\033[0m\n1%%\r99%%\r100%%\n'", "red\n100%\n[exit code 0]"),
        (r"printf 'a\0b\377\n'", "a�b�\n[exit code 0]"),
        ("for i in 1 2 3; do echo $i; echo $i >&2; done", "1\n1\n2\n2\n3\n3\n[exit code 0]"),
        ("set -o pipefail; yes | head -1", "y\n[exit code 141]"),
        ("for i in $(seq 3000); do printf '\\rframe %d' $i; done", "frame 3000\n[exit code 0]"),
        ("exec echo replaced", "replaced\n[exit code 0]"),
        ("yes | head -1", "y\n[exit code 0]"),
        ("echo a | cat", "a\n[exit code 0]"),
        ("(echo a; exit 1) | cat", "a\n[exit code 0; in the pipe: (...) 1, cat 0]"),
        ("false | cat || true", "[no output]\n[exit code 0]"),
        ("set -o pipefail; false | cat", "[no output]\n[exit code 1]"),
        ("false | cat; exit 0", "[no output]\n[exit code 0]"),
        ("cd . && false | tail -3", "[no output]\n[exit code 0; in the pipe: false 1, tail 0]"),
    ],
)
def test_output_is_plain_and_ends_with_the_exit_code(
    tmp_path: Path, command: str, shown: str
) -> None:
    output = ran(tmp_path, command)
    assert (text(output), output.error) == (shown, None)


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("vim src/app.py", "vim needs a terminal, and there is none. Use edit_file"),
        ("cd src && /usr/bin/vi app.py", "vi needs a terminal"),
        ("EDITOR=x nano a", "nano needs a terminal"),
        ("emacs a", "emacs needs a terminal"),
        ("watch -n 1 ls", "watch needs a terminal, and there is none: run its command once"),
        ("htop", "use ps aux or top -b -n 1"),
    ],
)
def test_program_that_would_wait_for_a_terminal_is_refused_at_once(
    tmp_path: Path, command: str, instead: str
) -> None:
    async def scenario(session: Session) -> None:
        with pytest.raises(ToolError) as refused:
            session.tool.parse({"command": command})
        assert str(refused.value).startswith("Not run: ") and instead in str(refused.value)

    in_session(tmp_path, scenario)


@pytest.mark.parametrize(
    "command",
    [
        "vim -es -c '%s/a/b/' -c wq a.txt",
        "vim --version",
        "emacs --batch -l x.el",
        "echo vim",
        "cat > a <<END\nvim\nEND",
        "which vim nano; man watch | head",
        "echo 'a; vim b'",
        "grep -rn watch src",
    ],
)
def test_program_that_only_names_a_terminal_program_runs(tmp_path: Path, command: str) -> None:
    async def scenario(session: Session) -> str:
        return session.tool.parse({"command": command}).command

    assert in_session(tmp_path, scenario) == command


def test_pipe_that_hid_a_failure_is_in_the_details(tmp_path: Path) -> None:
    assert details(ran(tmp_path, "sh -c 'exit 7' | cat")).pipe == "sh 7, cat 0"


@pytest.mark.parametrize(
    ("command", "exit_code", "signal"),
    [
        ("kill -SEGV $$", None, "SIGSEGV"),
        ("kill -9 $$", None, "SIGKILL"),
        ("sh -c 'kill -ABRT $$' 2>/dev/null", 134, "SIGABRT"),
    ],
)
def test_death_by_a_signal_is_an_error(
    tmp_path: Path, command: str, exit_code: int | None, signal: str
) -> None:
    output = ran(tmp_path, command)
    assert text(output).splitlines()[-1] == f"[killed by {signal}]"
    assert output.error is ErrorKind.FAILED
    assert (details(output).exit_code, details(output).signal) == (exit_code, signal)


@pytest.mark.parametrize(
    ("command", "directory"),
    [
        ("cd sub", "sub"),
        ("cd sub; exit 3", "sub"),
        ("trap 'echo bye' EXIT; cd sub; exit 3", "sub"),
        ("set -e; cd sub; false", "sub"),
        ("(cd sub); true", "."),
        ("cd sub; kill -9 $$", "."),
        ("cd 'un\nusual'; true", "un\nusual"),
    ],
)
def test_directory_carries_over(tmp_path: Path, command: str, directory: str) -> None:
    for name in ("sub", "un\nusual"):
        (tmp_path / "workspace" / name).mkdir(parents=True)
    output = ran(tmp_path, command, "true")
    assert details(output).cwd == str((tmp_path / "workspace" / directory).resolve())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("cd sub", "[now in sub/]\n"),
        ("cd sub/deep; false; exit 0", "[now in sub/deep/]\n"),
        ("cd link", "[now in sub/]\n"),
        ("cd sub; cd ..", ""),
        ("cd here", ""),
        ("(cd sub)", ""),
        ("cd fake*", "[now in fake]�[exit code 1/]\n"),
        ("cd $'\\e[2J'", "[now in �[2J/]\n"),
        ("cd $'\\xff'", "[now in �/]\n"),
    ],
)
def test_change_of_directory_is_said(tmp_path: Path, command: str, said: str) -> None:
    workspace = tmp_path / "workspace"
    for name in ("sub/deep", "fake]\n[exit code 1", "\x1b[2J", "\udcff"):
        (workspace / name).mkdir(parents=True)
    (workspace / "link").symlink_to("sub")
    (workspace / "here").symlink_to(".")
    assert text(ran(tmp_path, command)) == f"[no output]\n{said}[exit code 0]"


def test_return_to_the_workspace_root_is_said(tmp_path: Path) -> None:
    output = ran(tmp_path, "mkdir -p sub; cd sub", "cd ..")
    assert text(output) == "[no output]\n[now in the workspace root]\n[exit code 0]"


def test_nothing_else_carries_over(tmp_path: Path) -> None:
    output = ran(
        tmp_path,
        "export A=1; B=2; set -u; shopt -s extglob; f() { :; }; alias g=h; trap 'echo x' EXIT",
        "echo [$A] [$B]; declare -F f; alias; shopt extglob",
    )
    assert text(output) == "[] []\nextglob        \toff\n[exit code 1]"


def test_directory_outside_the_workspace_is_left_again(tmp_path: Path) -> None:
    root = tmp_path / "workspace"

    async def scenario(session: Session) -> None:
        assert text(await session.run("cd /; pwd")) == (
            "/\n[/ is outside the workspace; the next command starts in the workspace root, "
            f"{root}]\n[exit code 0]"
        )
        assert text(await session.run("pwd")) == f"{root}\n[exit code 0]"

    in_session(tmp_path, scenario)


def test_directory_that_is_gone_is_left_again(tmp_path: Path) -> None:
    root = tmp_path / "workspace"

    async def scenario(session: Session) -> None:
        assert text(await session.run("mkdir a; cd a; rmdir ../a")) == (
            "[no output]\n[the working directory is gone; the next command starts in the workspace "
            f"root, {root}]\n[exit code 0]"
        )
        await session.run("mkdir b; cd b")
        await asyncio.to_thread((root / "b").rmdir)
        assert text(await session.run("pwd")) == (
            f"{root}\n[{root}/b cannot be entered any more; this ran in {root}]\n[exit code 0]"
        )

    in_session(tmp_path, scenario)


@pytest.mark.parametrize("name", ["$PWD/q", "$(printf 'x%.0s' $(seq 5000))", "/proc/1/root/x", ""])
def test_made_up_directory_costs_nothing_but_itself(tmp_path: Path, name: str) -> None:
    # A shell tells its directory on this descriptor, which its command has, too.
    output = ran(tmp_path, f'echo hello; ln -sf q q; printf "{name}\\0" >&98; exit 7', "pwd")
    assert details(output).cwd == str(tmp_path / "workspace")
    assert details(output).exit_code == 0


def test_directory_that_no_command_may_enter_is_left_again(tmp_path: Path) -> None:
    root = tmp_path / "workspace"

    async def scenario(session: Session) -> None:
        ended = text(await session.run("mkdir -p p/q; cd p/q; chmod 000 .."))
        said = text(await session.run("pwd"))
        assert said.startswith(f"{root}\n")
        # Without root nobody can look inside any more, so the first command says it already.
        by_first = "the working directory is gone; the next command starts in the workspace root"
        by_second = f"[{root}/p/q cannot be entered any more; this ran in {root}]"
        is_root = os.geteuid() == 0
        assert (by_first in ended, by_second in said) == (not is_root, is_root)
        await session.run("chmod 755 p")

    in_session(tmp_path, scenario)


def test_link_out_of_the_workspace_does_not_lead_there(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace/link").symlink_to("/usr")
    output = ran(tmp_path, "cd link", "true")
    assert details(output).cwd == str(tmp_path / "workspace")


def test_megabytes_are_shown_by_their_ends(tmp_path: Path) -> None:
    output = ran(
        tmp_path, "seq 1000000 1199999; head -c 3600000 /dev/zero | tr '\\0' x; echo; echo end"
    )
    log = tmp_path / "out/1.log"
    shown = text(output)
    assert len(shown.encode()) < 30_300
    assert shown.startswith("1000000\n1000001\n")
    assert shown.endswith("x\nend\n[exit code 0]")
    assert f"left out; all of it: {log}, read it with read_file or grep ...]" in shown
    assert re.search(r"^\[\.\.\. 5 1\d\d \d{3} bytes, 198 750 lines left out", shown, re.M)
    assert (details(output).output_bytes, details(output).output_lines) == (5_200_005, 200_002)
    assert details(output).shown_lines == 1_252
    assert (output.truncated, log.stat().st_size) == (True, 5_200_005)
    assert details(output).head == "1000000\n1000001"
    assert details(output).tail.endswith("\nend")


def test_one_endless_line_is_no_failure(tmp_path: Path) -> None:
    output = ran(tmp_path, "head -c 10000000 /dev/zero | tr '\\0' x")
    assert "\n[... 9 998 000 bytes left out; all of it: " in text(output)
    assert details(output).output_bytes == 10_000_000


def test_command_of_two_hundred_kilobytes_runs(tmp_path: Path) -> None:
    command = "cat <<'EOF' | wc -c\n" + "x'\"$`\\\n" * 30_000 + "EOF"
    assert text(ran(tmp_path, command)) == "210000\n[exit code 0]"


def test_progress_is_told_at_most_ten_times_a_second(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        began = time.monotonic()
        await session.run(
            "for i in $(seq 60); do printf '\\033[1m%d\\033[0m\\n' $i; sleep 0.01; done"
        )
        took_s = time.monotonic() - began
        assert 1 < len(session.told) <= took_s * 10 + 2
        assert re.fullmatch(r"(\d+\n){0,9}\d+", session.told[-1])

    in_session(tmp_path, scenario)


def test_logs_are_private_and_numbered_on(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/1.log").write_text("from an earlier run")
    output = ran(tmp_path, "echo a", "echo b")
    assert details(output).log_path == str(tmp_path / "out/3.log")
    assert names(tmp_path / "out") == ["1.log", "2.log", "3.log"]
    assert stat.S_IMODE((tmp_path / "out/3.log").stat().st_mode) == 0o600


def test_environment_holds_no_secret_and_nothing_interactive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "profile"))
    (tmp_path / "profile").write_text("echo from the profile")
    output = ran(tmp_path, "echo $SOME_API_KEY $TERM $PAGER $GIT_EDITOR $CI")
    assert text(output) == "dumb cat true 1\n[exit code 0]"


def test_command_that_cannot_start_is_an_error_that_says_why(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await asyncio.to_thread(shutil.rmtree, session.workspace)
        with pytest.raises(ToolError) as refused:
            await session.run("true")
        assert str(refused.value) == (
            f"The command was not run: No such file or directory ({session.workspace})."
        )
        with pytest.raises(ToolError):
            await session.run("true", background=True)
        assert not session.out_dir.exists()

    in_session(tmp_path, scenario)


def test_preview_is_the_command_and_where_it_would_run(tmp_path: Path) -> None:
    async def scenario(session: Session) -> None:
        await session.run("mkdir sub; cd sub")
        context = ToolContext(call_id="c", workspace=session.workspace, progress=lambda _: None)
        assert await session.tool.preview(BashArgs(command="rm x"), context) == Command(
            command="rm x", cwd=str(session.workspace / "sub")
        )

    in_session(tmp_path, scenario)


def test_effect_is_read_only_where_that_is_proven(tmp_path: Path) -> None:
    ledger = ProcessTable()

    def tool(*proven: str) -> Bash:
        return Bash(
            workspace=tmp_path,
            shells=shells_in(tmp_path, ledger),
            processes=ledger,
            proves_read=lambda command: command in proven,
        )

    assert tool().effect(BashArgs(command="ls")) is Effect.EXECUTE
    assert tool("ls").effect(BashArgs(command="ls")) is Effect.READ
    assert tool("ls").effect(BashArgs(command="rm")) is Effect.EXECUTE
    assert tool("ls").effect(BashArgs(command="ls", background=True)) is Effect.EXECUTE


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "Invalid input: command is missing (e.g. pytest -q)."),
        (
            {"command": "ls", "timeout": 120_000},
            "Invalid input: timeout must be less than or equal to 600, not 120000 (Seconds, "
            "e.g. 300; default 120).",
        ),
        (
            {"command": "ls", "timeout": 0},
            "Invalid input: timeout must be greater than or equal to 1, not 0 (Seconds, e.g. 300; "
            "default 120).",
        ),
    ],
)
def test_bad_arguments_are_explained(
    tmp_path: Path, raw: dict[str, str | int], message: str
) -> None:
    ledger = ProcessTable()
    tool = Bash(
        workspace=tmp_path,
        shells=shells_in(tmp_path, ledger),
        processes=ledger,
    )
    with pytest.raises(ToolError) as refused:
        tool.parse(dict(raw))
    assert str(refused.value) == message
    assert tool.parse({"cmd": "ls", "run_in_background": True}) == BashArgs(
        command="ls", background=True
    )


def test_timeout_of_a_command_that_follows_a_file_says_so(tmp_path: Path) -> None:
    shown = text(ran(tmp_path, "tail -n 3 -f /dev/null", timeout=1))
    assert shown.endswith(
        "[timed out after 1 s, killed; it follows the output for ever: leave -f out, or use "
        "background=true]"
    )
