"""A recorded fix, played through the real loop and the real tools on a throw-away project."""

import shutil
import sys
import tempfile
from pathlib import Path

from agentcli.settings import Settings
from agentcli.types.errors import Exit
from agentcli.ui.oneshot.plain import ProgressRenderer, StderrSink, TextAnswer
from agentcli.ui.oneshot.request import OneShotTask
from agentcli.ui.oneshot.runner import run_task

SHIPPED = Path(__file__).parents[1] / "demo"
PROMPT = "fix the failing test"

WHAT_IT_IS = """\
Demo: the model's replies are recorded, the tools are real. No key, no network.

> {prompt}
"""
WHAT_NEXT = """
Next: export ANTHROPIC_API_KEY=…, OPENAI_API_KEY=… or GEMINI_API_KEY=…, then in your project:
  agentcli run --mode auto-edit "{prompt}"
"""


def play_demo() -> Exit:
    with tempfile.TemporaryDirectory(prefix="agentcli-demo-") as scratch:
        project = Path(scratch) / "project"
        shutil.copytree(
            SHIPPED / "project",
            project,
            copy_function=shutil.copyfile,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        settings = Settings(
            workspace=project.resolve(),
            model=f"script/{SHIPPED / 'script.yaml'}",
            mode="auto",
            sessions=Path(scratch) / "sessions",
        )
        sys.stderr.write(WHAT_IT_IS.format(prompt=PROMPT))
        task = OneShotTask(settings=settings, prompt=PROMPT)
        code = run_task(task, [ProgressRenderer(StderrSink(bodies=True)), TextAnswer()])
        if code is Exit.DONE:
            sys.stderr.write(WHAT_NEXT.format(prompt=PROMPT))
        return code
