import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.pdf import make_pdf
from tests.support.pictures import png
from tests.support.program import Ran, agentcli, session_log
from tests.support.provider import Provider, answer, sse, stream
from tests.support.strict_anthropic import StrictAnthropic
from tests.support.strict_chat import by_the_book, said

SHOT = png(30, 20)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "shot.png").write_bytes(SHOT)
    return tmp_path


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider([anthropic.says("A square.")] * 3, check=StrictAnthropic()) as provider:
        yield provider


def run(provider: Provider, home: Path, *arguments: str) -> Ran:
    env = {"ANTHROPIC_API_KEY": "sk-test-0123456789", "ANTHROPIC_BASE_URL": provider.base_url}
    return agentcli("run", "--model", "opus", *arguments, home=home, cwd=home / "work", env=env)


def asked(provider: Provider) -> list[Any]:
    """The prompt and what goes with it."""
    content: list[Any] = provider.bodies[0]["messages"][0]["content"]
    return [{key: block[key] for key in block if key != "cache_control"} for block in content]


def image(data: bytes, media_type: str = "image/png") -> dict[str, Any]:
    encoded = base64.b64encode(data).decode("ascii")
    source = {"type": "base64", "media_type": media_type, "data": encoded}
    return {"type": "image", "source": source}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_image_that_the_prompt_mentions_goes_with_it(provider: Provider, home: Path) -> None:
    ran = run(provider, home, "what is in @shot.png?")
    assert (ran.code, ran.out) == (0, "A square.\n"), ran.err
    assert asked(provider) == [
        text("what is in @shot.png?"),
        text("[image shot.png · 30x20]"),
        image(SHOT),
    ]


def test_images_that_are_named_go_with_the_prompt_from_anywhere(
    provider: Provider, home: Path
) -> None:
    (home / "wide.png").write_bytes(png(4000, 10))
    named = ("--image", str(home / "wide.png"), "--image", "shot.png")
    assert run(provider, home, *named, "compare").code == 0
    prompt, wide, scaled, shot, kept = asked(provider)
    assert [prompt, wide, shot, kept] == [
        text("compare"),
        text("[image wide.png · 4000x10, shown as 2000x5]"),
        text("[image shot.png · 30x20]"),
        image(SHOT),
    ]
    assert scaled["source"]["media_type"] == "image/png"


def test_mention_that_is_no_image_is_said_and_the_run_goes_on(
    provider: Provider, home: Path
) -> None:
    (home / "work" / "bad.png").write_text("words")
    (home / "outside.png").write_bytes(SHOT)
    (home / "work" / "out.png").symlink_to(home / "outside.png")
    ran = run(provider, home, f"look at @bad.png, @out.png, @none.png and {home}/outside.png")
    assert ran.code == 0, ran.err
    assert "warning: not attached: bad.png is not a PNG, JPEG, GIF or WebP image\n" in ran.err
    assert "warning: not attached: out.png leads out of the workspace\n" in ran.err
    assert [block["type"] for block in asked(provider)] == ["text"] * 3
    assert asked(provider)[1] == text(
        "[The image bad.png could not be attached: it is not a PNG, JPEG, GIF or WebP image.]"
    )


def test_named_file_that_is_no_image_is_refused_before_anything_is_sent(
    provider: Provider, home: Path
) -> None:
    ran = run(provider, home, "--image", "missing.png", "go")
    assert ran.code == 2
    assert "error: missing.png cannot be read: no such file or directory" in ran.err
    assert provider.requests == []


def test_image_stays_in_a_session_that_is_resumed_forked_exported_and_replayed(
    provider: Provider, home: Path
) -> None:
    assert run(provider, home, "what is in @shot.png?").code == 0
    assert run(provider, home, "--continue", "and now?").code == 0
    again = json.dumps(provider.bodies[1])
    encoded = base64.b64encode(SHOT).decode("ascii")
    assert again.count(encoded) == 1
    assert provider.complaints == []
    log = session_log(home)
    assert agentcli("replay", log, home=home).code == 0
    assert agentcli("triage", log, home=home).code == 0
    page = agentcli("export", log, "--format", "html", home=home)
    assert encoded in page.out, page.err
    words = agentcli("export", log, "--format", "markdown", home=home)
    assert "image shot.png · 30x20" in words.out, words.err
    with Provider([anthropic.says("A circle.")], check=StrictAnthropic()) as other:
        env = {"ANTHROPIC_API_KEY": "sk-test-0123456789", "ANTHROPIC_BASE_URL": other.base_url}
        forked = agentcli("fork", log, "--at", "1", home=home, env=env)
    assert forked.code == 0, forked.err
    assert asked(other) == asked(provider)


def test_model_that_takes_no_images_is_told_that_there_is_one(home: Path) -> None:
    models = answer({"data": [{"id": "qwen", "max_model_len": 32_768}]})
    reply = stream(sse(by_the_book(said("I cannot see it.")), named=False, done=True))
    with Provider([reply, models]) as provider:
        ran = agentcli(
            *("run", "--model", "vllm/qwen", "what is in @shot.png?"),
            home=home,
            cwd=home / "work",
            env={"VLLM_BASE_URL": provider.base_url},
        )
    assert ran.code == 0, ran.err
    assert "warning: vllm/qwen cannot see images; it gets a note instead" in ran.err
    asked = json.dumps(provider.bodies[0], ensure_ascii=False)
    assert "An image (image/png) was here. This model cannot see it." in asked


def test_pages_that_the_prompt_mentions_go_as_a_document(provider: Provider, home: Path) -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    (home / "work" / "spec.pdf").write_bytes(make_pdf("One", "Two"))
    ran = run(provider, home, "what says @spec.pdf#2?")
    assert ran.code == 0, ran.err
    prompt, label, document = asked(provider)
    assert (prompt, label) == (text("what says @spec.pdf#2?"), text("[spec.pdf · page 2 of 2]"))
    assert (document["type"], document["title"]) == ("document", "spec.pdf")
    again = agentcli("replay", "--check", session_log(home).parent.name, home=home)
    assert again.code == 0, again.out


def test_more_pages_than_a_provider_takes_give_way(home: Path) -> None:
    pytest.importorskip("pypdf", reason="pypdf is not installed")
    (home / "work" / "spec.pdf").write_bytes(make_pdf(*("word " * 400 for _ in range(10))))
    read = anthropic.calls(anthropic.call("toolu_1", "read_file", {"path": "spec.pdf"}))
    message = "messages.2.content.0.pdf: A maximum of 100 PDF pages may be provided."
    error = {"type": "invalid_request_error", "message": message}
    refused = answer({"type": "error", "error": error}, status=400)
    replies = [read, refused, anthropic.says("Read.")]
    with Provider(replies) as provider:
        ran = run(provider, home, "what says spec.pdf?")
    assert ran.code == 0, ran.err
    count = [json.dumps(body).count('"application/pdf"') for body in provider.bodies]
    assert count == [0, 1, 0]
