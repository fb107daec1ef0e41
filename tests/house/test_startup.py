import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.program import environment
from tests.support.provider import Provider

HEAVY = {
    "anthropic",
    "openai",
    "mcp",
    "httpx2",
    "pydantic",
    "rich",
    "prompt_toolkit",
    "unidiff",
    "markdown_it",
    "pygments",
    "yaml",
    "typer",
    "asyncio",
}

PROBE = """
import json, sys
sys.argv = ["agentcli", *sys.argv[1:]]
from agentcli.__main__ import main
try:
    main()
except SystemExit:
    pass
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})), file=sys.stderr)
"""


def loaded(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment(cwd, **(env or {})),
    )
    modules = json.loads(ran.stderr.splitlines()[-1])
    return HEAVY & set(modules)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--version"], set()),
        (["--help"], set()),
        (["run", "--help"], set()),
        (["mcp", "add", "-h"], set()),
        (["tools"], {"typer"}),
    ],
)
def test_command_loads_nothing_heavy_beyond(
    arguments: list[str], expected: set[str], tmp_path: Path
) -> None:
    assert loaded(*arguments, cwd=tmp_path) == expected


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_run_without_calls_needs_a_command_line_and_an_event_loop_alone(
    form: str, tmp_path: Path
) -> None:
    with Provider([anthropic.says("Hi.")]) as provider:
        env = {"ANTHROPIC_API_KEY": "sk-test-0123456789", "ANTHROPIC_BASE_URL": provider.base_url}
        modules = loaded("run", "-o", form, "--model", "opus", "x", cwd=tmp_path, env=env)
        assert len(provider.requests) == 1
    assert modules == {"typer", "asyncio"}
