"""The report of a command: the text for the model, and the details for the user.

`bash`, `write_stdin` and `run_program` share it, with its limits.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from agentcli.system.lazy import compile_later
from agentcli.system.output import BoundedOutput, OutputExcerpt, group_digits
from agentcli.system.process import ProcessEnd, format_ending, name_death_signal
from agentcli.system.shell import split_commands
from agentcli.types.tools import Command, ErrorKind, Output

SHOWN_BYTES = 30_000
SHOWN_HEAD_BYTES = 10_000
"""Both are what the model sees of an output, and of its beginning."""
CARD_HEAD_LINES = 2
CARD_TAIL_LINES = 10
"""Both are what the user sees of it."""
NAMED_PIDS = 10
TIMEOUT_ADVICE = "raise timeout or use background=true"
_SIGPIPE_CODE = 141


def report_command(
    command: str,
    ended: ProcessEnd,
    *,
    output: BoundedOutput,
    cwd: Path,
    timeout_s: float,
    notes: tuple[str, ...],
    remedy: str = "",
    pipe: str = "",
) -> Output:
    """Report a finished command; the last line always says how it ended.

    `notes` are lines before that one. `remedy` is what the model can do about a timeout, if that
    does not depend on the command. `pipe` has the exit codes of a pipe that hid a failure."""
    shown, seen = _build_excerpt(command, output, cwd)
    details = replace(
        seen,
        exit_code=ended.returncode if ended.returncode >= 0 else None,
        signal=name_death_signal(ended.returncode),
        timed_out=ended.timed_out,
        duration_s=ended.duration_s,
        left_running=ended.left_running,
        pipe=pipe,
    )
    status = _describe_status(ended, timeout_s, remedy or _advise_on_timeout(command))
    lines = (
        shown.text.removesuffix("\n") or "[no output]",
        *_describe_background(ended.left_running),
        *_describe_log_fault(output),
        *notes,
        f"[{status}; in the pipe: {pipe}]" if pipe else f"[{status}]",
    )
    return Output.of(
        "\n".join(lines), details=details, error=_classify_error(ended), truncated=shown.is_cut
    )


def report_interrupted(command: str, *, output: BoundedOutput, cwd: Path, ran_s: float) -> Output:
    """Report the output of a command until it was interrupted."""
    shown, seen = _build_excerpt(command, output, cwd)
    until = (
        f"{group_digits(output.size_bytes)} bytes" if output.log_fault else f"{shown.lines} lines"
    )
    lines = (
        shown.text.removesuffix("\n") or "[no output]",
        *_describe_log_fault(output),
        f"[interrupted after {ran_s:.1f} s, {until} until then]",
    )
    return Output.of(
        "\n".join(lines),
        details=replace(seen, duration_s=ran_s),
        error=ErrorKind.CANCELLED,
        truncated=shown.is_cut,
    )


def report_backgrounded(
    command: str, *, output: BoundedOutput, cwd: Path, ran_s: float, pid: int
) -> Output:
    """Report the output until the user moved the command to the background.

    The command continues there."""
    shown, seen = _build_excerpt(command, output, cwd)
    lines = (
        shown.text.removesuffix("\n") or "[no output yet]",
        *_describe_log_fault(output),
        f"[the user moved it to the background after {ran_s:.1f} s; it continues there: "
        f"pid {pid}, all output in {output.log_path}]",
        f"[read_file shows that log, kill {pid} stops it; you are told when it ends]",
    )
    return Output.of(
        "\n".join(lines),
        details=replace(seen, duration_s=ran_s, background_pid=pid, was_moved=True),
        truncated=shown.is_cut,
    )


def report_terminal(
    command: str,
    *,
    number: int,
    output: BoundedOutput,
    cwd: Path,
    pid: int | None,
    returncode: int | None,
    ran_s: float,
    notes: tuple[str, ...],
) -> Output:
    """Report what a command on a terminal printed since the last report.

    `pid` is None if it has ended, with `returncode`."""
    shown, seen = _build_excerpt(command, output, cwd)
    code = returncode or 0
    details = replace(
        seen,
        exit_code=code if pid is None and code >= 0 else None,
        signal=name_death_signal(code) if pid is None else None,
        duration_s=ran_s,
        background_pid=pid,
        terminal=number,
        output_sha256="",  # the log is that of all its calls
    )
    status = f"terminal {number} is open, pid {pid}: write_stdin sends input, kill {pid} ends it"
    if pid is None:
        status = f"terminal {number} has ended: {format_ending(code)}"
    lines = (
        shown.text.removesuffix("\n") or "[no output]",
        *_describe_log_fault(output),
        *notes,
        f"[{status}]",
    )
    return Output.of("\n".join(lines), details=details, truncated=shown.is_cut)


def describe_pipe(names: Sequence[str], codes: Sequence[int], *, returncode: int) -> str:
    """Return the exit codes in a pipe if its last part hid that another one failed.

    A part that died because its reader had enough has not failed."""
    hid = returncode == 0 and any(code not in (0, _SIGPIPE_CODE) for code in codes)
    if not hid or len(names) != len(codes):
        return ""
    return ", ".join(f"{name} {code}" for name, code in zip(names, codes, strict=True))


def _build_excerpt(command: str, output: BoundedOutput, cwd: Path) -> tuple[OutputExcerpt, Command]:
    """Return the output as the model reads it, and as the user sees it."""
    settled = output.finish()
    shown = settled.build_excerpt(limit_bytes=SHOWN_BYTES, head_bytes=SHOWN_HEAD_BYTES)
    head, tail = settled.build_card(first=CARD_HEAD_LINES, last=CARD_TAIL_LINES)
    return shown, Command(
        command=command,
        cwd=str(cwd),
        output_bytes=output.size_bytes,
        output_lines=shown.lines,
        shown_lines=shown.shown_lines,
        head=head,
        tail=tail,
        log_path=str(output.log_path),
        stored_bytes=output.logged_bytes if output.log_fault else None,
        output_sha256=output.sha256,
    )


def _describe_status(ended: ProcessEnd, timeout_s: float, remedy: str) -> str:
    if ended.timed_out:
        return f"timed out after {timeout_s:g} s, killed; {remedy}"
    return format_ending(ended.returncode)


def _classify_error(ended: ProcessEnd) -> ErrorKind | None:
    if ended.timed_out:
        return ErrorKind.TIMEOUT
    return ErrorKind.FAILED if name_death_signal(ended.returncode) else None


def _describe_background(pids: tuple[int, ...]) -> tuple[str, ...]:
    named = ", ".join(map(str, pids[:NAMED_PIDS]))
    match len(pids):
        case 0:
            return ()
        case 1:
            return (f"[background: pid {named} still running]",)
        case count:
            more = f" and {count - NAMED_PIDS} more" if count > NAMED_PIDS else ""
            return (f"[background: pids {named}{more} still running]",)


def _describe_log_fault(output: BoundedOutput) -> tuple[str, ...]:
    return (f"[the log is not whole: {output.log_fault}]",) if output.log_fault else ()


# Commands that would only wait, or that no shell understands


_FOLLOWS = compile_later(r"\b(?:tail|journalctl|logs)\b[^|;&\n]*\s(?:-\w*[fF]\b|--follow)")
_FOLLOW_ADVICE = "it follows the output for ever: leave -f out, or use background=true"
_EDITORS = {"vi", "vim", "nvim", "view", "vimdiff", "nano", "pico", "micro", "emacs", "joe"}
_WITHOUT_TERMINAL = compile_later(
    r"\s(?:-e|-E|-s|-c|-h|\+|--?batch|--script|--headless|--version|--help)"
)
_SCREENS = {
    "watch": "run its command once, or some times: for i in 1 2 3; do ...; sleep 2; done",
    "htop": "use ps aux or top -b -n 1",
    "btop": "use ps aux or top -b -n 1",
}


_NOT_EXECUTABLE = compile_later(r"(\S*/\S+): Permission denied")
_NO_INTERPRETER = compile_later(r"cannot execute: required file not found|bad interpreter")
_SETS_UP = frozenset({"export", "alias", "source", ".", "unset", "set", "shopt", "declare"})


def explain_not_started(exit_code: int, text: str) -> tuple[str, ...]:
    """Return why a program was not started, as far as its exit code and output tell."""
    if exit_code == 126 and (found := _NOT_EXECUTABLE.search(text)):
        return (f"[{found[1]} is not executable: run it with its interpreter, or chmod +x it]",)
    if exit_code in (126, 127) and _NO_INTERPRETER.search(text):
        why = "the program that its first line (#!) names is not there, or the line ends with CRLF"
        return (f"[{why}: head -1 FILE | od -c tells]",)
    return ()


def explain_no_effect(command: str) -> tuple[str, ...]:
    """Return a note if the command only sets up what does not outlast its shell."""
    programs = {simple.split(maxsplit=1)[0] for simple in split_commands(command)}
    if not programs or not programs <= _SETS_UP:
        return ()
    return ("[this lasts for one command: put it before the next one, with &&]",)


def _advise_on_timeout(command: str) -> str:
    """Return what the model can do if the command ran too long."""
    return _FOLLOW_ADVICE if _FOLLOWS.search(command) else TIMEOUT_ADVICE


def _explain_need_for_terminal(command: str) -> str:
    """Return why a simple command would only wait, and what to do instead; empty if it would not.

    Other programs that need a terminal say so themselves, and end."""
    program = PurePath(command.split(maxsplit=1)[0]).name
    if program in _EDITORS and not _WITHOUT_TERMINAL.search(command):
        return f"{program} needs a terminal, and there is none. Use edit_file, write_file or sed."
    if program in _SCREENS and not _WITHOUT_TERMINAL.search(command):
        return f"{program} needs a terminal, and there is none: {_SCREENS[program]}."
    return ""


def find_fault(command: str, *, on_terminal: bool) -> str:
    """Return why a command should not run as it is written, and what to do; empty if it should."""
    text = command.strip()
    if text.startswith("```"):
        return "the command is in a Markdown fence. Send the lines between ``` alone."
    if text.startswith("$ "):
        return 'the command begins with the prompt "$ ". Send what follows it alone.'
    simple = () if on_terminal else split_commands(command)
    return next(filter(None, map(_explain_need_for_terminal, simple)), "")
