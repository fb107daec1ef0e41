import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from tests.support.program import Ran, agentcli, environment, script, write_fork_command

CUT = {"text": "ONE ", "stop": "length"}
PAUSED = {"text": "TWO ", "stop": "paused"}
WHOLE = "ONE TWO THREE"


def run(home: Path, *options: str | Path) -> Ran:
    model = script(home / "s.json", [CUT, PAUSED, "THREE"])
    ran = agentcli("run", "--model", model, *options, "go", home=home)
    assert ran.code == 0, ran.err
    return ran


def printed(home: Path) -> str:
    return run(home).out.removesuffix("\n")


def in_json(home: Path) -> str:
    return str(json.loads(run(home, "-o", "json").out)["answer"])


def in_stream(home: Path) -> str:
    return str(run(home, "-o", "stream-json").events[-1]["answer"])


def in_file(home: Path) -> str:
    run(home, "--last-message", home / "last.md")
    return (home / "last.md").read_text().removesuffix("\n")


def in_directory(home: Path) -> str:
    run(home, "--output-dir", home / "kept")
    return (home / "kept" / "answer.md").read_text().removesuffix("\n")


def as_data(home: Path) -> str:
    (home / "schema.json").write_text('{"type": "object", "required": ["said"]}')
    pieces = [{"text": '{"said": "ONE ', "stop": "length"}, PAUSED, 'THREE"}']
    model = script(home / "s.json", pieces)
    ran = agentcli("run", "--model", model, "--schema", home / "schema.json", "go", home=home)
    assert ran.code == 0, ran.err
    return str(json.loads(ran.out)["said"])


def in_batch(home: Path) -> str:
    model = script(home / "s.json", [CUT, PAUSED, "THREE"])
    (home / "tasks.jsonl").write_text(json.dumps({"id": "t", "prompt": "go", "model": model}))
    work = home / "work"
    work.mkdir()
    ran = agentcli("batch", home / "tasks.jsonl", "--out", home / "kept", "-C", work, home=home)
    assert ran.code == 0, ran.err
    (answer,) = (home / "kept").glob("**/answer.md")
    return answer.read_text().removesuffix("\n")


def served(home: Path) -> str:
    args = ["mcp", "serve", "--model", script(home / "s.json", [CUT, PAUSED, "THREE"])]
    server = StdioServerParameters(command=write_fork_command(), args=args, env=environment(home))

    async def asked() -> str:
        async with asyncio.timeout(60), Client(server) as client:
            result = await client.call_tool("run", {"task": "go"})
        return "".join(getattr(block, "text", "") for block in result.content)

    return asyncio.run(asked())


@pytest.mark.parametrize(
    "answered",
    [printed, in_json, in_stream, in_file, in_directory, as_data, in_batch, served],
)
def test_answer_in_several_replies_is_given_whole(
    answered: Callable[[Path], str], tmp_path: Path
) -> None:
    assert answered(tmp_path) == WHOLE
