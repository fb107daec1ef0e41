"""Other agents that the person has installed, asked the same thing by the same model.

A row is a command that does one task and leaves. What is not on the PATH is left out.
"""

import json
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from tests.bench.dialects import Call, Stream, of_anthropic, of_chat, of_responses
from tests.bench.figures import Figure
from tests.bench.model import Model
from tests.bench.process import Spent, weighed
from tests.support import anthropic_streams as anthropic
from tests.support.program import PROGRAM, environment

Reply: TypeAlias = Callable[[int], bytes]

RUNS = 5
PROMPT = "hi"
TURNS = 30
CALLING = ("agentcli", "agentcli, no sandbox", "pi")
"""Those that have a tool `bash` with a `command`, as the model calls it."""
GAPS = {
    "5 sleep 0.5 at once, gap": ["sleep 0.5"] * 5,
    "5 MB of output, gap": ["yes | head -c 5000000"],
}
"""Commands of a first reply, measured from that reply to the request with their results."""

PEERS: Mapping[str, tuple[tuple[str, ...], Stream]] = {
    "claude": (("claude", "-p", PROMPT), of_anthropic),
    "codex": (("codex", "exec", "--skip-git-repo-check", PROMPT), of_responses),
    "opencode": (("opencode", "run", PROMPT), of_anthropic),
    "crush": (("crush", "run", "--quiet", PROMPT), of_anthropic),
    "pi": (
        ("pi", "-p", "--provider", "anthropic", "--model", "claude-opus-4-5", PROMPT),
        of_anthropic,
    ),
    "aider": (("aider", "--yes", "--no-git", "--message", PROMPT), of_chat),
    "llm": (("llm", "-m", "gpt-4o", PROMPT), of_chat),
}
"""Each with the dialect that it speaks when it finds the variables of a key and a base URL."""


def figures() -> Iterator[Figure]:
    ours = [str(PROGRAM), "run", "--model", "opus", "--mode", "auto", PROMPT]
    yield from _rows("agentcli", ours, of_anthropic)
    yield from _rows("agentcli, no sandbox", [*ours, "--sandbox", "off"], of_anthropic)
    for name, (argv, stream) in PEERS.items():
        program = shutil.which(argv[0])
        if program is not None:
            yield from _rows(name, [program, *argv[1:]], stream)


def _rows(name: str, argv: list[str], stream: Stream) -> Iterator[Figure]:
    if not (runs := _run_often(argv, lambda step: stream(step, None))):
        return  # it wants to be set up first, or to ask somebody else
    firsts = [(model.complete[0] - spent.began) * 1000 for model, spent in runs]
    yield Figure(what=f"{name}, first request", value=statistics.median(firsts))
    yield Figure(what=f"{name}, total", value=statistics.median(it.wall_ms for _, it in runs))
    peak_mb = statistics.median(it.peak_mb for _, it in runs)
    yield Figure(what=f"{name}, peak memory", value=peak_mb, unit="MB")
    if name in CALLING:
        yield from _rows_of_calls(name, argv)


def _rows_of_calls(name: str, argv: list[str]) -> Iterator[Figure]:
    turns = _run_often(argv, _repeat_echo)
    took_ms = statistics.median(spent.wall_ms for _, spent in turns)
    yield Figure(what=f"{name}, {TURNS} turns of echo, total", value=took_ms)
    for what, commands in GAPS.items():
        runs = _run_often(argv, partial(_call_first, commands))
        gaps = [(model.complete[1] - model.answered[0]) * 1000 for model, _ in runs]
        yield Figure(what=f"{name}, {what}", value=statistics.median(gaps))


def _repeat_echo(step: int) -> bytes:
    echo: Call = ("bash", {"command": f"echo {step}"})
    return of_anthropic(step, echo if step < TURNS else None)


def _call_first(commands: Sequence[str], step: int) -> bytes:
    if step:
        return of_anthropic(step, None)
    calls = (
        anthropic.call(f"toolu_{n}", "bash", {"command": command})
        for n, command in enumerate(commands)
    )
    return anthropic.calls(*calls).body


def _run_often(argv: list[str], reply: Reply) -> list[tuple[Model, Spent]]:
    """Run it as often as counts, after one run that warms. Return none if it cannot be run."""
    if _run(argv, reply) is None:
        return []
    return [run for _ in range(RUNS) if (run := _run(argv, reply)) is not None]


def _run(argv: list[str], reply: Reply) -> tuple[Model, Spent] | None:
    with TemporaryDirectory() as home, Model(reply) as model:
        env = environment(Path(home), **model.environment)
        project = Path(home, "project")
        project.mkdir()
        _point_pi_to(model, Path(home))
        _point_codex_to(model, Path(home))
        try:
            spent = weighed(argv, env=env, cwd=project)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None
        if not model.complete:
            return None
        return model, spent


def _point_pi_to(model: Model, home: Path) -> None:
    """Name the server in the settings of pi, which reads no variable for it."""
    settings = home / ".pi/agent/models.json"
    settings.parent.mkdir(parents=True)
    server = {"baseUrl": f"http://127.0.0.1:{model.port}"}
    settings.write_text(json.dumps({"providers": {"anthropic": server}}))


def _point_codex_to(model: Model, home: Path) -> None:
    """Name the server in the settings of Codex, which asks its own before any other."""
    settings = home / ".codex/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f"""
        model = "gpt-5"
        model_provider = "bench"
        [model_providers.bench]
        name = "bench"
        base_url = "http://127.0.0.1:{model.port}/v1"
        env_key = "OPENAI_API_KEY"
        wire_api = "responses"
        [analytics]
        enabled = false
        """
    )
