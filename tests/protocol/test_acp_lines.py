"""Lines that are no message, or not one that the protocol has, sent to the installed program."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import environment, script, write_fork_command

NO_MESSAGE = -32600
NO_JSON = -32700
NO_METHOD = -32601
NO_PARAMS = -32602


class Pipes:
    """The two ends of an agentcli that an editor has started."""

    def __init__(self, agent: "subprocess.Popen[bytes]") -> None:
        assert agent.stdin is not None and agent.stdout is not None
        self.agent, self.stdin, self.stdout = agent, agent.stdin, agent.stdout

    def send(self, line: bytes) -> None:
        self.stdin.write(line + b"\n")
        self.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """The next message that is no notification."""
        while True:
            answer = json.loads(self.stdout.readline())
            assert isinstance(answer, dict)
            if "method" not in answer:
                return answer

    def code(self, line: bytes) -> tuple[Any, int]:
        """Whose answer came, and the code of its error."""
        self.send(line)
        answer = self.answer()
        return answer["id"], answer["error"]["code"]

    def request(self, number: int, method: str, **params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.send(json.dumps(message).encode())
        answer = self.answer()
        assert answer["id"] == number
        return answer

    def is_alive(self) -> bool:
        """It still answers, and had nothing else to say."""
        return bool(self.request(77, "initialize", protocolVersion=1)["result"])


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[Pipes]:
    with subprocess.Popen(
        [write_fork_command(), "acp", "--model", script(tmp_path / "s.json", ["Hi."])],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as agent:
        yield Pipes(agent)
        out, err = agent.communicate(timeout=30)
        assert (out, agent.returncode) == (b"", 0)
        assert b"Traceback" not in err


def test_json_that_is_no_object_is_answered_and_the_process_goes_on(pipes: Pipes) -> None:
    ping = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'
    for line in (b"[]", b"5", b'"x"', b"null", b"true", b"[" + ping + b"," + ping + b"]", b"{}"):
        assert pipes.code(line) == (None, NO_MESSAGE)
    assert pipes.is_alive()


def test_line_that_is_no_json_is_answered_and_the_process_goes_on(pipes: Pipes) -> None:
    lines = (
        b"this is not JSON",
        b"\xff\xfe\x00",
        b'{"id":1,"method":"\xc3("}',
        b"\0" * 100,
        b'{"id":NaN,"method":"initialize"}',
        b'{"id":1,"method":"initialize","params":{"protocolVersion":1e400}}',
        b"[" * 200_000,
        b"x" * 10_000_000,
        b"1" * 10_000,
    )
    for line in lines:
        assert pipes.code(line) == (None, NO_JSON)
    pipes.send(b"")
    pipes.send(b"  \r")
    assert pipes.is_alive()


def test_object_that_is_no_message_is_answered_to_whom_it_can(pipes: Pipes) -> None:
    assert pipes.code(b'{"id":3,"method":[]}') == (3, NO_MESSAGE)
    assert pipes.code(b'{"id":"a","method":"initialize","params":7}') == ("a", NO_MESSAGE)
    assert pipes.code(b'{"id":[],"method":"initialize"}') == (None, NO_MESSAGE)
    assert pipes.is_alive()


def test_answer_that_nobody_asked_for_or_can_read_changes_nothing(pipes: Pipes) -> None:
    for line in (b'{"id":[]}', b'{"id":{},"result":1}', b'{"id":0,"error":"x"}', b'{"id":99}'):
        pipes.send(line)
    assert pipes.is_alive()


def test_line_of_ten_megabytes_is_a_message_like_any_other(pipes: Pipes) -> None:
    padded = pipes.request(1, "initialize", protocolVersion=1, _meta={"x": "y" * 10_000_000})
    assert padded["result"]["agentInfo"]["name"] == "agentcli"


def test_what_the_protocol_does_not_have_is_refused(pipes: Pipes, tmp_path: Path) -> None:
    session = pipes.request(1, "session/new", cwd=str(tmp_path), mcpServers=[])
    assert session["result"]["sessionId"], "a request before initialize"
    assert pipes.code(b'{"id":2,"method":"no/such"}') == (2, NO_METHOD)
    assert pipes.code(b'{"id":3,"method":"session/prompt","params":{}}') == (3, NO_PARAMS)
    pipes.send(b'{"method":"no/such/notification","params":{}}')
    pipes.send(b'{"method":"session/cancel","params":{"sessionId":5}}')
    pipes.send(b'{"method":"session/cancel","params":{"sessionId":"none"}}')
    assert pipes.is_alive()
