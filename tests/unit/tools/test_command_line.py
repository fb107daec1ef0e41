import os
import signal
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentcli.tools.command_line import (
    ShellHandle,
    ShellNote,
    build_shell_argv,
    read_command,
)
from agentcli.types.errors import ToolError
from agentcli.types.tools import ErrorKind


@dataclass(frozen=True, slots=True)
class Ran:
    returncode: int
    stdout: bytes
    note: ShellNote | None

    @property
    def directory(self) -> str | None:
        return self.note.directory if self.note else None


@dataclass(frozen=True)
class PreparedShell:
    handle: ShellHandle
    argv: tuple[str, ...]
    command: bytes


def prepared(tmp_path: Path, command: str, *, notes_directory: bool = True) -> PreparedShell:
    directory = tmp_path / "call with 'quotes'"
    directory.mkdir()
    handle = ShellHandle(directory / "mark.1.sh")
    return PreparedShell(
        handle=handle,
        argv=build_shell_argv(handle.command_file, notes_directory=notes_directory),
        command=read_command(command, is_awaited=notes_directory).script,
    )


def run(shell: PreparedShell, cwd: Path, **more: str) -> Ran:
    with subprocess.Popen(
        shell.argv,
        cwd=cwd,
        env={**os.environ, **more},
        stdin=shell.handle.shell_end.fileno(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as child:
        shell.handle.shell_end.close()
        shell.handle.run_command(shell.command)
        output, _ = child.communicate()
    return Ran(child.returncode, output, shell.handle.close())


@pytest.mark.parametrize(
    ("command", "status", "output"),
    [
        ("echo hi", 0, "hi\n"),
        ("echo $0 $# $1", 0, "bash 0\n"),
        ("\n\nnosuch", 127, "bash: line 3: nosuch: command not found\n"),
        ("cat <<EOF\n$((1 + 1)) 'x' \"y\"\nEOF", 0, "2 'x' \"y\"\n"),
        ("cat <<'EOF'\n$x `y`\nEOF\n", 0, "$x `y`\n"),
        ("echo a\\", 0, "a\\\n"),
        ("exit 7", 7, ""),
        ("(exit 7)", 7, ""),
        ("false; exit", 1, ""),
        ("trap 'echo bye' EXIT; exit 3", 3, "bye\n"),
        ("trap 'echo bye' EXIT; (exit 3)", 3, "bye\n"),
        ("trap 'echo bye; exit' EXIT; (exit 3)", 3, "bye\n"),
        ("trap 'echo bye; exit 4' EXIT; exit 3", 4, "bye\n"),
        ("trap 'exit 5' TERM; kill $$; sleep 1", 5, ""),
        ("set -e; false; echo not reached", 1, ""),
        ("set -eu; false || exit 6", 6, ""),
        ("set -u; (exit 4)", 4, ""),
        ("set -x; echo a", 0, "++ echo a\na\n"),
        ("set -x; exit 4", 4, "++ exit 4\n"),
        ("set -v; echo a", 0, "a\n"),
        ("trap 'echo \"$BASH_COMMAND\"' DEBUG; echo a", 0, "echo a\na\n"),
        ("set -o noclobber; (exit 4)", 4, ""),
        ("exit() { echo mine; }; exit 3; sh -c 'exit 4'", 4, "mine\n"),
        ("builtin() { echo b; }; pwd() { echo p; }; set() { echo s; }; (exit 4)", 4, ""),
        ("trap() { echo t; }; eval() { echo e; }; (exit 4)", 4, ""),
        ("exec echo replaced", 0, "replaced\n"),
        ("exec >/dev/null 2>&1; echo lost; (exit 4)", 4, ""),
        ("kill -9 $$", -9, ""),
        ("kill -SEGV $$", -11, ""),
        ("echo " + "x" * 200_000 + " | wc -c", 0, "200001\n"),
        ("shopt -s extglob\necho +(a|b)", 0, "+(a|b)\n"),
        ("false | true", 0, ""),
        ("true | (exit 3)", 3, ""),
        ("set -o pipefail; (exit 3) | cat", 3, ""),
        ("set -e; echo a | cat | (exit 3)", 3, ""),
        ("set -eu; false | cat # a comment", 0, ""),
        ("set -v\necho a | cat", 0, "echo a | cat\na\n"),
        ("trap 'echo D' DEBUG; echo a | cat", 0, "D\nD\na\n"),
        ("trap 'echo $?' ERR; false | sh -c 'exit 3'", 3, "3\n"),
        ("trap 'echo $?' EXIT; false | (exit 3)", 3, "3\n"),
        ("IFS=0; false | true", 0, ""),
    ],
)
def test_command_ends_as_it_would_by_itself(
    tmp_path: Path, command: str, status: int, output: str
) -> None:
    ended = run(prepared(tmp_path, command), tmp_path)
    assert (ended.returncode, ended.stdout.decode()) == (status, output)


def test_keeping_the_codes_of_a_pipeline_does_not_show(tmp_path: Path) -> None:
    ended = run(prepared(tmp_path, "set -x; false | cat"), tmp_path)
    assert ended.note is not None
    assert ended.note.pipe == (1, 0)
    assert sorted(ended.stdout.splitlines()) == [b"++ cat", b"++ false"]


@pytest.mark.parametrize(
    "command", ['echo "a', "echo 'a", "if true", "echo $(", "for x in; do", ")"]
)
@pytest.mark.parametrize("notes_directory", [True, False])
def test_syntax_error_stays_in_the_command(
    tmp_path: Path, command: str, notes_directory: bool
) -> None:
    script = prepared(tmp_path, command, notes_directory=notes_directory)
    ended = run(script, tmp_path)
    assert ended.returncode == 2
    assert b"eval: line" in ended.stdout
    assert ended.directory == (str(tmp_path) if notes_directory else None)


@pytest.mark.parametrize(
    "command",
    [
        "cd sub",
        "cd sub; exit 3",
        "cd sub; false",
        "trap 'true' EXIT; cd sub",
        "trap 'true' EXIT; cd sub; exit 3",
        "trap - EXIT; cd sub; exit 3",
        "set -e; cd sub; false",
        "set -eu -o noclobber; cd sub; exit",
        "cd sub; set -u; echo $unset",
        "cd sub; nosuch",
        "cd sub; (cd /; exit 3)",
        "cd sub; pwd() { echo no; }; cd() { echo no; }",
        "cd sub; exit() { builtin exit 1; }; exit",
        "cd sub; set -o posix; exit 3",
        "pushd sub",
        "cd sub; IFS=/",
    ],
)
def test_last_directory_is_noted_however_the_shell_ends(tmp_path: Path, command: str) -> None:
    (tmp_path / "sub").mkdir()
    assert run(prepared(tmp_path, command), tmp_path).directory == str(tmp_path / "sub")


@pytest.mark.parametrize("command", ["cd sub; kill -9 $$", "cd sub; exec true"])
def test_directory_is_not_told_by_a_shell_that_could_not(tmp_path: Path, command: str) -> None:
    (tmp_path / "sub").mkdir()
    assert run(prepared(tmp_path, command), tmp_path).note is None


def test_directory_that_is_gone_is_told_as_empty(tmp_path: Path) -> None:
    script = prepared(tmp_path, "mkdir sub; cd sub; rmdir ../sub; set -e")
    ended = run(script, tmp_path)
    assert (ended.returncode, ended.directory) == (0, "")


@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("sleep 600 >/dev/null 2>&1 & echo $!; cd sub", True),
        ("sleep 600 >/dev/null 2>&1 & echo $!; cd sub; exit 3", True),
        ("true & echo $!; wait; cd sub", False),
        ("(sleep 0; true); cd sub", False),
    ],
)
def test_jobs_left_in_the_background_are_noted(tmp_path: Path, command: str, left: bool) -> None:
    (tmp_path / "sub").mkdir()
    ended = run(prepared(tmp_path, command), tmp_path)
    assert ended.note == ShellNote(directory=str(tmp_path / "sub"), has_jobs=left)
    if left:
        os.kill(int(ended.stdout), signal.SIGKILL)


@pytest.mark.parametrize(
    ("command", "names", "codes"),
    [
        ("false | tail -5", ("false", "tail"), (1, 0)),
        ("cd . && A=1 B='x y' false 2>&1 | cat|tail -5\n", ("false", "cat", "tail"), (1, 0, 0)),
        ("echo a; /bin/false x |& tail # the end | of it", ("false", "tail"), (1, 0)),
        ("true || false; time false | cat;", ("false", "cat"), (1, 0)),
        ("(exit 3) | \\\n  cat", ("(...)", "cat"), (3, 0)),
        ("for i in 1 2; do (exit $i); done | cat", ("(...)", "cat"), (2, 0)),
        ('F=false; $F "a | $F b" | grep -c "x" | cat', ("(...)", "grep", "cat"), (1, 1, 0)),
        ("false |\n\n cat", ("false", "cat"), (1, 0)),
        ("true & wait; (exit 4) | cat >&2", ("(...)", "cat"), (4, 0)),
        ("false $(true | true) | cat", ("false", "cat"), (1, 0)),
        ("set -euo posix; IFS=0; nosuch 2>&- | cat", ("nosuch", "cat"), (127, 0)),
    ],
)
def test_codes_of_the_pipeline_at_the_end_are_noted(
    tmp_path: Path, command: str, names: tuple[str, ...], codes: tuple[int, ...]
) -> None:
    assert read_command(command, is_awaited=True).pipe == names
    ended = run(prepared(tmp_path, command), tmp_path)
    assert ended.note == ShellNote(directory=str(tmp_path), has_jobs=False, pipe=codes)


@pytest.mark.parametrize(
    "command",
    [
        *("true", "", "| |", "a |", "a | ", "a | b &", "a | b || c", "a || b | c", "a | b; c"),
        *("! a | b", "if a | b; then c; fi", "for i in 1; do a | b; done", "f() { a | b; }"),
        *(
            "echo 'a | b'",
            'echo "a | b',
            "echo a \\| b",
            "echo `a | b`",
            "echo $(a | b)",
            "(a | b)",
        ),
        *(
            "case a in b) c | d;; esac",
            "cat <<E | b\nx\nE",
            "[[ a || b ]]",
            "a | b)",
            "((a | b)",
            "# |",
        ),
        *(
            "set -v; a | b",
            "set -o verbose; a | b",
            "trap x DEBUG; a | b",
            "a | b\\",
            'a "$(b)" | c',
        ),
        *("a |b && ", "coproc a | b", "a | { b; c; }", "a | while read x; do y; done"),
    ],
)
def test_nothing_is_said_of_a_pipeline_that_is_not_plain(command: str) -> None:
    assert read_command(command, is_awaited=True).pipe == ()


def test_directory_may_have_any_name(tmp_path: Path) -> None:
    name = "a 'b' \"c\" $d\n\udcff"
    (tmp_path / name).mkdir()
    assert run(prepared(tmp_path, "cd a*"), tmp_path).directory == str(tmp_path / name)


@pytest.mark.parametrize(
    "command", ["cd sub; exec 98>&-", "exec 98>&-; cd sub; exit 3", "cd sub; exec 98</dev/null"]
)
def test_directory_is_not_told_where_the_command_took_the_way_for_it(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "sub").mkdir()
    ended = run(prepared(tmp_path, command), tmp_path)
    assert (ended.stdout, ended.note) == (b"", None)


def test_what_is_told_without_an_end_is_no_note(tmp_path: Path) -> None:
    assert run(prepared(tmp_path, "printf /etc >&98; kill -9 $$"), tmp_path).note is None


def test_shell_reads_no_files_of_the_person_first(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("echo read\n")
    ended = run(prepared(tmp_path, "echo ran"), tmp_path, HOME=str(tmp_path), SHLVL="0")
    assert ended.stdout == b"ran\n"


def test_shell_that_is_not_let_go_ends(tmp_path: Path) -> None:
    shell = prepared(tmp_path, "echo ran")
    with subprocess.Popen(
        shell.argv, stdin=shell.handle.shell_end.fileno(), stdout=subprocess.PIPE
    ) as child:
        shell.handle.close()
        assert child.communicate()[0] == b""
    assert child.returncode == 126


def test_file_of_a_command_is_private_and_removed(tmp_path: Path) -> None:
    handle = prepared(tmp_path, "true").handle
    handle.run_command(b"true")
    assert stat.S_IMODE(handle.command_file.stat().st_mode) == 0o600
    handle.close()
    handle.close()
    assert not handle.command_file.exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "echo a\0b",
            "Invalid input: command has a NUL character at position 6, which no shell can read. "
            "Write it as an escape, for example printf '\\0'.",
        ),
        (
            "echo \ud800",
            "Invalid input: command has half a surrogate pair at position 5. "
            "Send whole characters.",
        ),
    ],
)
def test_command_that_no_file_can_hold_is_refused(
    tmp_path: Path, command: str, message: str
) -> None:
    with pytest.raises(ToolError) as refused:
        prepared(tmp_path, command)
    assert (str(refused.value), refused.value.kind) == (message, ErrorKind.INVALID_INPUT)
