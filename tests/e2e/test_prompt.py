import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.model_client import load_system_prompt
from agentcli.system.tokens import IMAGE_TOKENS, estimate
from tests.support.pictures import png
from tests.support.program import agentcli
from tests.support.provider import Provider, answer

SYSTEM_TOKENS_MAX = 400
FIRST_REQUEST_TOKENS_MAX = 1700
REFUSED = answer({"error": {"message": "not today"}}, status=400)
OF_A_SESSION = ("prompt_cache_key", "user", "metadata")
KEYS = {
    name: "sk-test-0123456789" for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY")
}
PLACES = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GEMINI_BASE_URL")


def sent(home: Path, *arguments: str) -> Any:
    """The first body that a run sends, without what names its session."""
    with Provider([REFUSED]) as provider:
        env = {**KEYS, **dict.fromkeys(PLACES, provider.base_url)}
        agentcli("run", *arguments, home=home, env=env)
        (body,) = provider.bodies
    return without_session(body)


def without_session(body: Any) -> Any:
    return {key: value for key, value in body.items() if key not in OF_A_SESSION}


def announced(home: Path, *arguments: str) -> Any:
    ran = agentcli("prompt", "--json", *arguments, home=home, env=KEYS)
    assert (ran.code, ran.err) == (0, "")
    return without_session(json.loads(ran.out))


@pytest.mark.parametrize("model", ["opus", "sol", "flash", "openai-chat/any"])
def test_prompt_is_what_a_run_sends(tmp_path: Path, model: str) -> None:
    (tmp_path / "AGENTS.md").write_text("Run make check.\n")
    skill = tmp_path / ".agentcli/skills/release/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: release\ndescription: How to release.\n---\n")
    role = tmp_path / ".agentcli/agents/critic.md"
    role.parent.mkdir(parents=True)
    role.write_text("---\ndescription: Criticises.\n---\n")
    for mode in ("ask", "plan"):
        arguments = ("--model", model, "--mode", mode, "hello there")
        assert announced(tmp_path, *arguments) == sent(tmp_path, *arguments)


@pytest.mark.parametrize("model", ["opus", "sol", "flash", "openai-chat/any"])
def test_prompt_shows_the_image_that_a_run_sends(tmp_path: Path, model: str) -> None:
    shot = png(30, 20)
    (tmp_path / "shot.png").write_bytes(shot)
    data = base64.b64encode(shot).decode("ascii")
    shown = f"{data[:16]}… ({len(data)} characters, about {IMAGE_TOKENS} tokens)"
    arguments = ("--model", model, "see @shot.png")
    carried = json.dumps(sent(tmp_path, *arguments))
    assert carried.count(data) == 1
    assert announced(tmp_path, *arguments) == json.loads(carried.replace(data, shown))
    told = agentcli("prompt", *arguments, home=tmp_path, env=KEYS).out
    assert f"# image/png ({IMAGE_TOKENS} tokens)\n\n{shown}\n" in told


def test_prompt_warns_of_an_image_that_cannot_be_shown(tmp_path: Path) -> None:
    (tmp_path / "shot.png").write_bytes(b"no image")
    ran = agentcli("prompt", "--json", "--model", "opus", "see @shot.png", home=tmp_path, env=KEYS)
    assert (ran.code, "The image shot.png could not be attached" in ran.out) == (0, True)
    assert ran.err.startswith("warning: not attached: shot.png ")


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_prompt_for_a_model_that_does_not_exist_is_an_error(
    tmp_path: Path, options: list[str]
) -> None:
    ran = agentcli("prompt", "--model", "nope/x", *options, home=tmp_path)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("error: unknown model 'nope/x'; ")


def test_prompt_declares_the_tools_of_files_and_servers(tmp_path: Path) -> None:
    template = Path(__file__).parents[2] / "docs/templates/python-tool/count_words.py"
    settings = tmp_path / ".config/agentcli"
    (settings / "tools").mkdir(parents=True)
    (settings / "tools/count_words.py").write_text(template.read_text())
    server = Path(__file__).parents[1] / "support/mcp_servers/modern.py"
    entry = {"command": sys.executable, "args": [str(server), "stdio"], "sandbox": False}
    (settings / "mcp.json").write_text(json.dumps({"mcpServers": {"echo": entry}}))
    first = sent(tmp_path, "--model", "opus", "hello there")
    assert "count_words" in [tool["name"] for tool in first["tools"]]
    assert announced(tmp_path, "--model", "opus", "hello there") == first
    ran = agentcli("prompt", home=tmp_path)
    assert "# tool count_words, python count_words.py (" in ran.out
    sources = json.loads(agentcli("context", "--json", home=tmp_path).out)["sources"]
    assert sources["tools of python count_words.py"] > 0
    assert sources["tools of mcp echo"] > 0


def test_first_request_is_small(tmp_path: Path) -> None:
    assert estimate(load_system_prompt()) <= SYSTEM_TOKENS_MAX
    ran = agentcli("prompt", "Say hello.", home=tmp_path)
    total = int(ran.out.splitlines()[-1].removeprefix("# total: about ").split()[0])
    assert total <= FIRST_REQUEST_TOKENS_MAX


def test_prompt_writes_nothing_a_terminal_would_obey(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("\x1b]0;title\x07\x1b[2J gone\n")
    ran = agentcli("prompt", home=tmp_path)
    assert "gone" in ran.out
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("options", [(), ("--json", "--model", "opus")])
def test_hidden_values_are_hidden_as_in_what_is_sent(
    home: Path, workspace: Path, options: tuple[str, ...]
) -> None:
    (workspace / "AGENTS.md").write_text("Notes.\n@.env\n")
    (workspace / ".env").write_text("DB_PASSWORD=hunter2hunter2\n")
    shown = agentcli(
        "prompt", "API_TOKEN=zebra7zebra7", "-C", workspace, *options, home=home, env=KEYS
    )
    assert shown.code == 0
    assert "hunter2" not in shown.out
    assert "zebra7" not in shown.out
    assert shown.out.count("=\u00absecret:") == 2
