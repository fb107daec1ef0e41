"""Other agents that the person has installed, asked the same thing by the same model.

A row is a command that does one task and leaves. What is not on the PATH is left out.
"""

import json
import shutil
import statistics
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.dialects import Call, Stream, of_anthropic, of_chat, of_responses
from tests.bench.figures import Figure
from tests.bench.model import Model
from tests.bench.process import Spent, weighed
from tests.support.program import PROGRAM, environment

RUNS = 5
PROMPT = "hi"
TURNS = 30
CALLING = ("agentcli", "pi")
"""Those that have a tool `bash` with a `command`, as the model calls it."""

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
    for name, (argv, stream) in PEERS.items():
        program = shutil.which(argv[0])
        if program is not None:
            yield from _rows(name, [program, *argv[1:]], stream)


def _rows(name: str, argv: list[str], stream: Stream) -> Iterator[Figure]:
    if _measured(argv, stream) is None:
        return  # it wants to be set up first, or to ask somebody else
    runs = [run for _ in range(RUNS) if (run := _measured(argv, stream)) is not None]
    yield Figure(what=f"{name}, first request", value=statistics.median(it for it, _ in runs))
    spent = [spent for _, spent in runs]
    yield Figure(what=f"{name}, total", value=statistics.median(it.wall_ms for it in spent))
    peak_mb = statistics.median(it.peak_mb for it in spent)
    yield Figure(what=f"{name}, peak memory", value=peak_mb, unit="MB")
    if name in CALLING:
        turns = [_measured(argv, _repeat_echo) for _ in range(RUNS)]
        took_ms = statistics.median(one[1].wall_ms for one in turns if one is not None)
        yield Figure(what=f"{name}, {TURNS} turns of echo, total", value=took_ms)


def _repeat_echo(step: int, call: Call | None) -> bytes:
    echo: Call = ("bash", {"command": f"echo {step}"})
    return of_anthropic(step, echo if step < TURNS else None)


def _measured(argv: list[str], stream: Stream) -> tuple[float, Spent] | None:
    with TemporaryDirectory() as home, Model(lambda step: stream(step, None)) as model:
        env = environment(Path(home), **model.environment)
        _point_pi_to(model, Path(home))
        _point_codex_to(model, Path(home))
        try:
            spent = weighed(argv, env=env, cwd=Path(home))
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            return None
        if not model.complete:
            return None
        return (model.complete[0] - spent.began) * 1000, spent


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
