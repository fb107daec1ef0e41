"""A bug, told to the person in two lines; the traceback goes to a file they can send."""

import errno
import os
import platform
import sys
import tempfile
import traceback

from agentcli import __version__
from agentcli.guard.secrets import Redactor
from agentcli.types.errors import Exit
from agentcli.ui.plain import say_error

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def report(bug: Exception, *, is_debugging: bool = False) -> int:
    if isinstance(bug, OSError) and bug.errno in _FULL:
        where = bug.filename or "the output"
        say_error(f"cannot write {where}: {bug.strerror}", "make room, then run it again")
        return Exit.INTERNAL
    clean = Redactor(environ=os.environ).text
    what = f"agentcli {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    with tempfile.NamedTemporaryFile(
        "w", prefix="agentcli-crash-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        told = clean("".join(traceback.format_exception(bug)))
        file.write(what + told)
    if is_debugging:
        sys.stderr.write(told)
    said = f"internal error: {type(bug).__name__}: {clean(str(bug))}"
    say_error(said, f"report it with {file.name}")
    return Exit.INTERNAL
