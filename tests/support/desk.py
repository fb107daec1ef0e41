"""The real parts of a question at a keyboard, without a session and without a terminal."""

import io
from collections.abc import Callable
from pathlib import Path

from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import DummyInput

from agentcli.types.settings import Settings
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.key_table import build_table
from agentcli.ui.repl.state import GitBranch, ReplOptions, ReplState
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.terminal import SynchronizedOutput, Terminal

NOWHERE = Path("/nowhere")


class UnseenTerminal(Terminal):
    """A terminal on which nothing is drawn. A subclass may see when it would be."""

    def __init__(self) -> None:
        super().__init__(input=DummyInput(), output=SynchronizedOutput(io.StringIO()))


def build_state() -> ReplState:
    options = ReplOptions(model="opus", branch=GitBranch(NOWHERE))
    return ReplState(
        settings=Settings(workspace=NOWHERE),
        options=options,
        keys=build_table(),
        status=Status(),
        first_mode="ask",
    )


def build_composer(clock: Callable[[], float]) -> Composer:
    return Composer(history=InMemoryHistory(), completer=DummyCompleter(), clock=clock)
