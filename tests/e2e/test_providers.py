import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.program import Ran, agentcli, environment, write_fork_command
from tests.support.provider import (
    Checker,
    Complaint,
    Provider,
    Reply,
    answer,
    error_of_anthropic,
    error_of_gemini,
    error_of_openai,
    page,
)
from tests.support.strict_anthropic import StrictAnthropic
from tests.support.strict_chat import StrictChat, called
from tests.support.strict_chat import said as chat_said
from tests.support.strict_gemini import StrictGemini
from tests.support.strict_interactions import StrictInteractions, error_of_interactions
from tests.support.strict_responses import StrictResponses

KEY = "sk-test-0123456789abcdef"
Calls = Sequence[tuple[str, str, dict[str, Any]]]
"""Each with its id, its tool and its arguments."""


@dataclass(frozen=True)
class Server:
    """One protocol: how to name it, and how it says what a model says."""

    model: str
    key: str
    base: str
    check: Checker
    complain: Complaint
    says: Callable[[str], Reply]
    calls: Callable[[Calls], Reply]

    def env(self, provider: Provider) -> dict[str, str]:
        return {self.key: KEY, self.base: provider.base_url}


def anthropic_server() -> Server:
    return Server(
        model="anthropic/claude-opus-5-5",
        key="ANTHROPIC_API_KEY",
        base="ANTHROPIC_BASE_URL",
        check=StrictAnthropic(),
        complain=error_of_anthropic,
        says=anthropic.says,
        calls=lambda calls: anthropic.calls(
            *(anthropic.call(*call) for call in calls),
            before=[anthropic.thinking("Let me see.")],
        ),
    )


def responses_server() -> Server:
    strict = StrictResponses()

    def message(text: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return {"type": "message", "id": "msg_1", "role": "assistant", "content": content}

    def call(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "function_call",
            "id": f"fc_{call_id}",
            "call_id": call_id,
            "name": name,
            "arguments": json.dumps(arguments),
        }

    def thought(calls: Calls) -> dict[str, Any]:
        made = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
        return {**made, "id": f"rs_{calls[0][0]}"}

    return Server(
        model="openai/gpt-6.1-sol",
        key="OPENAI_API_KEY",
        base="OPENAI_BASE_URL",
        check=strict.check,
        complain=error_of_openai,
        says=lambda text: strict.reply(message(text), stored=False),
        calls=lambda calls: strict.reply(
            thought(calls), *(call(*one) for one in calls), stored=False
        ),
    )


def chat_server() -> Server:
    strict = StrictChat()
    return Server(
        model="openai-chat/gpt-6-luna",
        key="OPENAI_API_KEY",
        base="OPENAI_BASE_URL",
        check=strict.check,
        complain=error_of_openai,
        says=lambda text: strict.reply(chat_said(text)),
        calls=lambda calls: strict.reply(
            called(*((call_id, name, json.dumps(given)) for call_id, name, given in calls))
        ),
    )


def gemini_server() -> Server:
    strict = StrictGemini("gemini-4-argon")

    def chunk(*parts: dict[str, Any]) -> dict[str, Any]:
        content = {"role": "model", "parts": list(parts)}
        return {"candidates": [{"content": content, "finishReason": "STOP"}]}

    def part(index: int, call_id: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
        signature = {} if index else {"thoughtSignature": "c2lnbmF0dXJl"}
        return {"functionCall": {"id": call_id, "name": name, "args": given}, **signature}

    return Server(
        model="gemini/gemini-4-argon",
        key="GEMINI_API_KEY",
        base="GEMINI_BASE_URL",
        check=strict.check,
        complain=error_of_gemini,
        says=lambda text: strict.reply(chunk({"text": text})),
        calls=lambda calls: strict.reply(
            chunk(*(part(index, *call) for index, call in enumerate(calls)))
        ),
    )


def interactions_server() -> Server:
    strict = StrictInteractions("gemini-4-argon")

    def output(text: str) -> dict[str, Any]:
        return {"type": "model_output", "content": [{"type": "text", "text": text}]}

    def step(call_id: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
        return {"type": "function_call", "id": call_id, "name": name, "arguments": given}

    thought = {"type": "thought", "signature": "c2lnbmF0dXJl"}
    return Server(
        model="gemini-interactions/gemini-4-argon",
        key="GEMINI_API_KEY",
        base="GEMINI_BASE_URL",
        check=strict.check,
        complain=error_of_interactions,
        says=lambda text: strict.reply(output(text)),
        calls=lambda calls: strict.reply(
            thought, *(step(*call) for call in calls), status="requires_action"
        ),
    )


SERVERS = [
    anthropic_server,
    responses_server,
    chat_server,
    gemini_server,
    interactions_server,
]


@pytest.fixture
def workspace(workspace: Path) -> Path:
    (workspace / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (workspace / "notes.txt").write_text("nothing\n")
    return workspace


def run(server: Server, provider: Provider, workspace: Path, *options: str, **settings: str) -> Ran:
    return agentcli(
        "run",
        "-C",
        workspace,
        "--model",
        server.model,
        *options,
        "fix it",
        home=workspace.parent,
        env={**server.env(provider), **settings},
    )


@pytest.mark.parametrize("make", SERVERS)
@pytest.mark.parametrize("chunk_bytes", [None, 7])
def test_whole_session_passes_a_server_that_checks_everything(
    make: Callable[[], Server], chunk_bytes: int | None, workspace: Path
) -> None:
    server = make()
    edit = {"path": "calc.py", "old_text": "a - b", "new_text": "a + b"}
    script = [
        server.calls(
            [
                ("call_1", "read_file", {"path": "calc.py"}),
                ("call_2", "read_file", {"path": "missing.py"}),
                ("call_3", "no_such_tool", {"x": 1}),
                ("call_4", "grep", {"pattern": "def", "mode": "nonsense"}),
            ]
        ),
        server.calls([("call_5", "edit_file", edit)]),
        server.calls([("call_6", "bash", {"command": "cat calc.py; exit 3"})]),
        server.says("It works."),
        server.says("It adds now."),  # what ran after the edit had failed
    ]
    played = [reply.but(chunk_bytes=chunk_bytes) for reply in script]
    with Provider(played, check=server.check, complain=server.complain) as provider:
        ran = run(server, provider, workspace, "--mode", "auto")
        assert provider.complaints == []
    assert (ran.code, ran.out) == (0, "It adds now.\n"), ran.err
    assert (workspace / "calc.py").read_text() == "def add(a, b):\n    return a + b\n"
    assert len(provider.requests) == 5
    assert provider.connections == 1


SWITCHES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "openai/gpt-6.1-sol": (
        {"tool_choice": {"type": "function", "name": "read_file"}, "parallel_tool_calls": False},
        {"tool_choice": "auto", "parallel_tool_calls": False},
    ),
    "gemini/gemini-4-argon": (
        {
            "toolConfig": {
                "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["read_file"]}
            }
        },
        {"toolConfig": {"functionCallingConfig": {"mode": "VALIDATED"}}},
    ),
    "anthropic/claude-opus-5-5": (
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    ),
    "openai-chat/gpt-6-luna": (
        {
            "tool_choice": {"type": "function", "function": {"name": "read_file"}},
            "parallel_tool_calls": False,
        },
        {"parallel_tool_calls": False},
    ),
}


@pytest.mark.parametrize("make", [anthropic_server, responses_server, chat_server, gemini_server])
def test_switches_reach_the_provider(make: Callable[[], Server], workspace: Path) -> None:
    server = make()
    script = [
        server.calls([("call_1", "read_file", {"path": "calc.py"})]),
        server.says("It subtracts."),
    ]
    with Provider(script, check=server.check, complain=server.complain) as provider:
        ran = run(
            *(server, provider, workspace, "--tool-choice", "read_file"), AGENTCLI_PARALLEL="false"
        )
        assert provider.complaints == []
    assert (ran.code, ran.out) == (0, "It subtracts.\n"), ran.err
    for request, expected in zip(provider.requests, SWITCHES[server.model], strict=True):
        assert request.json | expected == request.json
    can_force = server.model != "anthropic/claude-opus-5-5"
    assert ("cannot be forced to call a tool" in ran.err) != can_force


def test_tool_that_does_not_exist_cannot_be_chosen(workspace: Path) -> None:
    server = anthropic_server()
    with Provider([]) as provider:
        ran = run(server, provider, workspace, "--tool-choice", "read_fiel")
        assert provider.requests == []
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.splitlines()[-2:] == [
        "error: --tool-choice: there is no tool 'read_fiel'",
        "  fix: did you mean read_file?",
    ]


@pytest.mark.parametrize("make", SERVERS)
def test_rejected_key_fails_after_one_request_and_names_its_source(
    make: Callable[[], Server], workspace: Path
) -> None:
    server = make()
    rejected = answer(server.complain(f"invalid key {KEY}"), status=401)
    with Provider([rejected]) as provider:
        ran = run(server, provider, workspace)
        assert len(provider.requests) == 1
    error, fix = ran.err.splitlines()[-2:]
    assert (ran.code, ran.out) == (3, "")
    assert server.key in error
    assert fix.startswith(f"  fix: export {server.key}=")
    logs = "".join(path.read_text() for path in workspace.parent.rglob("log.jsonl"))
    assert KEY not in ran.err + logs


@pytest.mark.parametrize("make", SERVERS)
def test_rate_limit_is_told_and_waited_out(make: Callable[[], Server], workspace: Path) -> None:
    server = make()
    limited = answer(server.complain("slow down"), status=429, headers={"retry-after": "0"})
    with Provider([limited, limited, server.says("Hello.")]) as provider:
        ran = run(server, provider, workspace, "-o", "stream-json", "--max-wait", "0.1")
        assert len(provider.requests) == 3
    retries = [event for event in ran.events if event["type"] == "retry"]
    assert [(event["http"], event["attempt"]) for event in retries] == [(429, 2), (429, 3)]
    assert (ran.code, ran.events[-1]["answer"]) == (0, "Hello.")


@pytest.mark.parametrize("make", SERVERS)
def test_broken_stream_is_asked_again(make: Callable[[], Server], workspace: Path) -> None:
    server = make()
    whole = server.says("Hello there.")
    half = whole.but(cut_at=len(whole.body) // 2)
    with Provider([half, whole]) as provider:
        ran = run(server, provider, workspace)
        assert len(provider.requests) == 2
    assert (ran.code, ran.out) == (0, "Hello there.\n")


@pytest.mark.parametrize(
    "stall", [{"stall_at": 40}, {"stall_before_headers": True}], ids=["within", "before"]
)
def test_silent_reply_is_asked_again(stall: dict[str, Any], workspace: Path) -> None:
    server = anthropic_server()
    whole = server.says("Hello there.")
    with Provider([whole.but(**stall), whole]) as provider:
        settings = {"AGENTCLI_STALL_TIMEOUT": "0.3", "AGENTCLI_MAX_WAIT": "0.1"}
        ran = run(server, provider, workspace, **settings)
        assert len(provider.requests) == 2
    assert (ran.code, ran.out) == (0, "Hello there.\n")


BAD_ANSWERS: dict[str, Callable[[Server], Reply]] = {
    "HTML": lambda server: page("<html><body>Gateway login</body></html>", status=200),
    "half a JSON": lambda server: answer({"a": 1}).but(cut_at=3, framing="close"),
    "a 10 MB error page": lambda server: page("<p>oops</p>" * 1_000_000, status=400),
    "no such model": lambda server: answer(server.complain("model not found"), status=404),
    "a redirect": lambda server: Reply(
        status=302, headers={"location": "http://example.invalid/"}, framing="length"
    ),
}


@pytest.mark.parametrize("case", BAD_ANSWERS)
def test_strange_answer_is_one_clear_error(case: str, workspace: Path) -> None:
    server = anthropic_server()
    with Provider([BAD_ANSWERS[case](server)] * 10) as provider:
        ran = run(server, provider, workspace, "-q", AGENTCLI_MAX_WAIT="0.1")
    assert ran.code in (3, 4), ran.err
    assert "Traceback" not in ran.err
    assert len(ran.err.splitlines()) <= 2
    assert len(ran.err) < 1000


def test_nobody_listening_is_said_with_the_address(workspace: Path) -> None:
    server = anthropic_server()
    with Provider([]) as provider:
        gone = provider.base_url
    ran = agentcli(
        *("run", "-q", "-C", workspace, "--model", server.model, "x"),
        home=workspace.parent,
        env={server.key: KEY, server.base: gone},
    )
    assert ran.code == 4
    assert gone.removeprefix("http://") in ran.err


def test_missing_key_is_told_before_anything_is_sent(workspace: Path) -> None:
    ran = agentcli(
        "run", "-C", workspace, "--model", "anthropic/claude-opus-5-5", "x", home=workspace.parent
    )
    error, fix = ran.err.splitlines()
    assert ran.code == 3
    looked_at = "ANTHROPIC_API_KEY and your stored keys"
    assert error == f"error: no API key for anthropic (looked at {looked_at})"
    assert fix == "  fix: agentcli login anthropic   or: export ANTHROPIC_API_KEY=…"


def test_interrupt_ends_a_stalled_stream_at_once(workspace: Path) -> None:
    server = anthropic_server()
    stalled = server.says("Hello there.")
    with Provider([stalled.but(stall_at=len(stalled.body) // 2)]) as provider:
        with subprocess.Popen(
            [write_fork_command(), "run", "--model", server.model, "x"],
            cwd=workspace,
            env=environment(workspace.parent, **server.env(provider)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            assert provider.stalled.wait(30)
            process.terminate()
            process.communicate(timeout=10)
        assert process.returncode == 143
        assert provider.client_left.wait(10)


def test_unknown_model_is_allowed_with_a_warning(workspace: Path) -> None:
    server = anthropic_server()
    with Provider([server.says("Hello.")]) as provider:
        ran = agentcli(
            *("run", "-o", "stream-json", "--model", "anthropic/claude-new-9", "x"),
            home=workspace.parent,
            env=server.env(provider),
        )
    warnings = [event for event in ran.events if event["type"] == "warning"]
    assert [event["code"] for event in warnings] == ["model.unknown"]
    assert (ran.code, ran.events[-1]["cost_usd"]) == (0, None)


def test_same_call_again_and_again_ends_with_exit_6(workspace: Path) -> None:
    server = anthropic_server()
    again = [server.calls([(f"call_{n}", "read_file", {"path": "notes.txt"})]) for n in range(20)]
    with Provider(again, check=server.check) as provider:
        ran = run(server, provider, workspace, "-q")
        assert (ran.code, len(provider.requests)) == (6, 5)
    assert "read_file was called 5 times with the same input and result" in ran.err
