"""The installed program as a process of its own, with a home that is empty and thrown away."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("agentcli")


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.split("\n") if line]


def environment(home: Path, **more: str) -> dict[str, str]:
    """PATH, an empty home and UTF-8: nothing of the person's own settings or keys."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        **{name: value for name, value in os.environ.items() if name.startswith("COVERAGE")},
        **more,
    }


def agentcli(
    *arguments: str | Path,
    home: Path,
    cwd: Path | None = None,
    stdin: str | None = None,
    env: dict[str, str] | None = None,
) -> Ran:
    ran = subprocess.run(
        [PROGRAM, *arguments],
        cwd=cwd or home,
        env=environment(home, **(env or {})),
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def script(path: Path, replies: Sequence[Any]) -> str:
    """Writes a script and returns the model's name for it."""
    path.write_text(json.dumps(replies))
    return f"script/{path}"


def session_log(home: Path) -> Path:
    """The log of the one session that was run there."""
    (log,) = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    return log
