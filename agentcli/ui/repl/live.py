"""Opens and closes the live session around its event loop: the terminal is given back, always."""

import asyncio
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from platformdirs import user_state_path
from prompt_toolkit.utils import get_cwidth

from agentcli import __version__
from agentcli.settings import Settings
from agentcli.types.errors import Exit
from agentcli.ui.lines import short_path
from agentcli.ui.render.summary import is_ascii
from agentcli.ui.repl.background import Answer, ask_background
from agentcli.ui.repl.branch import Branch
from agentcli.ui.repl.engine import Late, Opening
from agentcli.ui.repl.repl import Repl
from agentcli.ui.repl.status import cut
from agentcli.ui.repl.terminal import IN_ASCII
from agentcli.ui.repl.terminal_guard import Guard

if TYPE_CHECKING:
    from agentcli.record.place import SessionPlace

DOT = " · "
HINTS = ("/help", "@file", "!shell", "ctrl+j newline", "ctrl+d exit")
PATH_COLUMNS_MIN = 10
"""With less room for it, the folder is left out."""


def converse(
    settings: Settings,
    *,
    model: str,
    branch: Branch,
    color: str,
    load: Callable[[], Late],
    resume: "SessionPlace | None" = None,
) -> Exit:
    """`model`: its name, as far as it is known before anything is loaded."""
    began = time.monotonic()
    _log_to_file()
    stdin, stdout = sys.stdin.fileno(), sys.stdout.fileno()
    guard = Guard(stdin)
    try:
        asks = settings.theme == "auto" and color != "never" and not os.environ.get("NO_COLOR")
        answer = ask_background(stdin, stdout) if asks else Answer()
        branch.settle()
        opening = Opening(model=model, branch=branch, answer=answer, color=color, resume=resume)
        _greet(settings, opening)
        repl = Repl(settings, opening, load=load)
        code = asyncio.run(repl.run())
    finally:
        guard.dismiss()
    _part(repl, time.monotonic() - began)
    return code


def _log_to_file() -> None:
    """What libraries and we complain of must not stand in the middle of the screen."""
    path = user_state_path("agentcli", appauthor=False) / "agentcli.log"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return
    logging.basicConfig(
        handlers=[logging.FileHandler(path, delay=True, encoding="utf-8")],
        level=logging.WARNING,
        format="%(asctime)s %(name)s %(message)s",
    )


def _greet(settings: Settings, opening: Opening) -> None:
    """Exactly two lines, which also keep the live region off the first row."""
    width = shutil.get_terminal_size().columns - 1
    shown = f"{first_line(settings, opening, width)}\n{hints(width)}\n"
    sys.stdout.write(shown.translate(IN_ASCII) if is_ascii() else shown)
    sys.stdout.flush()


def first_line(settings: Settings, opening: Opening, width: int) -> str:
    branch = f" ({opening.branch.name})" if opening.branch.name else ""
    model = opening.model.rpartition("/")[2] or opening.model
    parts = [f"agentcli {__version__}", model, f"{settings.mode} mode"]
    room = width - sum(map(get_cwidth, parts)) - 3 * len(DOT) - get_cwidth(branch)
    if room >= PATH_COLUMNS_MIN:
        parts.insert(2, shortened(short_path(settings.workspace), room) + branch)
    return cut(DOT.join(parts), width)


def hints(width: int) -> str:
    """As many as fit."""
    fitting = [DOT.join(HINTS[:count]) for count in range(len(HINTS) + 1)]
    return next(shown for shown in reversed(fitting) if len(shown) <= width or not shown)


def shortened(path: str, width: int) -> str:
    """Its end says most."""
    return path if len(path) <= width else f"…{path[len(path) - max(8, width - 1) :]}"


def _part(repl: Repl, seconds: float) -> None:
    lines = repl.summary(seconds)
    if lines:
        sys.stderr.write("\n".join(lines) + "\n")
