import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from agentcli.types.events import (
    FileAttached,
    HookRan,
    HostJudged,
    ModelChanged,
    ModelReplied,
    ResultsTrimmed,
    ServerAsked,
    SessionStarted,
    SignatureJudged,
    TrimmedResult,
)
from agentcli.types.messages import AssistantMessage, Usage
from agentcli.types.verdicts import Verdict
from agentcli.ui.oneshot.jsonl import JsonRenderer

REFERENCE = Path(__file__).parents[3] / "docs/reference"
SCHEMA = json.loads((REFERENCE / "stream-json.schema.json").read_text())
FORM = Draft202012Validator(SCHEMA)
HEAD = ("v", "seq", "ts", "session")
REPLY = ModelReplied(
    message=AssistantMessage(
        content=(),
        usage=Usage(input_tokens=150, output_tokens=50),
        stop="end",
        model="m",
        protocol="scripted",
    ),
    duration_s=0.1,
    cost_usd=None,
)


def test_usage_says_how_much_of_the_window_is_filled(capfd: pytest.CaptureFixture[str]) -> None:
    face = JsonRenderer(stream=True, get_window={"m/small": 1000}.get)
    face(
        SessionStarted(
            session="s",
            version="0",
            workspace="/w",
            model="m/small",
            mode="ask",
            tools=(),
            tools_sha256="",
        )
    )
    face(REPLY)
    face(ModelChanged(model="m/unknown"))
    face(REPLY)
    rows = map(json.loads, capfd.readouterr().out.splitlines())
    assert [row["context_pct"] for row in rows if row["type"] == "usage"] == [20.0, None]


def test_shortening_is_told_in_the_published_form(capfd: pytest.CaptureFixture[str]) -> None:
    face = JsonRenderer(stream=True)
    face(ResultsTrimmed(results=(TrimmedResult(call_id="c1", text="cut"),), freed_tokens=9))
    (row,) = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [error.message for error in FORM.iter_errors(row)] == []
    assert (row["type"], row["results"], row["freed_tokens"]) == ("shortened", ["c1"], 9)


def test_what_servers_bring_and_ask_is_told_in_the_published_form(
    capfd: pytest.CaptureFixture[str],
) -> None:
    face = JsonRenderer(stream=True)
    face(FileAttached(name="the note", origin="the MCP server a", size_bytes=66))
    asked = ServerAsked(
        server="a", kind="form", message="Who?", answer="decline", fields=("name", "age")
    )
    face(asked)
    face(HookRan(hook="check", decision="observed", event="Stop"))
    denied = Verdict(decision="deny", by="nobody", reason="not granted")
    face(HostJudged(call_id="c", host="docs.example.org", port=443, verdict=denied))
    face(SignatureJudged(call_id="c", key="ed25519 X", purpose="log in as git", verdict=denied))
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [error.message for row in rows for error in FORM.iter_errors(row)] == []
    assert [{key: row[key] for key in row if key not in HEAD} for row in rows] == [
        {"type": "attached", "name": "the note", "origin": "the MCP server a", "bytes": 66},
        {
            "type": "server.asked",
            "server": "a",
            "kind": "form",
            "message": "Who?",
            "answer": "decline",
            "fields": ["name", "age"],
        },
        {
            "type": "hook",
            "event": "Stop",
            "id": None,
            "hook": "check",
            "decision": "observed",
            "reason": "",
        },
        {
            "type": "host",
            "id": "c",
            "server": "",
            "host": "docs.example.org",
            "port": 443,
            "credential": "",
            "decision": "deny",
            "by": "nobody",
            "reason": "not granted",
        },
        {
            "type": "signature",
            "id": "c",
            "key": "ed25519 X",
            "purpose": "log in as git",
            "decision": "deny",
            "by": "nobody",
            "reason": "not granted",
        },
    ]
