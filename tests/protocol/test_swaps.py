"""One session that goes from model to model, as a person has it, over HTTP."""

import asyncio
import base64
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentcli.session.builder import open_session
from agentcli.types.errors import Ending
from agentcli.types.events import TurnEnded
from agentcli.types.settings import Settings
from agentcli.ui.repl.mentions import attach
from tests.support.pdf import make_pdf
from tests.support.pictures import png
from tests.support.provider import Provider, Reply
from tests.support.voices import (
    VOICES,
    Anthropic,
    Called,
    Chat,
    Choir,
    Gemini,
    Interactions,
    Responses,
    Voice,
    choir,
)

SAID = png(30, 20)
READ = png(20, 30)
CALLS: list[Called] = [
    ("read_file", {"path": "a.py"}),
    ("read_file", {"path": "read.png"}),
    ("read_file", {"path": "nowhere"}),
]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.py").write_text("what = 1\n")
    (folder / "said.png").write_bytes(SAID)
    (folder / "read.png").write_bytes(READ)
    return folder


def script(legs: Sequence[Voice], calls: Sequence[Called] = CALLS) -> list[Reply]:
    """In each leg a thought, a text and some calls at once, then a thought and a text."""
    replies = []
    for leg, voice in enumerate(legs):
        replies.append(voice.says(2 * leg, f"Looking in leg {leg}.", calls))
        replies.append(voice.says(2 * leg + 1, f"Done with leg {leg}.", []))
    return replies


async def travel(legs: Sequence[Voice], settings: Settings) -> list[TurnEnded]:
    session = open_session(settings, listeners=())
    ended = []
    for leg, voice in enumerate(legs):
        if leg:
            await session.model_switch.use(voice.model)
        prompt = f"Go through leg {leg}: @said.png"
        attached = attach(prompt, settings.workspace).parts
        ended.append(await session.run_turn(prompt, attachments=attached))
    await session.close(0)
    return ended


def travelled(
    legs: Sequence[Voice],
    workspace: Path,
    monkeypatch: pytest.MonkeyPatch,
    calls: Sequence[Called] = CALLS,
) -> tuple[Choir, list[str]]:
    """All went well; the requests as text, two of each leg."""
    home = workspace.parent
    monkeypatch.setenv("HOME", str(home))
    settings = Settings(
        workspace=workspace, model=legs[0].model, mode="auto", sessions=home / "sessions"
    )
    with choir(list(dict.fromkeys(legs)), script(legs, calls)) as providers:
        for name, value in providers.environ.items():
            monkeypatch.setenv(name, value)
        ended = asyncio.run(travel(legs, settings))
    assert providers.server.complaints == []
    assert {turn.ending for turn in ended} == {Ending.DONE}, ended
    bodies = [json.dumps(body) for body in providers.server.bodies]
    assert len(bodies) == 2 * len(legs)
    return providers, bodies


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


@pytest.mark.parametrize("first", range(len(VOICES)))
def test_nothing_that_was_said_called_or_seen_is_lost_on_the_way(
    first: int, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [*VOICES[first:], *VOICES[:first]]
    _, bodies = travelled([kind() for kind in kinds], workspace, monkeypatch)
    for number, body in enumerate(bodies):
        leg, is_second = divmod(number, 2)
        for past in range(leg):
            assert f"Go through leg {past}: @said.png" in body
            assert f"Looking in leg {past}." in body
            assert f"Done with leg {past}." in body
        assert body.count("[image said.png \\u00b7 30x20]") == leg + 1
        assert body.count(encoded(SAID)) == leg + 1
        assert body.count(encoded(READ)) == leg + is_second
        assert body.count("what = 1") == leg + is_second
        assert body.count("No such file: nowhere.") == leg + is_second


def refuse_constant(name: str) -> None:
    raise AssertionError(name)


@pytest.mark.parametrize("number", [b"1e400", b"-1E+999", b"NaN", b"Infinity"])
def test_number_that_json_does_not_have_is_explained_and_goes_no_further(
    number: bytes, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    legs = [kind() for kind in VOICES]
    replies = [
        reply.but(body=reply.body.replace(b"123454321", number))
        for reply in script(legs, [("read_file", {"path": "a.py", "limit": 123454321})])
    ]
    home = workspace.parent
    monkeypatch.setenv("HOME", str(home))
    settings = Settings(workspace=workspace, model=legs[0].model, sessions=home / "sessions")
    with Choir(Provider(replies), legs) as providers:
        for name, value in providers.environ.items():
            monkeypatch.setenv(name, value)
        ended = asyncio.run(travel(legs, settings))
    assert {turn.ending for turn in ended} == {Ending.DONE}, ended
    for step, request in enumerate(providers.server.requests):
        json.loads(request.body, parse_constant=refuse_constant)
        told = request.body.decode().count("Invalid input: the arguments are not valid JSON (")
        assert told == (step + 1) // 2
    (log,) = (home / "sessions").rglob("log.jsonl")
    for line in log.read_text().splitlines():
        json.loads(line, parse_constant=refuse_constant)


def test_pages_that_a_tool_read_are_a_document_for_models_that_take_one(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    (workspace / "spec.pdf").write_bytes(make_pdf("One", "Two", "Three"))
    legs: list[Voice] = [Anthropic(), Responses(), Chat(), Gemini(), Interactions()]
    read = ("read_file", {"path": "spec.pdf", "offset": 2, "limit": 2})
    _, bodies = travelled(legs, workspace, monkeypatch, [read])
    taken = 0
    for leg, (voice, body) in enumerate(zip(legs, bodies[1::2], strict=True)):
        is_text = isinstance(voice, Chat)
        taken += not is_text
        assert body.count("[pages 2-3 of 3]") == leg + 1
        # A model without a place for files reads the text of what others got as one.
        assert body.count("application/pdf") == (0 if is_text else taken)
        assert body.count("[page 2 of 3]") == (leg + 1 if is_text else leg + 1 - taken)


def test_who_comes_back_gets_its_own_signatures_and_nobody_elses(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Anthropic()
    legs: list[Voice] = [first, Responses(), Gemini(), Chat(), Interactions(), first]
    _, bodies = travelled(legs, workspace, monkeypatch)
    *_, before, last = bodies
    for body in (before, last):
        assert first.vouched(0) in body and first.vouched(1) in body
    assert first.vouched(10) in last
    for leg, voice in enumerate(legs):
        # Within its leg each gets back what it wants; Chat tells its thoughts in plain words.
        assert voice.vouched(2 * leg) in bodies[2 * leg + 1]
        if voice is not first:
            assert voice.vouched(2 * leg) not in last
