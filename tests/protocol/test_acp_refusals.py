"""What an editor asks for that cannot be had: it is told why, and nothing is touched."""

import asyncio
import json
import shutil
import subprocess
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from acp import RequestError
from acp.helpers import ContentBlock, image_block, text_block

from tests.protocol.test_acp import Desk, Editor, at_work, drive, say, started
from tests.support.mcp_links import NASTY
from tests.support.program import script, session_log


async def refusal(asked: Awaitable[Any]) -> tuple[int, str]:
    with pytest.raises(RequestError) as refused:
        await asked
    assert isinstance(refused.value.data, dict)
    assert refused.value.data["details"] == str(refused.value)
    return refused.value.code, str(refused.value)


def test_only_a_whole_id_loads_a_session(tmp_path: Path) -> None:
    copied = tmp_path / "copied"

    async def play(desk: Desk) -> None:
        session = await desk.new()
        await desk.say(session)
        await desk.agent.close_session(session_id=session)
        shutil.copytree(session_log(desk.home).parent, copied)
        before = sorted(copied.iterdir())
        for wrong in (session[-4:], session[:13], "", str(copied), "../sessions", "a\ud800"):
            asked = desk.agent.load_session(cwd=str(desk.work), session_id=wrong, mcp_servers=[])
            assert await refusal(asked) == (-32602, f"no session {wrong!a}")
        assert sorted(copied.iterdir()) == before
        await desk.agent.load_session(cwd=str(desk.work), session_id=session, mcp_servers=[])
        assert await desk.say(session) == "end_turn"

    drive(tmp_path, ["One.", "Two."], play)


def test_directory_that_is_none_is_refused_in_words_for_an_editor(tmp_path: Path) -> None:
    nowhere, file = tmp_path / "nowhere", tmp_path / "file"
    file.touch()
    expected = {
        str(nowhere): f"cannot open {nowhere}: No such file or directory",
        str(file): f"{file} is not a directory",
    }
    odd = ("work", ".", "", "/a\ud800", "/a\0b")
    expected |= {cwd: f"cwd must be the absolute path of a directory, not {cwd!a}" for cwd in odd}

    async def play(desk: Desk) -> None:
        for cwd, told in expected.items():
            asked = desk.agent.new_session(cwd=cwd, mcp_servers=[])
            assert await refusal(asked) == (-32602, told)
        assert (await refusal(desk.agent.list_sessions(cwd="work")))[0] == -32602

    drive(tmp_path, [], play)


def test_mistake_of_a_server_is_not_printed(tmp_path: Path) -> None:
    args = [str(NASTY), "odd_notification"]
    server = {"name": "nasty", "command": sys.executable, "args": args, "env": []}
    call = {"calls": [{"nasty__echo": {"text": "x"}}]}
    model = script(tmp_path / "s.json", [call, "Done."])
    with started(
        tmp_path,
        *("--model", model, "--allow", "mcp"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as agent:
        assert agent.stdout is not None
        say(agent, 1, "session/new", cwd=str(tmp_path), mcpServers=[server])
        session = json.loads(agent.stdout.readline())["result"]["sessionId"]
        prompt = [{"type": "text", "text": "go"}]
        say(agent, 2, "session/prompt", sessionId=session, prompt=prompt)
        while json.loads(agent.stdout.readline()).get("id") != 2:
            pass
        _, errors = agent.communicate()
    assert "\\ndone" in session_log(tmp_path).read_text()
    assert errors == b""


def test_prompt_that_cannot_be_taken_says_why(tmp_path: Path) -> None:
    wrong: dict[str, ContentBlock] = {
        "the prompt is empty": text_block(" "),
        "an image of the prompt is not base64": image_block("!!!", "image/png"),
        "an image of the prompt is not a PNG, JPEG, GIF or WebP image": image_block(
            "aGk=", "image/png"
        ),
    }

    async def play(desk: Desk) -> None:
        session = await desk.new()
        for told, block in wrong.items():
            asked = desk.agent.prompt(session_id=session, prompt=[block])
            assert await refusal(asked) == (-32602, told)
        assert (await refusal(desk.say("none"))) == (-32602, "no session 'none'")

    drive(tmp_path, [], play)


def test_missing_key_asks_for_authentication_and_says_how(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()

    async def play() -> None:
        async with at_work(
            home, work, Editor(None), "--model", "anthropic/claude-opus-5-5"
        ) as desk:
            for asked in (
                desk.agent.new_session(cwd=str(work), mcp_servers=[]),
                desk.agent.authenticate(method_id="environment"),
            ):
                with pytest.raises(RequestError) as refused:
                    await asked
                assert refused.value.code == -32000
                assert str(refused.value).startswith("no API key for anthropic (looked at ")
                assert "export ANTHROPIC_API_KEY=…" in str(refused.value)

    asyncio.run(play())
