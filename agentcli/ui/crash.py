"""Reports of a bug: two lines for the user, and a file with the traceback that they can send."""

import os
import platform
import sys
import tempfile
import traceback

from agentcli import __version__
from agentcli.permissions.secrets import Redactor
from agentcli.types.errors import Exit, explain_obstacle
from agentcli.ui.oneshot.plain import print_error


def report_crash(bug: Exception, *, is_debugging: bool = False) -> int:
    obstacle = explain_obstacle(bug)
    if is_debugging and obstacle is None:
        sys.stderr.write(_format_traceback(bug))
    print_error(*describe_crash(bug))
    return obstacle.exit_code if obstacle else Exit.INTERNAL


def describe_crash(bug: Exception) -> tuple[str, str]:
    """Return what happened and what to do about it. The traceback of a bug goes to a file."""
    if obstacle := explain_obstacle(bug):
        return str(obstacle), obstacle.hint
    what = f"internal error: {type(bug).__name__}: {_mask_secrets(str(bug))}"
    try:
        return what, f"report it and attach {_write_report(bug)}"
    except OSError:
        return what, "agentcli --debug COMMAND shows where; no report could be written"


def describe_machine() -> str:
    """Return the versions of Python and of the system. `platform.platform` would start `uname`."""
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"Python {platform.python_version()}, {system}"


def _write_report(bug: Exception) -> str:
    what = f"agentcli {__version__}, {describe_machine()}\n"
    with tempfile.NamedTemporaryFile(
        "w", prefix="agentcli-crash-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(what + _format_traceback(bug))
    return file.name


def _format_traceback(bug: Exception) -> str:
    return _mask_secrets("".join(traceback.format_exception(bug)))


def _mask_secrets(text: str) -> str:
    return Redactor(environ=os.environ).mask(text)
