"""A recorded fix, played through the real loop and the real tools on a throw-away project.

On a terminal it is a live session, with one approval. Elsewhere it is a run, in plain lines.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agentcli.types.errors import Exit, RunOutcome
from agentcli.types.events import CallFinished, Event
from agentcli.types.settings import Settings
from agentcli.types.tools import Command
from agentcli.ui.oneshot.plain import ProgressRenderer, StderrSink, TextAnswer
from agentcli.ui.oneshot.request import OneShotTask
from agentcli.ui.oneshot.runner import run_task
from agentcli.ui.streams import takes_live_session
from agentcli.ui.tally import Tally

SHIPPED = Path(__file__).parents[1] / "demo"
PROMPT = "fix the failing test"
TESTS = "sh test_durations.sh"
_OWN_DIRECTORIES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME")

WHAT_IT_IS = "Demo: the model's replies are recorded, the tools are real. No key, no network.\n"
WHAT_TO_DO = "Press Enter to send the message. At the question, y allows the edit.\n\n"
WHAT_NEXT = """
Next, in your project:
  agentcli login
  agentcli run --mode auto-edit "{prompt}"
"""


def play_demo(shipped: Path = SHIPPED) -> Exit:
    """Play the recording of a directory: a script, and the project it is about."""
    with tempfile.TemporaryDirectory(prefix="agentcli-demo-") as scratch:
        settings = _prepare(shipped, Path(os.path.realpath(scratch)))
        play = _play_live if takes_live_session(settings) else _play_in_lines
        with _use_own_directories(Path(scratch)):
            code = play(settings)
    if code is Exit.DONE:
        sys.stderr.write(WHAT_NEXT.format(prompt=PROMPT))
    return code


def _prepare(shipped: Path, scratch: Path) -> Settings:
    """Copy the sample project. Return the settings of a session in it."""
    shutil.copytree(
        shipped / "project",
        scratch / "project",
        copy_function=shutil.copyfile,
    )
    recording = scratch / "recording"
    shutil.copyfile(shipped / "script.yaml", recording)
    return Settings(
        workspace=scratch / "project",
        model=f"script/{recording}",
        sessions=scratch / "sessions",
        allow=(f"bash({TESTS})",),
        accessible=os.environ.get("ACCESSIBLE", "") not in ("", "0"),
    )


def _play_live(settings: Settings) -> Exit:
    from agentcli.ui.repl.held_terminal import HeldTerminal
    from agentcli.ui.repl.launch import run_repl
    from agentcli.ui.repl.state import GitBranch

    sys.stdout.write(WHAT_IT_IS + WHAT_TO_DO)
    branch = GitBranch(settings.workspace)
    with HeldTerminal(settings, "auto") as held:
        ended = run_repl(
            settings,
            held,
            model="recording",
            branch=branch,
            color="auto",
            draft=PROMPT,
            is_kept=False,
        )
    return ended.exit_code


def _play_in_lines(settings: Settings) -> Exit:
    sys.stderr.write(f"{WHAT_IT_IS}\n> {PROMPT}\n")
    task = OneShotTask(settings=replace(settings, mode="auto"), prompt=PROMPT)
    progress, last = ProgressRenderer(StderrSink(bodies=True), is_kept=False), _LastCommand()
    code = run_task(task, [progress, TextAnswer(), last])
    return Exit.VERIFY_FAILED if code is Exit.DONE and not last.has_passed else code


class _LastCommand:
    """A renderer that shows nothing. Notes whether the last command passed."""

    has_passed = False

    def __call__(self, event: Event) -> None:
        match event:
            case CallFinished(result=result) if isinstance(result.details, Command):
                self.has_passed = result.details.exit_code == 0
            case _:
                pass

    def finish(self, outcome: RunOutcome, tally: Tally) -> None:
        """Do nothing: the other renderers show the outcome."""


@contextmanager
def _use_own_directories(path: Path) -> Iterator[None]:
    """Keep rules and history out of the user's home, and the user's own rules out of the demo."""
    before = {name: os.environ.get(name) for name in _OWN_DIRECTORIES}
    os.environ.update({name: str(path / name) for name in _OWN_DIRECTORIES})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
