"""The switches of a request, in a whole session before the strict server of each protocol."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.session.builder import open_session
from agentcli.session.requirements import RunRequirements
from agentcli.types.errors import Ending
from agentcli.types.provider import ToolChoice
from agentcli.types.settings import Settings
from tests.support.voices import (
    Anthropic,
    Chat,
    Gemini,
    Interactions,
    Object,
    Responses,
    Voice,
    choir,
)


class Sonnet(Anthropic):
    model = "anthropic/claude-sonnet-5-5"
    """A model that can be forced to call a tool."""


CHOICES: dict[type[Any], dict[ToolChoice, Any]] = {
    Sonnet: {
        "auto": {"type": "auto"},
        "none": {"type": "none"},
        "required": {"type": "any"},
        "read_file": {"type": "tool", "name": "read_file"},
    },
    Responses: {
        "auto": "auto",
        "none": "none",
        "required": "required",
        "read_file": {"type": "function", "name": "read_file"},
    },
    Chat: {
        "auto": None,
        "none": "none",
        "required": "required",
        "read_file": {"type": "function", "function": {"name": "read_file"}},
    },
    Gemini: {
        "auto": {"mode": "VALIDATED"},
        "none": {"mode": "NONE"},
        "required": {"mode": "ANY"},
        "read_file": {"mode": "ANY", "allowedFunctionNames": ["read_file"]},
    },
    Interactions: {
        "auto": "validated",
        "none": "none",
        "required": "any",
        "read_file": {"allowed_tools": {"mode": "any", "tools": ["read_file"]}},
    },
}


def read_choice(body: Object) -> Any:
    if "toolConfig" in body:
        return body["toolConfig"]["functionCallingConfig"]
    choice = body.get("tool_choice") or body.get("generation_config", {}).get("tool_choice")
    if isinstance(choice, dict):
        return {key: value for key, value in choice.items() if key != "disable_parallel_tool_use"}
    return choice


def read_parallel(body: Object) -> bool | None:
    """Whether several calls may come at once; None if the protocol has no such switch."""
    if "parallel_tool_calls" in body:
        return bool(body["parallel_tool_calls"])
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and "type" in choice and "messages" in body:
        return not choice.get("disable_parallel_tool_use")
    return None


def run(
    voice: Voice, choice: ToolChoice, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> list[Object]:
    calls = [] if choice == "none" else [("read_file", {"path": "a.py"})]
    script = [voice.says(1, "Go.", calls), *([voice.says(2, "Done.", [])] if calls else [])]

    async def converse() -> Ending:
        session = open_session(
            replace(settings, model=voice.model),
            listeners=(),
            requirements=RunRequirements(tool_choice=choice),
        )
        ended = await session.run_turn("Go.")
        await session.close(0)
        return ended.ending

    with choir([voice], script) as providers:
        for name, value in providers.environ.items():
            monkeypatch.setenv(name, value)
        ending = asyncio.run(converse())
    assert (ending, providers.server.complaints) == (Ending.DONE, [])
    return providers.requests(voice)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    return Settings(workspace=folder, mode="auto", sessions=tmp_path / "sessions")


@pytest.mark.parametrize("choice", ["auto", "none", "required", "read_file"])
@pytest.mark.parametrize("kind", CHOICES)
def test_choice_of_tools_reaches_every_provider(
    kind: type[Any], choice: ToolChoice, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *later = run(kind(), choice, settings, monkeypatch)
    assert read_choice(first) == CHOICES[kind][choice]
    assert [read_choice(body) for body in later] == [CHOICES[kind]["auto"]] * len(later)


@pytest.mark.parametrize("parallel", [True, False])
@pytest.mark.parametrize("kind", CHOICES)
def test_parallel_calls_are_switched_in_every_protocol_that_can(
    kind: type[Any], parallel: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = run(kind(), "auto", replace(settings, parallel=parallel), monkeypatch)
    has_switch = kind not in (Gemini, Interactions)
    is_said = has_switch and not (kind is Chat and parallel)  # there, the usual is left out
    assert [read_parallel(body) for body in bodies] == [parallel if is_said else None] * 2
