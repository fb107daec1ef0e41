"""A bug, told to the person in two lines; the traceback goes to a file they can send."""

import os
import platform
import tempfile
import traceback

from agentcli import __version__
from agentcli.guard.secrets import Redactor
from agentcli.types.errors import Exit
from agentcli.ui.plain import say_error


def report(bug: Exception) -> int:
    clean = Redactor(environ=os.environ).text
    what = f"agentcli {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
    with tempfile.NamedTemporaryFile(
        "w", prefix="agentcli-crash-", suffix=".txt", delete=False, encoding="utf-8"
    ) as file:
        file.write(what + clean("".join(traceback.format_exception(bug))))
    said = f"internal error: {type(bug).__name__}: {clean(str(bug))}"
    say_error(said, f"report it with {file.name}")
    return Exit.INTERNAL
