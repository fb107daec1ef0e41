"""`agentcli` and `python -m agentcli`: the way in, and the last resort for errors."""

import os
import sys

from agentcli import __version__


def main() -> None:
    _fill_standard_descriptors()
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"agentcli {__version__}\n")
    else:
        sys.exit(_run(sys.argv[1:]))


def _fill_standard_descriptors() -> None:
    """Started with one of them closed, the first file we open would take its place."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _run(arguments: list[str]) -> int:
    from agentcli.cli.program import run_command

    try:
        return run_command(arguments)
    except BrokenPipeError:
        # Whoever read our output has left. Nothing more can be flushed there, not at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + 13
    except Exception as bug:  # noqa: BLE001 - the last resort: one line and a report, no traceback
        from agentcli.ui.crash import report

        return report(bug)


if __name__ == "__main__":
    main()
