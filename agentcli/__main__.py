"""The entry point of `agentcli` and `python -m agentcli`, and the last resort for errors."""

import gc
import os
import sys
from io import TextIOWrapper

from agentcli import __version__

_WITH_RESULT = (["run"], ["review"])
"""Commands that write a result even if a signal ends them at once."""
_PAGES = ("--version", "--help", "-h")


def main() -> None:
    if sys.platform == "win32":
        sys.exit(_refuse_platform())
    if sys.argv[-1] not in _PAGES:
        from agentcli.system.startup import prepare_start

        prepare_start(holds_signals=sys.argv[1:2] in _WITH_RESULT)
    if not _fill_standard_descriptors():
        sys.exit(_refuse_closed_output())
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without our typography is no bug
    code = _run(sys.argv[1:])
    gc.freeze()  # otherwise everything is searched for garbage once more at the end
    sys.exit(code)


def _refuse_platform() -> int:
    sys.stderr.write("error: agentcli does not run on Windows itself\n  fix: wsl --install\n")
    return 3


def _fill_standard_descriptors() -> bool:
    """Open the null device for every standard stream that is closed. Return whether stdout is open.

    Otherwise the first file we open would get its descriptor.
    """
    is_open = sys.stdout is not None
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")
    return is_open


def _refuse_closed_output() -> int:
    """Refuse before anything is done or paid for: its result would be lost."""
    sys.stderr.write("error: stdout is closed\n  fix: agentcli COMMAND > /dev/null\n")
    return 3


def _run(arguments: list[str]) -> int:
    try:
        page = _find_page(arguments)
        if page is None:
            from agentcli.cli.line import run_line

            code = run_line(arguments)
        else:
            code = 0
            sys.stdout.write(page)
        sys.stdout.flush()
    except KeyboardInterrupt:  # before any handler was installed
        return 128 + 2
    except BrokenPipeError:
        _give_up_output()  # the reader has closed its end
        return 128 + 13
    except Exception as bug:  # noqa: BLE001 - the last resort: two lines and a report
        if isinstance(bug, OSError):
            _give_up_output()
        return _report(bug, is_debugging="--debug" in arguments)
    return code


def _report(bug: Exception, *, is_debugging: bool) -> int:
    try:
        from agentcli.ui.crash import report_crash

        return report_crash(bug, is_debugging=is_debugging)
    except (MemoryError, ImportError, OSError):
        os.write(2, b"error: not enough memory\n  fix: raise ulimit -v, then run it again\n")
        return 3


def _find_page(arguments: list[str]) -> str | None:
    """Return what is printed without running anything: the version or a page of help."""
    if arguments == ["--version"]:
        return f"agentcli {__version__}\n"
    if not arguments or arguments[-1] not in ("--help", "-h"):
        return None
    from agentcli.cli.help_pages import read_help_page

    return read_help_page(arguments[:-1])


def _give_up_output() -> None:
    """Send stdout to the null device, because nothing more can be flushed, not even at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
