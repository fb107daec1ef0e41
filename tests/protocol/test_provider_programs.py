"""Calls that a program makes which the provider runs: judged like any other, and answered to it."""

from pathlib import Path
from typing import Any

import pytest

from agentcli.types.events import CallJudged
from tests.e2e.test_providers import Server, anthropic_server, responses_server
from tests.protocol.test_mcp_sessions import facts, results
from tests.support import anthropic_streams as anthropic
from tests.support.program import agentcli
from tests.support.provider import Provider, Reply, sse, stream
from tests.support.responses_streams import called, said
from tests.support.strict_responses import StrictResponses

CODE = "print(await bash(command='echo hi'))"


def of_anthropic() -> tuple[Server, list[Reply]]:
    program = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution"}
    call, deltas = anthropic.call("toolu_1", "bash", {"command": "echo hi"})
    call["caller"] = {"type": "code_execution_20260521", "tool_id": "srvtoolu_1"}
    blocks = [anthropic.whole({**program, "input": {"code": CODE}}), (call, deltas)]
    waiting = anthropic.events(blocks, stop_reason="tool_use", container="container_1")
    output = {"type": "code_execution_result", "stdout": "hi", "stderr": "", "return_code": 0}
    result = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1", "content": output}
    done = anthropic.events([anthropic.whole(result), anthropic.text("Done.")])
    return anthropic_server(), [stream(sse(waiting)), stream(sse(done))]


def of_openai() -> tuple[Server, list[Reply]]:
    strict, plain = StrictResponses(), responses_server()
    program = {"type": "program", "id": "prg_1", "call_id": "srvtoolu_1", "code": CODE}
    caller = {"type": "program", "caller_id": "srvtoolu_1"}
    call = {**called("bash", '{"command":"echo hi"}'), "caller": caller}
    output = {"type": "program_output", "id": "prgo_1", "call_id": "srvtoolu_1", "result": "hi"}
    replies = [
        strict.reply({**program, "fingerprint": "f"}, call, stored=False),
        strict.reply({**output, "status": "completed"}, said("Done."), stored=False),
    ]
    server = Server(**{**vars(plain), "check": strict.check})
    return server, replies


@pytest.mark.parametrize("made", [of_anthropic, of_openai])
@pytest.mark.parametrize(
    ("options", "result"),
    [
        (("--allow", "bash(echo:*)"), "hi\n[exit code 0]"),
        (("--deny", "bash", "--on-deny", "ignore"), "Denied: rule deny bash (--deny) forbids it"),
    ],
)
def test_call_of_a_program_is_judged_and_answered(
    made: Any, options: tuple[str, ...], result: str, home: Path, workspace: Path
) -> None:
    server, replies = made()
    with Provider(replies, check=server.check, complain=server.complain) as provider:
        ran = agentcli(
            "run",
            *("-C", workspace, "--model", server.model),
            *options,
            "x",
            home=home,
            env=server.env(provider),
        )
        assert (ran.code, ran.out, provider.complaints) == (0, "Done.\n", []), ran.err
        first, second = provider.bodies
    assert results(home) == [result]
    (judged,) = (fact for fact in facts(home) if isinstance(fact, CallJudged))
    assert judged.call.caller == "srvtoolu_1"
    assert (first.get("container"), second.get("container")) == (
        None,
        "container_1" if made is of_anthropic else None,
    )
