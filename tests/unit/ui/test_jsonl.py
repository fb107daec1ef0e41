import json

import pytest

from agentcli.types.events import ModelChanged, ModelReplied, SessionStarted
from agentcli.types.messages import AssistantMessage, Usage
from agentcli.ui.jsonl import JsonFace

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
    face = JsonFace(stream=True, window_of={"m/small": 1000}.get)
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
