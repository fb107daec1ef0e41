"""The report of a command: the text for the model, and the details for the user.

`bash`, `write_stdin` and `run_program` share it, with its limits.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentcli.system.lazy import compile_later
from agentcli.system.output import BoundedOutput, OutputExcerpt, group_digits
from agentcli.system.process import ProcessEnd, describe_end
from agentcli.types.tools import Command, ErrorKind, Output

SHOWN_BYTES = 30_000
SHOWN_HEAD_BYTES = 10_000
"""Both are what the model sees of an output, and of its beginning."""
CARD_HEAD_LINES = 2
CARD_TAIL_LINES = 10
"""Both are what the user sees of it."""
NAMED_PIDS = 10
_SIGPIPE_CODE = 141
TIMEOUT_ADVICE = "raise timeout or use background=true"


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
    shown, seen = _build_excerpt(command, output, cwd=cwd)
    death, status = describe_end(ended.returncode)
    details = replace(
        seen,
        exit_code=ended.returncode if ended.returncode >= 0 else None,
        signal=death,
        timed_out=ended.timed_out,
        duration_s=ended.duration_s,
        left_running=ended.left_running,
        pipe=pipe,
    )
    error = ErrorKind.FAILED if death else None
    if ended.timed_out:
        advice = remedy or _advise_on_timeout(command)
        status, error = f"timed out after {timeout_s:g} s, killed; {advice}", ErrorKind.TIMEOUT
    lines = (
        shown.text.removesuffix("\n") or "[no output]",
        *_describe_background(ended.left_running),
        *_describe_log_fault(output),
        *notes,
        f"[{status}; in the pipe: {pipe}]" if pipe else f"[{status}]",
    )
    return Output.of("\n".join(lines), details=details, error=error, truncated=shown.is_cut)


def report_interrupted(command: str, *, output: BoundedOutput, cwd: Path, ran_s: float) -> Output:
    """Report the output of a command until it was interrupted."""
    shown, seen = _build_excerpt(command, output, cwd=cwd)
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
    shown, seen = _build_excerpt(command, output, cwd=cwd)
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
    shown, seen = _build_excerpt(command, output, cwd=cwd)
    code = returncode or 0
    death, how = describe_end(code)
    details = replace(
        seen,
        exit_code=code if pid is None and code >= 0 else None,
        signal=death if pid is None else None,
        duration_s=ran_s,
        background_pid=pid,
        terminal=number,
        output_sha256="",  # the log is that of all its calls
    )
    status = f"terminal {number} is open, pid {pid}: write_stdin sends input, kill {pid} ends it"
    if pid is None:
        status = f"terminal {number} has ended: {how}"
    lines = (
        shown.text.removesuffix("\n") or "[no output]",
        *_describe_log_fault(output),
        *notes,
        f"[{status}]",
    )
    return Output.of("\n".join(lines), details=details, truncated=shown.is_cut)


def _build_excerpt(
    command: str, output: BoundedOutput, *, cwd: Path
) -> tuple[OutputExcerpt, Command]:
    """Return the output as the model reads it, and as the user sees it."""
    summary = output.summarize(
        limit_bytes=SHOWN_BYTES,
        head_bytes=SHOWN_HEAD_BYTES,
        first=CARD_HEAD_LINES,
        last=CARD_TAIL_LINES,
    )
    shown = summary.excerpt
    return shown, Command(
        command=command,
        cwd=str(cwd),
        output_bytes=output.size_bytes,
        output_lines=shown.lines,
        shown_lines=shown.shown_lines,
        head=summary.head,
        tail=summary.tail,
        log_path=str(output.log_path),
        stored_bytes=output.logged_bytes if output.log_fault else None,
        output_sha256=summary.sha256,
    )


def describe_pipe(names: Sequence[str], codes: Sequence[int]) -> str:
    """Return the exit codes in a pipe that ended with 0 and hid that a part of it failed.

    A part that died because its reader had enough has not failed."""
    if len(names) != len(codes) or all(code in (0, _SIGPIPE_CODE) for code in codes):
        return ""
    return ", ".join(f"{name} {code}" for name, code in zip(names, codes, strict=True))


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


# Commands that did not start, or ran too long


_FOLLOWS = compile_later(r"\b(?:tail|journalctl|logs)\b[^|;&\n]*\s(?:-\w*[fF]\b|--follow)")
_FOLLOW_ADVICE = "it follows the output for ever: leave -f out, or use background=true"
_NOT_EXECUTABLE = compile_later(r"(\S*/\S+): Permission denied")
_NO_INTERPRETER = compile_later(r"cannot execute: required file not found|bad interpreter")


def explain_not_started(exit_code: int, text: str) -> tuple[str, ...]:
    """Return why a program was not started, as far as its exit code and output tell."""
    if exit_code == 126 and (found := _NOT_EXECUTABLE.search(text)):
        return (f"[{found[1]} is not executable: run it with its interpreter, or chmod +x it]",)
    if exit_code in (126, 127) and _NO_INTERPRETER.search(text):
        why = "the program that its first line (#!) names is not there, or the line ends with CRLF"
        return (f"[{why}: head -1 FILE | od -c tells]",)
    return ()


def _advise_on_timeout(command: str) -> str:
    """Return what the model can do if the command ran too long."""
    return _FOLLOW_ADVICE if _FOLLOWS.search(command) else TIMEOUT_ADVICE
