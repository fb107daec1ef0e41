"""Summaries that a provider makes of its own accord: taken, kept, and sent back in their place."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.session.builder import open_session
from agentcli.types.errors import Ending
from agentcli.types.settings import Settings
from tests.support import anthropic_streams, responses_streams
from tests.support.provider import Provider, Recorded, Reply, sse, stream

SUMMARY = {
    "type": "compaction",
    "content": "They said hello.",
    "encrypted_content": "b3BhcXVl",
    "signature": "sig-compaction",
    "tool_changes": [],
}
FAILED = {"type": "compaction", "content": None}
SEALED = {"id": "cmp_1", "type": "compaction", "encrypted_content": "gAAAA-sealed"}


def talked(
    script: list[Reply], model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Recorded]:
    """Two turns; the requests they took."""

    async def talk() -> list[Ending]:
        workspace = tmp_path / "work"
        workspace.mkdir()
        settings = Settings(workspace=workspace, model=model, sessions=tmp_path / "sessions")
        session = open_session(settings, listeners=())
        ended = [(await session.run_turn(prompt)).ending for prompt in ("Hello.", "And now?")]
        await session.close(0)
        return ended

    with Provider(script) as provider:
        for name in ("ANTHROPIC", "OPENAI"):
            monkeypatch.setenv(f"{name}_BASE_URL", provider.base_url)
            monkeypatch.setenv(f"{name}_API_KEY", "sk-test-0123456789")
        assert asyncio.run(talk()) == [Ending.DONE, Ending.DONE]
    return provider.requests


def streamed(block: dict[str, Any]) -> anthropic_streams.Deltas:
    """As it comes: empty at first, then all of its text in one delta."""
    streamed_keys = ("content", "encrypted_content")
    parts = {key: value for key, value in block.items() if key in streamed_keys}
    rest = {key: value for key, value in block.items() if key not in streamed_keys}
    return {**rest, "content": None}, [{"type": "compaction_delta", **parts}]


@pytest.mark.parametrize("block", [SUMMARY, FAILED])
def test_block_of_anthropic_goes_back_as_it_came(
    block: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = [streamed(block), anthropic_streams.text("Hi.")]
    script = [stream(sse(anthropic_streams.events(blocks))), anthropic_streams.says("Well.")]
    first, second = talked(script, "opus", tmp_path, monkeypatch)
    replied = {"role": "assistant", "content": [block, {"type": "text", "text": "Hi."}]}
    sent = json.loads(first.body)["messages"]
    assert second.json["messages"][: len(sent) + 1][-1] == replied


def test_pause_after_a_summary_is_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = anthropic_streams.events([streamed(SUMMARY)], stop_reason="compaction")
    says = anthropic_streams.says
    script = [stream(sse(paused)), says("Hi."), says("Well.")]
    _, second, third = talked(script, "opus", tmp_path, monkeypatch)
    assert second.json["messages"][-1] == {"role": "assistant", "content": [SUMMARY]}
    assert "Hi." in third.body.decode()


def test_item_of_openai_goes_back_as_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [SEALED, responses_streams.said("Hi.")]
    again = [responses_streams.said("Well.", number=1)]
    script = [
        stream(sse(responses_streams.events(items))),
        stream(sse(responses_streams.events(again, response_id="resp_01"))),
    ]
    first, second = talked(script, "sol", tmp_path, monkeypatch)
    sent = len(first.json["input"])
    assert second.json["input"][sent] == SEALED
